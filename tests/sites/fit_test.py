"""Tests for experiments.sites.fit, with sites of this process in the place of the network."""

import contextlib
import json
import os
import sys
import types
from unittest import mock

from absl.testing import absltest
import numpy as np

from experiment_shell import finished_run
from experiment_shell import tidy_experiment
from experiment_shell import tidy_report
from experiments.sites import fit as fit_lib
from fl_clustering import load_model
from fl_clustering.kmeans import FederatedKMeans
from fl_clustering.sites import federation as federation_lib
from fl_clustering.sites import nvflare_kit
from fl_clustering.sites import site_folder
from tests.sites import sample_sites

# It takes NVFlare.
_OPERATOR = "fl_clustering.sites.nvflare_operator"
_BOUNDS = {"minimum": -40, "maximum": 40}


class FitTest(absltest.TestCase):

  def _run(self, privacy, **settings):
    """Runs the experiment; returns the sites and the finished run."""
    folder = self.create_tempdir().full_path
    schema, path = os.path.join(folder, "schema.json"), os.path.join(folder, "federation.json")
    with open(schema, "w", encoding="utf-8") as file:
      json.dump({"fields": [
          {"name": name, "type": "number", "constraints": _BOUNDS} for name in "abcde"
      ]}, file)
    rows = sample_sites.rows_of(3)
    if privacy is not None:  # In the schema's units.
      rows = {name: own / _BOUNDS["maximum"] for name, own in rows.items()}
    sites = sample_sites.make(folder, privacy=privacy, rows=rows)
    sites.federation = federation_lib.Federation({
        **sites.federation.document,
        "schema": federation_lib.schema_hash(site_folder.read_schema(schema)),
    })
    for name in sites.by_name.copy():
      sites.open(name)
    sites.federation.write(path)
    operator = types.SimpleNamespace(exchange=sites.exchange)
    carrier = types.SimpleNamespace(
        open_operator=lambda *unused_arguments: contextlib.nullcontext(operator)
    )
    output = os.path.join(folder, "out")
    # Not by `patch.dict`, which would take away what is imported meanwhile.
    sys.modules[_OPERATOR] = carrier
    self.addCleanup(sys.modules.pop, _OPERATOR, None)
    with mock.patch.object(nvflare_kit, "check_operator"):
      tidy_experiment.run(
          fit_lib.EXPERIMENT, fit_lib.Config(4, **settings), output, federation=path,
          schema=schema, kit="kit", seconds=1.0, seconds_to_join=1.0,
      )
    finished = finished_run.FinishedRun(output)
    tidy_report.report(fit_lib.EXPERIMENT, finished)
    return sites, finished

  def test_an_exact_fit_says_so_and_its_model_predicts(self):
    sites, finished = self._run(None)
    one = FederatedKMeans(4).fit(sites.rows)
    model = load_model.load_model(finished.path)

    np.testing.assert_array_equal(model.centroids, one.cluster_centers_)
    np.testing.assert_array_equal(
        model.model.assign(sites.rows["east"]), one.predict({"east": sites.rows["east"]})["east"]
    )
    text = tidy_report.text(fit_lib.EXPERIMENT, finished)
    self.assertIn("EXACT", text)
    for what in ("hello", "keys", "ChildSums", "Scores"):
      self.assertIn(what, text)

  def test_a_private_fit_takes_half_of_the_epsilon_and_its_model_is_in_the_schemas_units(self):
    privacy = {**sample_sites.PRIVATE, "radius": 0.5}
    sites, finished = self._run(privacy)
    model = load_model.load_model(finished.path)
    text = tidy_report.text(fit_lib.EXPERIMENT, finished)

    self.assertIn("(2, 1e-06)-differential privacy", text)
    self.assertNotIn("EXACT", text)
    np.testing.assert_allclose(
        model.tables.scaling(np.full((1, 5), 20.0)), np.full((1, 5), 0.5)
    )
    spent, budget = sites.by_name["east"].budget
    self.assertBetween(spent / budget, 0.2, 0.5)

  def test_settings_that_do_not_fit_the_file_are_refused_before_anyone_is_asked(self):
    for privacy, settings, name in (
        (None, {"epsilon": 1.0}, "epsilon"), (sample_sites.PRIVATE, {"epsilon": 5.0}, "epsilon"),
    ):
      with self.assertRaisesRegex(Exception, f"`{name}` must"):
        self._run(privacy, **settings)


if __name__ == "__main__":
  absltest.main()

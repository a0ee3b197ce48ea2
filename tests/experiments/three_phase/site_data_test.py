"""Tests for experiments.three_phase.site_data."""

from unittest import mock

from absl.testing import absltest
from absl.testing import flagsaver

from experiment_shell import launch
from experiments import site_runs
from experiments import three_phase_emnist
from experiments.three_phase import site_data
from fl_clustering.distribution import dealing
from fl_clustering.distribution import remote_worker


def _document(client_id):
  return {"clients": {client_id: {"num_rows": 4}}, "digest": f"digest of {client_id}"}


_OPENED = site_runs.OpenSites({"x:1": _document("south"), "y:1": _document("north")}, (), ())
_DATA = {
    "sites": _OPENED.describe(), "features": ["age"], "levels": {}, "classes": ["no", "yes"],
}


class LoadTest(absltest.TestCase):

  def _load(self, recorded, *lost):
    """Loads data while sites are lost one after another."""
    left = list(lost)

    def config_of(unused_settings, sites):
      return mock.Mock(num_clients=sites.num_clients)

    def inputs(opened, config, data, begins_again=False):
      if left:
        raise dealing.SiteMissing(remote_worker.RemoteWorker(left.pop(0), 1, None), 1)
      return site_data.SiteInputs(opened, config, None, data, begins_again)

    def join(documents):
      encoding = mock.Mock(feature_names=["age"], levels={})
      format_ = mock.Mock(classes=["no", "yes"], encoding=encoding)
      return mock.Mock(format=format_, num_clients=len(documents))

    with (
        mock.patch.object(site_runs, "joined_sites", mock.Mock(join=join)),
        mock.patch.object(site_data, "config_of", config_of),
        mock.patch.object(site_data, "_inputs", inputs),
        mock.patch.object(site_data.data_lib, "check_recorded"),
        mock.patch.object(site_data.SiteInputs, "describe"),
    ):
      opened = site_runs.OpenSites(_OPENED.documents, (), ())
      return site_data.load(opened, {}, recorded)

  def _recorded(self, *clients):
    return {"data": _DATA, "dataset": {"missing_sites": {"clients": list(clients)}}}

  def test_a_site_that_is_lost_ends_the_run(self):
    with self.assertRaisesRegex(dealing.SiteMissing, "x:1"):
      self._load(None, "x:1")

  @flagsaver.flagsaver(missing_sites="skip")
  def test_a_site_that_is_lost_is_skipped(self):
    for recorded, begins_again in (
        (None, True), (self._recorded(), True), (self._recorded("south"), False),
    ):
      inputs = self._load(recorded, "x:1")
      self.assertEqual(list(inputs.opened.documents), ["y:1"])
      self.assertEqual(inputs.opened.summary(), {"addresses": ["x:1"], "clients": ["south"]})
      self.assertEqual(inputs.config.num_clients, 1)
      # The run can be resumed with all sites.
      self.assertEqual(inputs.data, _DATA)
      self.assertEqual(inputs.begins_again, begins_again)

  def test_nothing_is_lost(self):
    for recorded, begins_again in (
        (None, False), (self._recorded(), False), (self._recorded("south"), True),
    ):
      inputs = self._load(recorded)
      self.assertEqual(list(inputs.opened.documents), ["x:1", "y:1"])
      self.assertEqual(inputs.begins_again, begins_again)

  def test_a_site_that_is_lost_ends_the_program_as_a_failure(self):
    program = three_phase_emnist.AtSites.__new__(three_phase_emnist.AtSites)
    program._opened, program._settings = _OPENED, {}
    lost = dealing.SiteMissing(remote_worker.RemoteWorker("x:1", 1, None), 1)
    with (
        mock.patch.object(three_phase_emnist.data, "check_reuse"),
        mock.patch.object(site_data, "load", side_effect=lost),
        self.assertRaisesRegex(launch.RunFailed, "^the site at x:1 .* within 1 s"),
    ):
      program.load(None, None, None)


if __name__ == "__main__":
  absltest.main()

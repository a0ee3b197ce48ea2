import csv
import dataclasses
import io

from absl.testing import absltest
import numpy as np
import pandas as pd

from experiments.three_phase import profiles
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tasks import files
from fl_clustering.tasks import task_options
from fl_clustering.three_phase import saved_clusters

_CLUSTERS = {"a": (0,), "b": (1,), "c": (0, 1), "d": (1,)}


def _frames():
  """Returns clients' tables; the last two rows of each are for testing."""
  rng = np.random.default_rng(0)
  return {
      client_id: pd.DataFrame({
          # Where b has zeros, float32 has none.
          "dose": np.zeros(20) if client_id in "bd" else rng.normal(230, 80, 20).round(1),
          "year": rng.integers(1990, 2020, 20),
          "same": np.full(20, 7),
          "ward": rng.choice(["north", "south"], 20),
          "sick": rng.choice(["yes", "no"], 20),
          "part": ["train"] * 18 + ["test"] * 2,
      })
      for client_id in _CLUSTERS
  }


class ProfilesTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    folder = self.create_tempdir()
    self.frames = _frames()
    for client_id, frame in self.frames.items():
      folder.create_file(f"{client_id}.csv", frame.to_csv(index=False))
    task = files.load_task(task_options.TaskOptions(
        dataset="files", data_dir=folder.full_path, model="logistic",
        schema=schema_lib.Schema(
            (
                *map(schema_lib.Field, ("dose", "year", "same")),
                schema_lib.Field("ward", "string", enum=("north", "south")),
                schema_lib.Field("sick", "string"), schema_lib.Field("part", "string"),
            ), label="sick", split="part",
        ),
    ))
    # What comes later has no part in the profiles.
    *clients, new = task.clients
    self.task = dataclasses.replace(task, clients=tuple(clients), new_clients=(new,))
    self.saved = saved_clusters.SavedClusters(
        "kmeans", np.zeros((2, task.num_parameters), np.float32), _CLUSTERS, task.tables,
        {"name": "logistic"},
    )
    text = profiles.profiles_text(self.task, self.saved)
    self.rows = list(csv.DictReader(io.StringIO(text)))

  def test_moments_are_those_of_the_training_rows_in_the_data_s_units(self):
    for cluster, members in enumerate(("ac", "bc")):
      rows = pd.concat([self.frames[client_id][:18] for client_id in members])
      found = {row["feature"]: row for row in self.rows if row["cluster"] == str(cluster)}
      self.assertCountEqual(found, ["dose", "year", "same", "ward=north", "ward=south"])
      for name, values in (
          ("dose", rows["dose"]), ("year", rows["year"]), ("same", rows["same"]),
          ("ward=north", rows["ward"] == "north"),
      ):
        self.assertEqual(found[name]["num_rows"], "36")
        self.assertAlmostEqual(float(found[name]["mean"]), values.mean(), delta=1e-3)
        self.assertAlmostEqual(
            float(found[name]["standard_deviation"]), values.std(ddof=0), delta=1e-3
        )

  def test_zeros_and_constants_are_exact(self):
    only = dataclasses.replace(self.saved, clusters={**_CLUSTERS, "c": (0,)})
    text = profiles.profiles_text(self.task, only)
    found = {(row["cluster"], row["feature"]): row for row in csv.DictReader(io.StringIO(text))}
    for place, mean in ((("1", "dose"), "0"), (("0", "same"), "7"), (("1", "same"), "7")):
      self.assertEqual((found[place]["mean"], found[place]["standard_deviation"]), (mean, "0"))


if __name__ == "__main__":
  absltest.main()

"""Tests for experiments.kmeans.config."""

import dataclasses

from absl.testing import absltest
from absl.testing import parameterized

from experiments.kmeans import config
from fl_clustering.kmeans import kmeans_config
from fl_clustering.points import privacy
from fl_clustering.tables import schema as schema_lib

_PRIVATE = {"num_clusters": 4, "epsilon": 1.0, "delta": 1e-6, "radius": 3.0}
_SCHEMA = schema_lib.Schema((
    schema_lib.Field("x", minimum=0, maximum=9), schema_lib.Field("who", "string"),
), key="who")


def _own(**settings):
  return config.OwnDataConfig(**{"schema": _SCHEMA, **settings})


class OwnDataConfigTest(parameterized.TestCase):

  def test_settings_reach_the_algorithm(self):
    self.assertEqual(_own().candidates, tuple(range(2, 11)))
    self.assertEqual(_own(k_range=(3, 4)).candidates, (3, 4))
    self.assertEqual(_own(num_clusters=7).candidates, (7,))
    self.assertEqual(_own(num_clusters=3).kmeans(3), kmeans_config.KMeansConfig(3))
    self.assertEqual(
        _own(algorithm="fkm", n_init=3, min_count=4, standardize=True, seed=5).kmeans(6),
        kmeans_config.KMeansConfig(
            6, kmeans_config.Fkm(n_init=3, min_count=4), standardize=True, seed=5
        ),
    )

  @parameterized.parameters(
      ({}, privacy.PointPrivacy(1.0, 1e-6, 3.0)),
      ({"trust": "none"}, privacy.PointPrivacy(1.0, 1e-6, 3.0, "none")),
      ({"max_points": 9}, privacy.ClientPrivacy(1.0, 1e-6, 3.0, 9)),
      ({"trust": "none", "min_clients": 4}, privacy.PointPrivacy(1.0, 1e-6, 3.0, "none", 4)),
      ({"max_points": 9, "trust": "none", "min_clients": 4},
       privacy.ClientPrivacy(1.0, 1e-6, 3.0, 9, "none", 4)),
  )
  def test_privacy_reaches_the_algorithm(self, settings, expected):
    self.assertEqual(_own(**_PRIVATE, **settings).kmeans(4).privacy, expected)

  def test_a_private_run_does_not_tell_that_there_are_few_points(self):
    _own(**_PRIVATE).check_enough_points(0)
    with self.assertRaisesRegex(ValueError, "`num_clusters`"):
      _own(num_clusters=4).check_enough_points(0)

  @parameterized.parameters(
      ("k_range", {"num_clusters": 3, "k_range": (2, 4)}), ("k_range", {"k_range": (1, 4)}),
      ("k_range", {"k_range": (5, 4)}), ("num_clusters", {"num_clusters": 0}),
      ("min_count", {"algorithm": "fkm", "min_count": 1}),  # Raw rows.
      ("min_count", {"algorithm": "lloyd", "min_count": 3}), ("min_count", {"min_count": 2}),
      ("n_init", {"n_init": 3}),
      *((name, {name: value}) for name, value in {
          "radius": 3.0, "trust": "none", "delta": 1e-6, "max_points": 5, "min_clients": 5,
      }.items()),
      ("min_clients", {**_PRIVATE, "min_clients": 5}),
      ("min_clients", {**_PRIVATE, "trust": "none", "min_clients": 0}),
      *((name, {**_PRIVATE, name: None}) for name in ("radius", "delta", "num_clusters")),
      ("k_range", {**_PRIVATE, "num_clusters": None, "k_range": (2, 4)}),
      ("standardize", {**_PRIVATE, "standardize": True}),
      ("epsilon", {**_PRIVATE, "algorithm": "fkm"}), ("n_init", {**_PRIVATE, "n_init": 2}),
      ("epsilon", {**_PRIVATE, "epsilon": -1.0}), ("epsilon", {**_PRIVATE, "epsilon": 0.0}),
      ("delta", {**_PRIVATE, "delta": 1.0}), ("max_points", {**_PRIVATE, "max_points": 0}),
      (r"fields\[z\]", {**_PRIVATE, "schema": schema_lib.strict(("z",))}),
      # Rows that say which clients there are.
      ("client", {**_PRIVATE, "schema": dataclasses.replace(_SCHEMA, key=None, client="who")}),
  )
  def test_refuses(self, name, settings):
    with self.assertRaisesRegex(ValueError, f"^`{name}`"):
      _own(**settings)


if __name__ == "__main__":
  absltest.main()

import dataclasses

from absl.testing import parameterized

from experiments.cluster_tables import config
from fl_clustering.kmeans import kmeans_config
from fl_clustering.multiview import multiview_config
from fl_clustering.points import privacy
from fl_clustering.tables import schema as schema_lib

_MIXED = schema_lib.Schema((
    schema_lib.Field("x"), schema_lib.Field("level", "string", enum=("u", "v")),
))
_PRIVATE = {"num_clusters": 4, "epsilon": 1.0, "delta": 1e-6, "radius": 3.0}
_SCHEMA = schema_lib.Schema((
    schema_lib.Field("x", minimum=0, maximum=9), schema_lib.Field("who", "string"),
), key="who")
_VIEW = schema_lib.Schema((schema_lib.Field("x", minimum=0, maximum=9),))


def _own(**settings):
  schema = settings.pop("schema", _SCHEMA)
  return config.Config({schema_lib.NO_VIEW: schema}, **settings)


def _views(**settings):
  return config.Config({"v": _VIEW, "w": _VIEW}, **settings)


class ConfigTest(parameterized.TestCase):

  def test_settings_reach_the_algorithm(self):
    self.assertEqual(_own().candidates, tuple(range(2, 11)))
    self.assertEqual(_own(k_range=(3, 4)).candidates, (3, 4))
    self.assertEqual(_own(num_clusters=7).candidates, (7,))
    self.assertEqual(_own(num_clusters=3).settings(3, False), kmeans_config.KMeansConfig(3))
    self.assertEqual(
        _own(standardize=True, seed=5, schema=_MIXED).settings(6, False),
        kmeans_config.KMeansConfig(6, standardize=True, field_widths=(1, 2), seed=5),
    )
    found = _views(num_clusters=3, view_weights="mvkm", alpha=3.0).settings(3, False)
    self.assertEqual(found, multiview_config.MultiViewConfig(
        3, view_weights="mvkm", alpha=3.0, field_widths=(1, 1)
    ))
    self.assertEqual(
        _views(num_clusters=3, standardize=False).settings(3, False),
        multiview_config.MultiViewConfig(3, standardize=False),
    )
    self.assertEqual(
        config.Config({"v": _VIEW}, num_clusters=3).settings(3, False),
        multiview_config.MultiViewConfig(3, field_widths=(1,)),
    )

  @parameterized.parameters(
      ({}, privacy.PointPrivacy(1.0, 1e-6, 3.0)),
      ({"trust": "none"}, privacy.PointPrivacy(1.0, 1e-6, 3.0, "none")),
      ({"max_points": 9}, privacy.ClientPrivacy(1.0, 1e-6, 3.0, 9)),
      ({"public_num_points": 500}, privacy.PointPrivacy(1.0, 1e-6, 3.0, public_num_points=500)),
      ({"trust": "none", "min_clients": 4}, privacy.PointPrivacy(1.0, 1e-6, 3.0, "none", 4)),
      ({"max_points": 9, "trust": "none", "min_clients": 4},
       privacy.ClientPrivacy(1.0, 1e-6, 3.0, 9, "none", 4)),
  )
  def test_privacy_reaches_the_algorithm(self, settings, expected):
    self.assertEqual(_own(**_PRIVATE, **settings).settings(4, True).privacy, expected)

  def test_privacy_of_views_has_a_norm_for_each(self):
    settings = {"num_clusters": 4, "epsilon": 1.0, "delta": 1e-6}
    for norms, expected in ((None, [9 / 4.5 / 2] * 2), ((0.5, 0.25), [0.5, 0.25])):
      found = _views(**settings, view_norms=norms).settings(4, True)
      self.assertEqual(found.privacy, privacy.ViewPrivacy(1.0, 1e-6, expected))
      self.assertEqual((found.n_init, found.tol, found.standardize), (1, 0, False))

  @parameterized.parameters(
      ("k_range", {"num_clusters": 3, "k_range": (2, 4)}), ("k_range", {"k_range": (1, 4)}),
      ("k_range", {"k_range": (5, 4)}), ("num_clusters", {"num_clusters": 0}),
      ("view_weights", {"view_weights": "mvkm"}), ("num_clusters", {"at_sites": True}),
      ("min_clients", {"at_sites": True, "num_clusters": 3, "min_clients": 2}),
      *((name, {name: value}) for name, value in {
          "radius": 3.0, "trust": "none", "delta": 1e-6, "max_points": 5, "min_clients": 5,
      }.items()),
      ("delta", {"delta": 0.0}), ("max_points", {"max_points": 0}),  # 0 is a value, too.
      ("min_clients", {**_PRIVATE, "min_clients": 5}),
      ("min_clients", {**_PRIVATE, "trust": "none", "min_clients": 0}),
      *((name, {**_PRIVATE, name: None}) for name in ("delta", "num_clusters")),
      ("k_range", {**_PRIVATE, "num_clusters": None, "k_range": (2, 4)}),
      ("standardize", {**_PRIVATE, "standardize": True}),
      ("epsilon", {**_PRIVATE, "epsilon": -1.0}), ("epsilon", {**_PRIVATE, "epsilon": 0.0}),
      ("delta", {**_PRIVATE, "delta": 1.0}), ("max_points", {**_PRIVATE, "max_points": 0}),
      (r"fields\[z\]\.constraints", {**_PRIVATE, "schema": schema_lib.strict(("z",))}),
      # Rows that say which clients there are.
      ("client", {**_PRIVATE, "schema": dataclasses.replace(_SCHEMA, key=None, client="who")}),
  )
  def test_refuses(self, name, settings):
    with self.assertRaisesRegex(ValueError, f"^`{name}`"):
      _own(**settings)

  @parameterized.parameters(
      ("num_clusters", {"num_clusters": None}), ("max_points", {"max_points": 3}),
      ("alpha", {"alpha": 2.0}), ("alpha", {"view_weights": "mvkm", "alpha": 1.0}),
      ("view_norms", {"view_norms": (1.0,), "epsilon": 1.0, "delta": 1e-6}),
      ("radius", {"radius": 1.0, "epsilon": 1.0, "delta": 1e-6}),
      ("view_weights", {"view_weights": "regret", "epsilon": 1.0, "delta": 1e-6}),
  )
  def test_refuses_of_views(self, name, settings):
    with self.assertRaisesRegex(ValueError, f"^`{name}`"):
      _views(**{"num_clusters": 3, **settings})

import itertools
import math

from absl.testing import parameterized
import numpy as np
import pandas as pd

from fl_clustering.tables import encode
from fl_clustering.tables import saved
from fl_clustering.tables import schema as schema_lib

_AGE = schema_lib.Field("age", minimum=20, maximum=80)
_FAR = schema_lib.Field("far", minimum=80, maximum=90, center=70, scale=10)
_ANY = schema_lib.Field("any", center=5, scale=2)
_ILL = schema_lib.Field("ill", "boolean")
_SEX = schema_lib.Field("sex", "string", enum=("f", "m"))
_KIND = schema_lib.Field("kind", "string", enum=("a", "b", "c"))


class NormBoundsTest(parameterized.TestCase):

  @parameterized.parameters(
      ((_AGE,),), ((_AGE, _FAR),), ((_AGE, _ILL, _SEX),), ((_KIND, _SEX, _FAR),),
  )
  def test_are_those_of_the_rows_that_the_schema_allows(self, fields):
    schema = schema_lib.Schema(fields)
    cells = [
        field.enum or np.linspace(*encode.bounds(schema_lib.Schema((field,))), 31).ravel()
        for field in fields
    ]
    table = pd.DataFrame(itertools.product(*cells), columns=[field.name for field in fields])
    columns = {name: table[name].to_numpy() for name in table}
    scaled = encode.public_scaling(schema).apply(encode.numbers(columns, schema))
    norms = np.linalg.norm(scaled, axis=1)
    least, largest = encode.norm_bounds(schema)
    self.assertAlmostEqual(norms.max(), largest)
    self.assertAlmostEqual(norms.min(), least)

  def test_of_numbers_the_radius_is_the_root_of_their_number(self):
    fields = tuple(schema_lib.Field(name, minimum=-3, maximum=30) for name in "abcde")
    self.assertAlmostEqual(encode.norm_bounds(schema_lib.Schema(fields))[1], math.sqrt(5))

  @parameterized.parameters(
      ((_ANY, _AGE), None), ((_FAR,), 0.999), ((_SEX, _AGE), 0.5), ((_AGE,), 0.0), ((_AGE,), -1.0)
  )
  def test_a_radius_that_cuts_every_row_is_refused(self, fields, radius):
    with self.assertRaisesRegex(ValueError, "`radius` must"):
      encode.checked_norms({schema_lib.NO_VIEW: schema_lib.Schema(fields)}, radius, None)
    shortest = {schema_lib.NO_VIEW: schema_lib.Schema((_FAR,))}
    self.assertEqual(encode.checked_norms(shortest, 1.0, None), ({"radius": 1.0}, []))

  def test_a_radius_is_told_that_makes_noise_for_nothing(self):
    for field, radius, num_warnings in ((_FAR, 5**0.5, 0), (_FAR, 3.0, 1), (_ANY, 1e3, 0)):
      schemas = {schema_lib.NO_VIEW: schema_lib.Schema((field, _AGE))}
      norms, warnings = encode.checked_norms(schemas, radius, None)
      self.assertEqual((norms, len(warnings)), ({"radius": radius}, num_warnings))

  def test_norms_of_views_are_the_radii_of_their_schemas(self):
    schemas = {"a": schema_lib.Schema((_FAR,)), "b": schema_lib.Schema((_AGE, _FAR))}
    largest = [encode.norm_bounds(one)[1] for one in schemas.values()]
    self.assertEqual(encode.checked_norms(schemas, None, None), ({"view_norms": largest}, []))
    norms, warnings = encode.checked_norms(schemas, None, [1.5, 9.0])
    self.assertEqual(norms, {"view_norms": [1.5, 9.0]})
    (warning,) = warnings
    self.assertStartsWith(warning, "b: ")

  @parameterized.parameters(
      (("",), None, (1.0,), "view_norms"), (("",), 0.5, None, "radius"),
      (("a", "b"), 2.0, None, "radius"), (("a", "b"), None, (1.5,), "view_norms"),
      (("a", "b"), None, (1.5, 0.5), "view_norms"),
  )
  def test_norms_that_do_not_fit_the_schemas_are_refused(self, views, radius, view_norms, name):
    schemas = dict.fromkeys(views, schema_lib.Schema((_FAR,)))
    with self.assertRaisesRegex(ValueError, f"`{name}` must"):
      encode.checked_norms(schemas, radius, view_norms)

  def test_what_is_not_public_is_named(self):
    for schema in (
        schema_lib.Schema((_AGE, schema_lib.Field("x"))),
        schema_lib.Schema((_AGE, schema_lib.Field("x", "string")), label="x"),
    ):
      with self.assertRaisesRegex(ValueError, r"`fields\[x\]"):
        encode.public_scaling(schema)

  def test_ranges_are_those_of_the_bounds_or_twice_the_scale(self):
    tables = saved.SavedTables.private(
        {schema_lib.NO_VIEW: schema_lib.Schema((_AGE, _ANY, _ILL, _KIND))}
    )
    np.testing.assert_allclose(tables.ranges, [60, 4, 1, 1, 1, 1])

  def test_far_bounds_count_as_five_units(self):
    schemas = {schema_lib.NO_VIEW: schema_lib.Schema((
        schema_lib.Field("x", minimum=0, maximum=1000, center=10, scale=5),
        schema_lib.Field("y", minimum=-1000, center=10, scale=5),
    ))}
    tables = saved.SavedTables.private(schemas)
    features = tables.features(np.array([[0, 30], [1000, -1000], [1000, 1e9]]))
    np.testing.assert_allclose(features, [[-2, 4], [5, -5], [5, 5]])
    np.testing.assert_allclose(tables.bounds, [[0, -15], [35, math.inf]])
    shorter = schema_lib.Schema(schemas[schema_lib.NO_VIEW].fields[:1])
    self.assertEqual(
        encode.checked_norms({schema_lib.NO_VIEW: shorter}, None, None), ({"radius": 5.0}, [])
    )


class EncodeTest(parameterized.TestCase):

  _SCHEMA = schema_lib.Schema((
      schema_lib.Field("x"), schema_lib.Field("c", "string", enum=("v", "u")),
      schema_lib.Field("n", "integer", minimum=0, maximum=10), schema_lib.Field("b", "boolean"),
      schema_lib.Field("y", "string"),
  ), label="y")
  _COLUMNS = {
      "y": np.array(["10", "9", "ill"]), "b": np.array([1.0, 0.0, np.nan]),
      "n": np.array([0.0, 10.0, np.nan]), "x": np.array([3.0, np.nan, 5.0]),
      "c": np.array(["u", None, "v"]),
  }
  _FEATURES = np.array(
      [[3, 0, 1, 0, 1], [np.nan, np.nan, np.nan, 10, 0], [5, 1, 0, np.nan, np.nan]]
  )

  def test_features(self):
    np.testing.assert_array_equal(encode.numbers(self._COLUMNS, self._SCHEMA), self._FEATURES)
    self.assertLen(self._SCHEMA.feature_names, 5)

  def test_positions(self):
    np.testing.assert_array_equal(encode.positions(self._COLUMNS["y"], ("9", "10")), [1, 0, -1])

  def test_order_is_of_numbers_and_then_of_texts(self):
    found = encode.in_order(["ill", "10", "a", "9", "-1"])
    self.assertEqual(found, ("-1", "9", "10", "a", "ill"))

  def test_scaling_is_that_of_all_rows_together(self):
    blocks = [self._FEATURES[:1], self._FEATURES[1:]]
    scaling = encode.standard_scaling(lambda: blocks, self._SCHEMA)
    means = encode.means(blocks, self._SCHEMA.feature_names)
    np.testing.assert_allclose(means, np.nanmean(self._FEATURES, axis=0))
    filled = np.where(np.isnan(self._FEATURES), means, self._FEATURES)
    expected = (filled - means) / filled.std(axis=0)
    expected[:, 3] = (filled[:, 3] - 5) / 5  # The schema's.
    np.testing.assert_allclose(scaling.apply(self._FEATURES), expected, atol=1e-12)

  @parameterized.parameters(0.0, 0.1, 1e9 + 0.1)
  def test_constant_features_become_zero(self, value):
    blocks = [np.full((7, 5), value)]
    scaling = encode.standard_scaling(lambda: blocks, self._SCHEMA)
    np.testing.assert_array_equal(scaling.apply(blocks[0])[:, [0, 1, 2, 4]], 0)

  def test_a_feature_without_a_value_is_named(self):
    with self.assertRaisesRegex(ValueError, "'n'"):  # The others have one row's.
      encode.means([self._FEATURES[2:]], self._SCHEMA.feature_names)

"""Tests for fl_clustering.distribution.sites and agreement."""

import json

from absl.testing import absltest
from absl.testing import parameterized

from fl_clustering.distribution import site_folder
from fl_clustering.distribution import sites
from fl_clustering.tables import client_tables
from fl_clustering.tables import table_options
from fl_clustering.tables import view_tables
from tests.distribution import data_folders

_NORTH = "age,sex,died\n50,f,yes\n61.5,m,no\n"
_EAST = "age,sex,died\n70,m,yes\n43,f,no\n"
_OPTIONS = {"categories": ("sex",), "label_column": "died"}


class SitesTestCase(parameterized.TestCase):

  def site(self, files, classes=None, levels=None, **options):
    """Returns what a site of some files says of itself, as it comes through JSON."""
    site = site_folder.open_site(
        data_folders.write(self, files), self.create_tempdir().full_path,
        table_options.TableOptions(**options), classes, levels,
    )
    return json.loads(json.dumps(site.to_json()))

  def folder(self, files):
    return data_folders.write(self, files)


class JoinTest(SitesTestCase):

  def test_clients_and_columns_are_those_of_one_folder(self):
    one = {"site_2.csv": _NORTH, "site_9.csv": _EAST}
    other = {"site_10.csv": _NORTH + "1,f,no\n", "site_1.csv": _EAST}
    joined = sites.join({
        "h:1": self.site(one, **_OPTIONS), "h:2": self.site(other, **_OPTIONS),
    })
    expected = client_tables.open_folder(
        self.folder(one | other), table_options.TableOptions(**_OPTIONS)
    )
    self.assertEqual(list(joined.num_rows.items()), list(expected.num_rows.items()))
    self.assertEqual(joined.format.to_json(), expected.format.to_json())
    self.assertEqual(joined.format.columns, expected.format.columns)
    self.assertEqual(
        joined.addresses, {"site_1": "h:2", "site_2": "h:1", "site_9": "h:1", "site_10": "h:2"}
    )
    self.assertEqual(joined.num_columns, 3)

  def test_views_are_those_of_one_folder(self):
    one = {"b/y.csv": "v\n1\n", "b/x.csv": "t,u\n1,2\n"}
    other = {"a/y.csv": "v\n4\n", "a/x.csv": "t,u\n5,6\n"}
    joined = sites.join({"h:1": self.site(one), "h:2": self.site(other)})
    expected = view_tables.open_folder(
        self.folder(one | other), table_options.TableOptions()
    )
    self.assertEqual(joined.num_rows, expected.num_rows)
    self.assertEqual(joined.format.to_json(), expected.format.to_json())
    self.assertEqual(joined.num_columns, 3)

  def test_the_order_of_the_workers_changes_nothing(self):
    first, second = self.site({"a.csv": "u\n1\n"}), self.site({"b.csv": "u\n2\n"})
    joined = [
        sites.join(documents) for documents in (
            {"h:1": first, "h:2": second}, {"h:2": second, "h:1": first},
        )
    ]
    self.assertEqual(joined[0].digest, joined[1].digest)
    self.assertEqual(*[list(found.clients.items()) for found in joined])

  def test_the_digest_is_of_all_rows(self):
    first = self.site({"a.csv": "u\n1\n"})
    digests = {
        sites.join({"h:1": first, "h:2": self.site({"b.csv": text})}).digest
        for text in ("u\n2\n", "u\n3\n")
    }
    self.assertLen(digests, 2)

  @parameterized.named_parameters(
      ("separator", {"separator": ";"}, "u;v\n3;4\n", {}),
      ("header", {"header": "yes"}, "u,v\n3,4\n", {}),
      ("decimal_mark", {"decimal": ","}, "u;v\n3,5;4\n", {}),
      ("columns", {"columns": ("u", "v")}, "u,v,w\n3,4,5\n", {}),
      ("excluded", {"exclude": ("w",)}, "u,w,v\n3,4,5\n", {}),
      ("ids", {"id_column": "w"}, "u,w,v\n3,4,5\n", {"id_column": "w"}),
      ("clients", {"client_column": "w"}, "u,w,v\n3,CLIENT,5\n", {"client_column": "w"}),
  )
  def test_how_files_are_written_may_differ(self, options, text, kept):
    for plain, other in ("ab", "ba"):
      of_sites = {f"{plain}.csv": "u,v\n1,2\n"}, {f"{other}.csv": text.replace("CLIENT", other)}
      joined = sites.join({
          "h:1": self.site(of_sites[0]), "h:2": self.site(of_sites[1], **options),
      })
      self.assertEqual(joined.format.encoding.feature_names, ("u", "v"))
      found = joined.format.options
      self.assertEqual(
          (found.separator, found.decimal, found.header, found.exclude), (None, None, "auto", ())
      )
      for name, column in kept.items():
        self.assertEqual(getattr(found, name), column)
      if "decimal" in options:
        continue  # It can't be found out.
      # What the model of a fit is used on, at either site.
      for files in of_sites:
        tables = client_tables.open_folder_for(joined.format, self.folder(files))
        self.assertEqual(sum(tables.num_rows.values()), 1)

  def test_options_that_all_sites_share_are_kept(self):
    options = {"separator": ";", "decimal": ",", "id_column": "w", "exclude": ("x",)}
    joined = sites.join({
        f"h:{name}": self.site({f"{name}.csv": "w;x;u\ni;1;3,5\n"}, **options) for name in "ab"
    })
    self.assertEqual(joined.format.options, table_options.TableOptions(**options))
    self.assertEqual(joined.format.columns.roles, {"id_column": "w"})


class RefusedTest(SitesTestCase):

  def check(self, first, second, message):
    with self.assertRaises(ValueError) as raised:
      sites.join({"h:1": first, "h:2": second})
    self.assertEqual(str(raised.exception), f"`workers` must have {message}.")

  def test_a_client_at_two_sites(self):
    self.check(
        self.site({"a.csv": _NORTH, "b.csv": _NORTH}, **_OPTIONS),
        self.site({"b.csv": _EAST, "c.csv": _EAST}, **_OPTIONS),
        "different clients, got 'b' at h:1 and at h:2",
    )

  def test_tables_and_views(self):
    self.check(
        self.site({"b/x.csv": "u\n1\n"}), self.site({"a.csv": "u\n1\n"}),
        "all tables or all views, got tables at h:2 and views at h:1",
    )

  @parameterized.named_parameters(
      ("more", "u,v,w\n1,2,3\n", "'v', 'w' at h:2 but not at h:1"),
      ("other", "v\n1\n", "'u' at h:1 but not at h:2, and 'v' at h:2 but not at h:1"),
  )
  def test_other_columns(self, text, what):
    self.check(
        self.site({"a.csv": "u\n1\n"}), self.site({"b.csv": text}),
        f"the same columns, got {what}",
    )

  def test_columns_in_another_order(self):
    self.check(
        self.site({"a.csv": "u,v\n1,2\n"}), self.site({"b.csv": "v,u\n1,2\n"}),
        "columns in the same order, got u, v at h:1 and v, u at h:2; --columns at tools:site gives "
        "an order",
    )

  def test_columns_put_in_order(self):
    joined = sites.join({
        "h:1": self.site({"a.csv": "u,v\n1,2\n"}, columns=("v", "u")),
        "h:2": self.site({"b.csv": "v,u\n1,2\n"}),
    })
    self.assertEqual(joined.format.encoding.feature_names, ("v", "u"))

  def test_a_column_of_levels_and_of_numbers(self):
    self.check(
        self.site({"a.csv": "u,v\n1,2\n"}), self.site({"b.csv": "u,v\n1,2\n"}, categories=("v",)),
        "the same `categories`, got 'v' at h:2 but not at h:1",
    )

  def test_other_levels(self):
    self.check(
        self.site({"a.csv": _NORTH}, **_OPTIONS),
        self.site({"b.csv": "age,sex,died\n50,f,yes\n61.5,x,no\n"}, **_OPTIONS),
        "the same levels of 'sex', got 'm' at h:1 but not at h:2, and 'x' at h:2 but not at h:1; "
        "--levels at tools:site names all of them",
    )

  def test_levels_that_are_named(self):
    levels = {"sex": ["f", "m"]}
    site = self.site({"a.csv": "age,sex\n50,f\n"}, levels=levels, categories=("sex",))
    other = self.site({"b.csv": "age,sex\n50,m\n9,f\n"}, categories=("sex",))
    joined = sites.join({"h:1": site, "h:2": other})
    self.assertEqual(joined.format.encoding.feature_names, ("age", "sex=f", "sex=m"))

  def test_other_classes(self):
    lacking = {"b.csv": "age,sex,died\n50,f,no\n61.5,m,no\n"}
    site = self.site({"a.csv": _NORTH}, **_OPTIONS)
    self.check(
        site, self.site(lacking, **_OPTIONS),
        "the same classes, got 'yes' at h:1 but not at h:2; --classes at tools:site names all of "
        "them",
    )
    named = self.site(lacking, classes=["yes", "no"], **_OPTIONS)
    self.assertEqual(sites.join({"h:1": site, "h:2": named}).format.classes, ("no", "yes"))

  @parameterized.named_parameters(
      ("labels", "label_column", "died", "w"),
      ("no_labels", "label_column", "died", None),
      ("splits", "split_column", "split", None),
  )
  def test_other(self, role, here, there):
    text = "u,died,w,split\n1,yes,2,train\n"
    self.check(
        self.site({"a.csv": text}, columns=("u",), **{role: here}),
        self.site({"b.csv": text}, columns=("u",), **{role: there}),
        f"the same `{role}`, got {here!r} at h:1 and {there!r} at h:2",
    )

  def test_other_views(self):
    self.check(
        self.site({"a/x.csv": "u\n1\n", "a/y.csv": "u\n1\n"}), self.site({"b/x.csv": "u\n1\n"}),
        "the same views, got 'y' at h:1 but not at h:2",
    )

  @parameterized.named_parameters(
      ("columns", "u\n1\n", "the same columns of view 'y', got 'v' at h:1 but not at h:2"),
      ("order", "v,u\n1,2\n",
       "columns of view 'y' in the same order, got u, v at h:1 and v, u at h:2; files must have "
       "it, since --columns is not for views"),
  )
  def test_a_view_with_other(self, text, message):
    self.check(
        self.site({"a/x.csv": "u\n1\n", "a/y.csv": "u,v\n1,2\n"}),
        self.site({"b/x.csv": "u\n1\n", "b/y.csv": text}),
        message,
    )

  def test_all_sites_are_looked_at(self):
    of_all = {f"h:{name}": self.site({f"{name}.csv": "u\n1\n"}) for name in "ab"}
    other = self.site({"c.csv": "v\n1\n"})
    with self.assertRaisesRegex(ValueError, "'u' at h:a but not at h:c, and 'v' at h:c but not"):
      sites.join({**of_all, "h:c": other})


if __name__ == "__main__":
  absltest.main()

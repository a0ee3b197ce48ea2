"""Tests for fl_clustering.tables.client_tables: roles, levels, missing cells, warnings."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd

from fl_clustering.tables import client_tables
from fl_clustering.tables import table_options
from tests.tables import table_folders as folders


class RolesTest(folders.TablesTestCase):

  def test_roles(self):
    tables = self.open(
        {
            "a.csv": "patient_id,age,sick,part,x\n007,30,no,train,9\n8,40,yes,Test,9\n",
            "b.csv": "part,age,sick,patient_id\ntrain,50,maybe,z\n",
        },
        id_column="patient_id", label_column="sick", split_column="part", columns=("age",),
    )
    self.assertEqual(tables.feature_names, ("age",))
    self.assertEqual(tables.format.classes, ("maybe", "no", "yes"))
    table = tables.read("a")
    self.assertEqual(table.row_ids, ("007", "8"))
    np.testing.assert_array_equal(table.labels, [1, 2])
    np.testing.assert_array_equal(table.is_test, [False, True])
    np.testing.assert_array_equal(tables.read("b").labels, [0])

  def test_classes_are_numbers_by_size(self):
    tables = self.open(
        {"a.csv": "x,y\n1,10\n1,9\n", "b.csv": "x,y\n1,9.0\n1,2\n"}, label_column="y"
    )
    self.assertEqual(tables.format.classes, ("2", "9", "10"))
    np.testing.assert_array_equal(tables.read("b").labels, [1, 0])

  def test_one_table_of_several_clients(self):
    tables = self.open(
        {"1.csv": "x,who\n1,b\n2,a\n3,b\n", "2.csv": "who,x\na,4\n"}, client_column="who"
    )
    self.assert_features(tables, {"a": [[2], [4]], "b": [[1], [3]]})
    np.testing.assert_array_equal(tables.read("b").rows, [1, 3])

  def test_exclude(self):
    tables = self.open({"a.csv": "x,y\n1,text\n", "b.csv": "x\n2\n"}, exclude=("y",))
    self.assert_features(tables, {"a": [[1]], "b": [[2]]})

  def test_levels_of_all_clients(self):
    tables = self.open(
        {"a.csv": "x,n\nred,1\nblue,2\n", "b.csv": "x,n\ngreen,1.0\n"}, categories=("x", "n")
    )
    self.assertEqual(tables.feature_names, ("x=blue", "x=green", "x=red", "n=1", "n=2"))
    self.assert_features(
        tables, {"a": [[0, 0, 1, 1, 0], [1, 0, 0, 0, 1]], "b": [[0, 1, 0, 1, 0]]}
    )

  def test_levels_are_written_in_many_ways(self):
    tables = self.open(
        {
            "a.csv": "x\nTRUE\nfalse\n", "b.csv": "x\nTrue\n",
            "c.parquet": pd.DataFrame({"x": [False]}),
        },
        categories=("x",),
    )
    self.assertEqual(tables.feature_names, ("x=false", "x=true"))
    frame = pd.DataFrame({"x": [True, False]})
    np.testing.assert_array_equal(tables.format.features(frame), [[0, 1], [1, 0]])

  def test_other_values_other_digest(self):
    texts = ("x,y\n1,2\n", "x,y\n1,3\n", "y,x\n2,1\n")
    digests = [self.open({"a.csv": text}).sha256 for text in texts]
    self.assertNotEqual(digests[0], digests[1])
    self.assertEqual(digests[0], digests[2])


class MissingTest(folders.TablesTestCase):
  FILES = {"a.csv": "x,c\n1,u\n,v\nNA,?\n", "b.csv": "x,c\n4,u\n7,u\n"}

  def test_mean_over_all_clients(self):
    tables = self.open(self.FILES, missing="mean", categories=("c",))
    self.assertEqual(tables.feature_names, ("x", "c=u", "c=v"))
    self.assert_features(tables, {
        "a": [[1, 1, 0], [4, 0, 1], [4, 0.75, 0.25]], "b": [[4, 1, 0], [7, 1, 0]],
    })

  def test_indicator(self):
    tables = self.open(self.FILES, missing="indicator", categories=("c",))
    self.assertEqual(tables.feature_names[3:], ("x is missing", "c is missing"))
    np.testing.assert_array_equal(
        tables.read("a").features[:, 3:], [[0, 0], [1, 0], [1, 1]]
    )
    np.testing.assert_array_equal(tables.read("b").features[:, 3:], np.zeros((2, 2)))

  def test_means_of_the_chosen_rows(self):
    options = table_options.TableOptions(missing="mean", exclude=("c",))
    opened = client_tables.open_folder(self.write(self.FILES), options)
    tables = opened.filled(lambda client_id, table: table.rows < 2)
    self.assertEqual(tables.read("a").features[1, 0], 2.5)

  def test_any_number(self):
    tables = self.open(
        {"a.csv": "x,y\n1,inf\nnan,1e300\n", "b.csv": "x,y\n"}, allow_any_number=True
    )
    self.assert_features(tables, {"a": [[1, np.inf], [np.nan, 1e300]], "b": np.zeros((0, 2))})


class WarningsTest(folders.TablesTestCase):
  """What can be read, but is odd, is said."""

  def _off(self, **columns):
    """Returns what is said of clients with these columns, of which all have another one."""
    files = {
        f"{client}.csv": folders.lines("x,y", *(f"{x},{i % 9}" for i, x in enumerate(column)))
        for client, column in columns.items()
    }
    return list(self.open(files).warnings)

  @parameterized.named_parameters(
      ("Fahrenheit", lambda x: x * 1.8 + 32, "98.96"), ("kPa", lambda x: x / 7.5, "4.96"),
      ("an odd row", lambda x: np.where(x == x[0], x, x * 10), "356.4"),
  )
  def test_a_clients_column_off_by_a_factor(self, changed, mean):
    usual = np.linspace(36.4, 38, 21)
    found = self._off(a=usual, b=usual + 0.1, c=usual - 0.1, hot=changed(usual))
    self.assertLen(found, 1)
    start, means = found[0].split("; ")
    self.assertEqual(start, "the column x may have another unit at hot")
    self.assertRegex(means, f"^the clients' means are .*{mean} \\(hot\\)")
    self.assertIn("37.1 (c), 37.2 (a), 37.3 (b)", means)

  @parameterized.named_parameters(
      ("all apart, one by far", (1, 2.3, 250), ["c"]), ("all apart", (1, 2.3, 5), []),
      ("two near", (1, 1.1, 1.7, 100), ["d"]), ("half", (1, 1.1, 10, 11), ["c", "d"]),
      ("on both sides", (1, 1.1, 1.2, 1.3, 10, 0.1), ["e", "f"]), ("none alike", (1, 20, 400), []),
      ("reaching over", (1, 1.1, 1.7, 1.9), []),
  )
  def test_another_unit_among_clients_that_differ(self, factors, off):
    usual = np.linspace(10, 17.5, 20)
    found = self._off(**{name: usual * factor for name, factor in zip("abcdef", factors)})
    self.assertLen(found, bool(off))
    for text in found:
      self.assertStartsWith(text, f"the column x may have another unit at {', '.join(off)}; ")

  @parameterized.named_parameters(
      ("a code", -999, 9, True), ("a code once", -999, 20, False),
      ("a large code", 9999, 9, True), ("one odd cell", -3, 20, False),
  )
  def test_few_far_values_hide_no_other_unit(self, value, every, is_told):
    usual = np.linspace(80, 160, 20)
    odd = np.where(np.arange(20) % every == 0, value, usual)
    found = self._off(a=usual, b=odd, c=usual + 1, other=usual / 18)
    self.assertEqual(found[0] == (
        f"the column x has {value} in 3 rows, which looks like a code for a missing value"
    ), is_told)
    self.assertLen(found, 1 + is_told)
    self.assertRegex(found[-1], "^the column x may have another unit at other; .*6.667 .other., 1")

  @parameterized.named_parameters(
      ("negative", ["-99", "4.5", "2"], ["-99", "0", "-99"], "-99"),
      ("large", ["999", "-4", "2"], ["999", "3", "999"], "999"),
      ("twice", ["-99", "4", "2"], ["1", "0", "-99"], None),
      ("no nines", ["-98", "4", "2"], ["-98", "0", "-98"], None),
      ("farther than all others", ["999", "100", "179"], ["999", "120", "999"], "999"),
      ("near", ["99", "51", "2"], ["99", "3", "99"], None),
      ("beside one number", ["99", "60", "60"], ["99", "60", "99"], None),
      ("next to few others", ["99", "98", "97.5"], ["99", "98", "99"], None),
      ("others are negative", ["-9", "10", "-1"], ["-9", "3", "-9"], None),
      ("nothing else", ["-9", "-9", "-9"], ["-99", "-99", "-99"], None),
  )
  def test_codes_for_a_missing_value(self, one, other, code):
    found = self._off(a=one, b=other)
    expected = f"the column x has {code} in 3 rows, which looks like a code for a missing value"
    self.assertEqual(found, [expected] if code else [])

  @parameterized.parameters(True, False)
  def test_groups_of_clients_that_share_no_level(self, is_label):
    english, german = ("yes", "no"), ("ja", "nein")
    words = {"a": english, "b": english, "c": german, "d": german, "e": english}
    files = {
        f"{name}.csv": folders.lines("x,c", f"1,{one}", f"{i + 2},{other}")
        for i, (name, (one, other)) in enumerate(words.items())
    }
    options = {"label_column": "c"} if is_label else {"categories": ("c",)}
    what = "classes" if is_label else "levels of the column c"
    self.assertEqual(
        list(self.open(files, **options).warnings),
        [f"these groups of clients have none of the {what} in common: a, b, e; c, d"],
    )

  @parameterized.parameters(
      ("m f", "m w", "f w", True), ("m f", "f w", "w d", True), ("m", "f", "w", False),
      ("m f", "f w", "w d f", False),
  )
  def test_words_of_which_no_client_has_more_than_two(self, *arguments):
    *words, is_told = arguments
    files = {
        f"{i}.csv": folders.lines("x,c", *(f"{i + j},{w}" for j, w in enumerate(found.split())))
        for i, found in enumerate(words)
    }
    tables = self.open(files, categories=("c",))
    self.assertEqual(any("more than two" in text for text in tables.warnings), is_told)
    files["more.csv"] = folders.lines("x,c", "9,d", "8,e")
    tables = self.open({**files, "last.csv": folders.lines("x,c", "6,w", "7,d")}, categories=("c",))
    self.assertNotIn("more than two", str(tables.warnings))

  def test_clients_alike(self):
    rows = ("North,1", "NORTH,2", "South,3")
    tables = self.open({"a.csv": folders.lines("who,x", *rows)}, client_column="who")
    self.assertEqual(
        list(tables.warnings), ["the clients 'NORTH', 'North' differ only in case or spaces"]
    )

  def test_one_code_of_several_columns(self):
    rows = [f"{x},{y},{i}" for i, (x, y) in enumerate([(1, 2), (-9, -9), (3, 5), (-9, -9)])]
    files = {"a.csv": folders.lines("x,y,z", *rows), "b.csv": folders.lines("x,y,z", *rows[::-1])}
    tables = self.open(files)
    self.assertEqual(list(tables.warnings), [
        "the columns x, y have -9 in 8 cells, which looks like a code for a missing value"
    ])

  @parameterized.named_parameters(
      ("alike", [10, 11, 12, 13, 14], [14, 15, 16, 17, 18]),
      ("apart, but near", [10, 11, 12, 13, 14], [15, 16, 17, 18, 19]),
      ("wide", [1, 2, 3, 4, 5], [4, 8, 12, 16, 20]),
      ("not positive", [-1, 11, 12, 13, 14], [100, 110, 120, 130, 140]),
      ("codes", [10, 10, 10, 10, 10], [20, 20, 20, 20, 20]),
      ("few rows", [10, 11, 12, 13, 14], [100, 110, 120, 130]),
      ("missing", [10, 11, 12, 13, 14], [100, 110, 120, 130, ""]),
  )
  def test_clients_that_only_differ(self, one, other):
    self.open({"a.csv": "x\n1\n"})  # The folder is another one for each.
    files = {"a.csv": folders.lines("x,y", *(f"{x},1" for x in one)),
             "b.csv": folders.lines("x,y", *(f"{x},2" for x in other))}
    self.assertEmpty([
        text for text in self.open(files, missing="mean").warnings if "unit" in text
    ])

  def test_files_with_the_same_rows(self):
    rows = [f"{i % 7},{i % 4},{i}" for i in range(9)]
    text, other = folders.lines("x,y,z", *rows), folders.lines("x,y,z", *rows[1:])
    files = {"a.csv": text, "b.csv": other, "copy.csv": text, "d.csv": text.replace(",", ";")}
    self.assertEqual(list(self.open(files).warnings), [
        "the files of the clients 'a', 'copy', 'd' hold the same rows in all columns that are used"
    ])
    files["copy.csv"] = text.replace(",8\n", ",9\n")
    self.assertLen(self.open(files, columns=("x", "y")).warnings, 1)
    self.assertIn("clients 'a', 'd' hold", self.open(files).warnings[0])

  @parameterized.named_parameters(
      ("ids of six digits", lambda rng: rng.choice(900_000, 120, False) + 100_000, True),
      ("blocks", lambda rng: 1e5 * (1 + np.arange(120) // 40) + rng.choice(9999, 120, False), True),
      ("with gaps", lambda rng: rng.permutation(300)[:120] + 1000, True),
      ("of every client", lambda rng: np.concatenate(
          [rng.choice(300, 40, False) + 1000 for _ in range(3)]), True),
      ("some of two clients", lambda rng: np.concatenate(
          [(drawn := rng.choice(900_000, 114, False) + 100_000), drawn[:6]]), True),
      ("years", lambda rng: np.concatenate([rng.permutation(41) + 1980 for _ in range(3)])[:120],
       False),
      ("of every client, by chance", lambda rng: np.concatenate(
          [rng.choice(900, 40, False) + 1000 for _ in range(3)]), False),
      ("few", lambda rng: rng.choice(900_000, 48, False), False),
      ("one twice", lambda rng: rng.choice(900_000, 120, False) // 120 * 120 // 4, False),
      ("fractions", lambda rng: rng.choice(900_000, 120, False) + 0.5, False),
      ("normal", lambda rng: rng.normal(2e7, 3e6, 120).round(), False),
      ("skew", lambda rng: rng.lognormal(12, 1.5, 120).round() + np.arange(120), False),
      ("steps", lambda rng: rng.choice(19_000, 120, False), False),
  )
  def test_numbers_that_are_ids(self, draw, are_ids):
    numbers = draw(np.random.default_rng(5)).astype(float)
    files = {
        f"c{n}.csv": folders.lines("x,k", *(f"{i % (9 + n)},{k:.10g}" for i, k in enumerate(part)))
        for n, part in enumerate(np.split(numbers, 3))
    }
    found = [
        "the column k looks like the rows' ids: no number occurs twice at a client; "
        "--exclude=k leaves it out"
    ]
    self.assertEqual(list(self.open(files).warnings), found if are_ids else [])
    if are_ids:
      copied = self.open({**files, "copy.csv": files["c0.csv"]}).warnings
      self.assertEqual(list(copied[1:]), found)
      self.assertEqual(self.open(files, exclude=("k",)).warnings, ())
      self.assertNotIn("--exclude", self.open(files, exclude=("x",)).warnings[0])
      self.assertIn("; --columns=x leaves", self.open(files, columns=("x", "k")).warnings[0])

  @parameterized.parameters(
      ("pupil", True), ("Kundennr", True), ("case_no", True), ("height", False),
      ("pupils_of", False),
  )
  def test_numbers_that_the_name_says_are_ids(self, name, are_ids):
    numbers = np.random.default_rng(6).choice(9_000, 60, False) + 1000
    files = {
        f"c{n}.csv": folders.lines(f"x,{name}", *(f"{i % (9 + n)},{k}" for i, k in enumerate(part)))
        for n, part in enumerate(np.split(numbers, 3))
    }
    tables = self.open(files, columns=("x", name))
    self.assertEqual("looks like the rows' ids" in str(tables.warnings), are_ids)

  @parameterized.named_parameters(
      ("a copy", lambda i: i % 3, {"label_column": "y"}, True),
      ("a code for each class", lambda i: (5, 9, 2)[i % 3], {"label_column": "y"}, True),
      ("a copy with gaps", lambda i: "" if i % 5 == 1 else i % 3,
       {"label_column": "y", "missing": "mean"}, True),
      ("levels", lambda i: "uvw"[i % 3], {"label_column": "y", "categories": ("c",)}, True),
      ("a class in two", lambda i: i % 6, {"label_column": "y"}, False),
      ("two classes in one", lambda i: min(i % 3, 1), {"label_column": "y"}, False),
      ("one row differs", lambda i: 0 if i == 23 else i % 3, {"label_column": "y"}, False),
      ("no label", lambda i: i % 3, {}, False),
  )
  def test_columns_that_say_the_same_as_the_label(self, cell, options, is_told):
    rows = [f"{i * i % 7},{cell(i)},{i % 3}" for i in range(24)]
    files = {
        f"{name}.csv": folders.lines("x,c,y", *part)
        for name, part in zip("ab", (rows[:10], rows[10:]))
    }
    found = [text for text in self.open(files, **options).warnings if "label" in text]
    self.assertLen(found, is_told)
    if is_told:
      self.assertRegex(found[0], "the column c says the same as the label column y; --exclude=c")

  @parameterized.named_parameters(
      ("leading zeros", "0012", "12", "12", ["'0012', '12'"]),
      ("exponents", "4E5", "2D4", "u", ["'4E5'"]), ("twice", "4E5", "2D4", "4e5", ["'4E5', '4e5'"]),
      ("both", "4E5", "012", "12.0", ["'012', '12.0', '4E5'"]),
      ("zeros alone", "0012", "0", "0.5", ["'0012'"]), ("no codes", "0", "0.5", "10", []),
      ("other spellings", "12", "12.0", "1200", []),
      ("small numbers", "1.5e-05", "0.000015", "12", []),
  )
  def test_codes_that_count_as_a_number(self, one, other, third, told):
    files = {"a.csv": f"x,c\n1,{one}\n2,{other}\n", "b.csv": f"x,c\n2,{third}\n1,{one}\n"}
    for options in ({"categories": ("c",)}, {"label_column": "c"}):
      found = [text for text in self.open(files, **options).warnings if "write codes" in text]
      self.assertLen(found, len(told))
      for text, cells in zip(found, told):
        self.assertStartsWith(text, f"the column c has {cells}, which are read as numbers, ")

  @parameterized.named_parameters(
      ("nothing", "x,y\n1,u\n2,v\n", "x,y\n3,u\n4,v\n", {"label_column": "y"}, []),
      ("classes alike", "x,y\n1,Heart failure\n2,no\n", "x,y\n1,heart  failure\n2,no\n",
       {"label_column": "y"},
       ["the classes 'Heart failure', 'heart  failure' differ only in case or spaces",
        "only one client has each of the classes 'Heart failure', 'heart  failure'"]),
      ("a class of one client", "x,y\n1,u\n2,v\n", "x,y\n3,u\n4,u\n", {"label_column": "y"},
       ["only one client has the class 'v'"]),
      ("many classes", folders.lines("x,y", *(f"{i % 9},c{i}" for i in range(51))),
       folders.lines("x,y", *(f"{i % 8},c{i}" for i in range(51))), {"label_column": "y"},
       ["there are 51 classes"]),
      ("levels alike", "x,c\n1,No\n2,yes\n", "x,c\n1,no\n2,yes\n", {"categories": ("c",)},
       ["the levels 'No', 'no' of the column c differ only in case or spaces"]),
      ("a level in short", "x,c\n1,M\n2,F\n", "x,c\n1,male\n2,F\n", {"categories": ("c",)},
       ["the levels 'M', 'male' of the column c may be one"]),
      ("a class in short", "x,y\n1,n\n2,Yes\n", "x,y\n1,n\n2,Yes\n3,No\n4,Later\n5,y\n",
       {"label_column": "y"},
       ["the classes 'y', 'Yes' may be one",
        "only one client has each of the classes 'Later', 'No', 'y'"]),
      ("letters", "x,c\n1,A\n2,B\n", "x,c\n1,AB\n2,B\n3,A1c\n4,A\n",
       {"categories": ("c",)}, []),
      ("levels of one client", "x,c\n1,0\n2,1\n", "x,c\n1,no\n2,yes\n", {"categories": ("c",)},
       ["these groups of clients have none of the levels of the column c in common: a; b"]),
      ("no level of one client", "x,c\n1,0\n2,1\n", "x,c\n1,no\n2,0\n3,1\n",
       {"categories": ("c",)}, []),
      ("two vocabularies", "x,c\n1,m\n2,f\n", "x,c\n1,m\n2,w\n", {"categories": ("c",)},
       ["no client has more than two of the levels 'f', 'm', 'w' of the column c, some of which "
        "may be one"]),
      ("one vocabulary", "x,c\n1,m\n2,f\n3,d\n", "x,c\n1,m\n2,f\n", {"categories": ("c",)}, []),
      ("one level each", "x,c\n1,m\n", "x,c\n2,f\n", {"categories": ("c",)}, []),
      ("three numbers", "x,c\n1,0\n2,1\n", "x,c\n1,2\n2,1\n", {"categories": ("c",)}, []),
      ("two vocabularies of classes", "x,y\n1,m\n2,f\n", "x,y\n1,w\n2,m\n", {"label_column": "y"},
       ["no client has more than two of the classes 'f', 'm', 'w', some of which may be one",
        "only one client has each of the classes 'f', 'w'"]),
      ("dates among levels", "x,c\n1,1-4\n2,5-9\n3,May 10\n",
       "x,c\n1,04. Jan\n2,2026-09-05 00:00:00\n3,5-9\n", {"categories": ("c",)},
       ["the levels 'May 10', '04. Jan', '2026-09-05 00:00:00' of the column c look like dates, "
        "unlike the others"]),
      ("a date among levels", "x,c\n1,1-4\n2,5-9\n", "x,c\n1,04/abr\n2,5-9\n3,1-4\n",
       {"categories": ("c",)},
       ["the level '04/abr' of the column c looks like a date, unlike the others"]),
      ("a date among classes", "x,y\n1,1-4\n2,01.Apr\n", "x,y\n1,01.Apr\n2,5-9\n3,1-4\n",
       {"label_column": "y"},
       ["the class '01.Apr' looks like a date, unlike the others",
        "only one client has the class '5-9'"]),
      ("dates alone", "x,c\n1,2026-01-04\n2,2026-01-05\n", "x,c\n1,2026-01-04\n2,2026-01-06\n",
       {"categories": ("c",), "header": "yes"},
       []),
      ("numbers of rows", folders.lines("x,k", *(f"{i % 3},{i + 700}" for i in range(20))),
       folders.lines("x,k", *(f"{i % 4},{30 - i}" for i in range(20))), {},
       ["the column k looks like the rows' ids: every client's numbers have no gap"]),
      ("numbers with a gap", folders.lines("x,k", *(f"{i % 3},{i + i // 9}" for i in range(20))),
       folders.lines("x,k", *(f"{i % 4},{30 - i}" for i in range(20))), {}, []),
      ("ids", "x,k\n1,u\n2,u\n3,u\n", "x,k\n3,u\n4,v\n", {"id_column": "k"},
       ["ids in the column k are not unique: 2 of them repeat another one of the same client (a)"]),
      ("constants", "x,y,z\n1,0,5\n1,0,6\n", "x,y,z\n1,0,5\n1,,7\n", {"missing": "mean"},
       ["the columns x, y have the same value everywhere"]),
      ("dates", "x,day\n1,20240131\n", "x,day\n2,20231201\n", {},
       ["the column day looks like dates written as integers"]),
      ("months", "x,day\n1,202401\n", "x,day\n2,202312\n", {},
       ["the column day looks like dates written as integers"]),
      ("no months", "x,n\n1,202401\n", "x,n\n2,202313\n", {}, []),
      ("rows without values", "k,x,c\nu,1,p\nMade by m.,,\n", "k,x,c\ns,,\nv,,p\nt,,\nw,,\n",
       {"categories": ("c",), "id_column": "k", "missing": "mean"},
       ["most cells of the column x are empty, and filled in, at b (a value in 0 of 4 rows)",
        "most cells of the column c are empty, and filled in, at b (a value in 1 of 4 rows)",
        "the last rows have no value in any feature, as a note below a table has none, and are "
        "filled in: a (row 2), b (2 rows from 3)", "the column x has the same value everywhere"]),
      ("rows without the one feature", "x,k\n1,u\n2,v\n,w\n", "x,k\n3,u\n4,v\n,w\n",
       {"exclude": ("k",), "missing": "mean"}, []),
      ("no dates", "x,n\n1,20240131\n", "x,n\n2,20231301\n", {}, []),
      ("large integers", "x,k\n1,9007199254740993\n", "x,k\n2,3\n", {},
       ["the column k has numbers of 2^53 or more, which are rounded"]),
      ("large numbers", "x,k\n1,1e30\n", "x,k\n2,3\n", {}, []),
      ("an encoding", b"x,c\n1,caf\xe9\n", "x,c\n2,u\n", {"categories": ("c",)},
       ["text that is no UTF-8 is read as cp1252: a.csv"]),
      ("an encoding that was given", b"x,c\n1,caf\xe9\n", "x,c\n2,u\n",
       {"categories": ("c",), "encoding": "cp1252"}, []),
  )
  def test_warnings(self, first, second, options, warnings):
    tables = self.open({"a.csv": first, "b.csv": second}, **options)
    self.assertEqual(list(tables.warnings), warnings)

  @parameterized.parameters("csv", "parquet")
  def test_words_that_count_as_missing(self, kind):
    frames = {
        "a": pd.DataFrame({"x": range(4), "c": ["None", "u", " N/A", "v"], "d": ["u", "v"] * 2}),
        "b": pd.DataFrame({"x": range(3), "c": ["None", "u", ""], "d": ["none", "NA", "u"]}),
    }
    if kind == "csv":
      frames = {name: frame.to_csv(index=False) for name, frame in frames.items()}
    files = {f"{name}.{kind}": content for name, content in frames.items()}
    tables = self.open(files, categories=("c", "d"), missing="mean")
    self.assertEqual(
        tables.warnings[0],
        "cells with 'None', 'none', 'N/A', 'n/a' are read as missing: 3 in the column c, 1 in the "
        "column d",
    )
    self.assertEqual(tables.feature_names, ("x", "c=u", "c=v", "d=u", "d=v"))

  def test_none_of_it_in_a_private_run(self):
    codes = "-999,u\n" * 3
    files = {"a.csv": f"x,k\n20240131,u\n20240131,u\n{codes}"}
    for header in ("yes", "auto"):
      tables = self.open(files, id_column="k", allow_any_number=True, header=header)
      self.assertEqual(tables.warnings, ())
    # Copied files, ids, a copy of the label, codes, words, and lines of separators and of totals.
    rows = [f"{i % 7},{98_765 * i % 900_007},{i % 2},{i % 2},0012" for i in range(60)]
    rows += ["1,None,1,1,12", "Total,N/A,None,0,4E5", "1,9,0,1,Total"]
    options = {"categories": ("c",), "allow_any_number": True, "header": "yes"}
    files = {f"{name}.csv": folders.lines("x,k,z,y,c", *rows) for name in "ab"}
    self.assertEqual(self.open(files, label_column="y", **options).warnings, ())
    files = {name: text.replace("3,", ",,,,\n3,", 1) for name, text in files.items()}
    tables = self.open(files, **options)
    self.assertEqual(tables.warnings, ())
    self.assertEqual(tables.num_rows, {"a": 64, "b": 64})
    later = self.open_later(tables.format, files, moments={"x": [(9, 500, 1)]})
    self.assertEqual(later.warnings, ())

  @parameterized.parameters(("y", 21, True), ("y", 20, False), ("x", 60, False))
  def test_numbers_that_are_no_classes(self, column, count, is_refused):
    rows = [f"{i % 30},{i / 8}" for i in range(count)]
    options = {"label_column": column, "exclude": {"x", "y"} - {column}}
    files = {"a.csv": folders.lines("x,y,z", *(f"{row},{i}" for i, row in enumerate(rows)))}
    options["exclude"] = tuple(options["exclude"])
    if not is_refused:
      self.assertLen(self.open(files, **options).format.classes, min(count, 30))
      return
    with self.assertRaisesRegex(
        ValueError, "column 'y' has 21 different numbers in 21 rows, which are no classes"
    ) as caught:
      self.open(files, **options)
    self.assertNotIn("Try:", str(caught.exception))

  def test_columns_without_a_value_at_a_client(self):
    files = {"a.csv": "x,y\n1,2\n2,5\n3,\n4,\n", "b.csv": "x,y\n1,\n3,\n"}
    self.assertEqual(self.open(files, missing="mean").warnings, (
        "most cells of the column y are empty, and filled in, at b (a value in 0 of 2 rows)",
    ))


class LevelsTest(folders.TablesTestCase):
  """Levels that are numbers."""

  @parameterized.named_parameters(
      ("beside numbers", "x;c\n1,5;4,0\n2;3\n2;\n"),
      ("alone", "x;c\n1;4,0\n2;3,0\n2;\n"),
  )
  def test_the_decimal_mark_is_that_of_the_file(self, comma):
    files = {"a.csv": "x,c\n1.5,4.0\n2,3\n", "b.csv": comma}
    tables = self.open(files, categories=("c",), missing="mean")
    self.assertEqual(tables.feature_names, ("x", "c=3", "c=4"))
    np.testing.assert_array_equal(tables.read("b").features[:2, 1:], [[0, 1], [1, 0]])
    later = self.open_later(tables.format, {"d.csv": "x;c\n2;4,0\n2;3,00\n"})
    np.testing.assert_array_equal(later.read("d").features[:, 1:], [[0, 1], [1, 0]])

  def test_text_among_numbers(self):
    files = {"a.csv": "x;c\n1,5;4,0\n2;u\n"}
    self.assertEqual(
        self.open(files, categories=("c",)).feature_names, ("x", "c=4", "c=u"))

  def test_codes_with_points(self):
    files = {"a.csv": "x;c\n1,5;250.01\n2;38\n"}
    self.assertEqual(
        self.open(files, categories=("c",)).feature_names, ("x", "c=38", "c=250.01"))

  def test_what_is_unclear(self):
    files = {"a.csv": "x;y;c\n1,5;2;1.911\n2;3;7\n"}
    with self.assertRaisesRegex(
        ValueError, "column 'c': '1.911' may be 1.911 or 1911, .*--thousands=. reads it as 1911"
    ):
      self.open(files, categories=("c",))
    tables = self.open(files, categories=("c",), thousands=".")
    self.assertEqual(tables.feature_names, ("x", "y", "c=7", "c=1911"))

  def test_flags_that_help_where_levels_are_read_as_numbers(self):
    files = {"a.csv": "x;y;c\n1,5;;4,0\n2;3;7\n"}
    with self.assertRaisesRegex(ValueError, "Try: --missing=mean$"):
      self.open(files, categories=("c",))


class NumbersAsClassesTest(folders.TablesTestCase):
  """Numbers that are classes are read as those of features are."""

  def _classes(self, files, **options):
    tables = self.open(files, label_column="y", **options)
    names = tables.format.classes
    return names, {
        client_id: [names[label] for label in tables.read(client_id).labels]
        for client_id in tables.client_ids
    }

  @parameterized.named_parameters(
      ("features say the mark", "x;y\n1,5;4,0\n2,5;0,7\n", {}),
      ("labels say the mark", "x;y\n1;4,0\n2;0,7\n", {}),
      ("surely points", "x;y\n1,5;4.0\n2,5;0.7\n", {}),
      ("points after all", "x;y\n1,5;4.0\n2,5;0.7\n", {"decimal": ","}),
      ("only levels", "x;y\nu;4,0\nv;0,7\n", {"categories": ("x",)}),
  )
  def test_the_decimal_mark_is_that_of_the_file(self, comma, options):
    files = {"a.csv": comma, "b.csv": "x,y\n1,4.0\n2,0.7\n3,4\n"}
    names, labels = self._classes(files, **options)
    self.assertEqual(names, ("0.7", "4"))
    self.assertEqual(labels, {"a": ["4", "0.7"], "b": ["4", "0.7", "4"]})

  def test_text_among_numbers(self):
    names, labels = self._classes({
        "a.csv": "x;y\n1,5;4,5\n2;no, none\n3;1.000\n", "b.csv": "x,y\n1.5,4.5\n2,1000\n",
    }, thousands=".")
    self.assertEqual(names, ("4.5", "1000", "no, none"))
    self.assertEqual(labels["a"], ["4.5", "no, none", "1000"])

  def test_marks_between_thousands(self):
    files = {"a.csv": "x;y\n1,5;2.000\n2;3\n", "b.csv": "x,y\n1.5,2000\n2,3\n"}
    names, _ = self._classes(files, thousands=".")
    self.assertEqual(names, ("3", "2000"))

  def test_comparisons_are_text(self):
    files = {"a.csv": "x;y\n1,5%;>50\n2%;<=50\n"}
    self.assertEqual(self._classes(files, strip_units=True)[0], ("<=50", ">50"))

  @parameterized.named_parameters(
      ("two marks", {"a.csv": "x;y\n1.5;0,7\n2;2,3\n"},
       "column 'x': '1.5' has a decimal point, and '0,7' in line 2, column 'y', a decimal comma"),
      ("thousands or not", {"a.csv": "x;y\n1;1,234\n2;5,678\n"},
       "column 'y': '1,234' may be 1.234 or 1234; --decimal=, or --thousands=, says which"),
      ("as others show", {"a.csv": "x;y\n1;1.234\n2;5.678\n", "b.csv": "x;y\n1;1,5\n2;2,5\n"},
       "column 'y': '1.234' may have a decimal point or one between thousands"),
  )
  def test_what_is_unclear(self, files, message):
    with self.assertRaisesRegex(ValueError, message):
      self._classes(files)

  def test_many_fractions_with_a_comma_are_no_classes(self):
    rows = [f"{i},5;{i},25" for i in range(30)]
    with self.assertRaisesRegex(ValueError, "column 'y' has 30 different numbers in 32 rows"):
      self.open({"a.csv": folders.lines("x;y", *rows),
                 "b.csv": "x,y\n1.5,0.25\n2.5,1.25\n"}, label_column="y")

  def test_names_are_the_shortest_of_every_kind_of_file(self):
    floats, large = [0.7, 2.0, 0.1], 2.0**53
    names, _ = self._classes({
        "a.csv": f"x,y\n1,0.70\n2,2\n3,1e-1\n4,{large:.0f}\n",
        "b.parquet": pd.DataFrame({"x": [1, 2, 3], "y": floats}),
        "c.parquet": pd.DataFrame({"x": [1, 2, 3], "y": np.array(floats, np.float32)}),
        "d.parquet": pd.DataFrame({"x": [1, 2, 3], "y": ["0,7", "2,0", "0,1"]}),
        "e.npz": {"x": np.arange(3), "y": np.array(floats)},
        "f.parquet": pd.DataFrame({"x": ["1,5", "2", "3"], "y": floats}),
    })
    self.assertEqual(names, ("0.1", "0.7", "2", "9007199254740992"))

  def test_files_of_a_model_have_marks_of_their_own(self):
    format_ = self.open({"a.csv": "x,y\n1.5,0.7\n2,2.3\n"}, label_column="y").format
    later = self.open_later(format_, {"b.csv": "x;y\n1,5;2,3\n2;\n3;0,7\n"})
    self.assertEqual(later.read("b").labels.tolist(), [1, -1, 0])
    files = {"b.csv": "x;y\n1,5;2,3\nu;0,7\n3;9,9\n4,5;0,7\n"}
    later = self.open_later(format_, files, skip_bad_rows=True)
    self.assertEqual(later.read("b").labels.tolist(), [1, 0])
    self.assertEqual(later.read("b").rows.tolist(), [1, 4])

  def test_clients_that_share_files(self):
    names, labels = self._classes({
        "1.csv": "who;x;y\na;1,5;4,0\nb;2,5;0,7\n", "2.csv": "who,x,y\nb,1.5,4.0\na,1.5,0.7\n",
    }, client_column="who")
    self.assertEqual(names, ("0.7", "4"))
    self.assertEqual(labels, {"a": ["4", "0.7"], "b": ["0.7", "4"]})


  def test_labels_with_units(self):
    rows = [f"{i % 4},{100 + i / 8} kWh" for i in range(30)]
    files = {"a.csv": folders.lines("x,y", *rows)}
    with self.assertRaisesRegex(
        ValueError, "'y' has 30 different labels in 30 rows, most of them numbers; '100.0 kWh' is "
        "none"
    ):
      self.open(files, label_column="y")
    files = {"a.csv": folders.lines("x,y", *rows).replace(" kWh", "").replace("100.5", "n/d")}
    with self.assertRaisesRegex(ValueError, "most of them numbers; 'n/d' is none"):
      self.open(files, label_column="y")

  @parameterized.parameters({}, {"strip_units": True, "thousands": "."})
  def test_labels_with_several_units_and_marks(self, **options):
    files = {
        "a.csv": folders.lines("x;y", *(f"{i};{10 + i}.574,00 €" for i in range(15))),
        "b.csv": folders.lines("x;y", *(f"{i};£{50 + i},574.20" for i in range(15))),
    }
    with self.assertRaisesRegex(
        ValueError, "'y' has 30 different labels in 30 rows, .* is none[^-]*$"
    ) as caught:
      self.open(files, label_column="y", **options)
    self.assertNotIn(".csv", str(caught.exception))


if __name__ == "__main__":
  absltest.main()

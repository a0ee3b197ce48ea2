"""Tests for fl_clustering.sites' files: federation, identity, ledger, and rows by a schema."""

import json
import math
import os
import stat
import subprocess
import sys

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.sites import federation as federation_lib
from fl_clustering.sites import identity as identity_lib
from fl_clustering.sites import rows as rows_lib
from fl_clustering.sites import site_ledger
from fl_clustering.sites import wire
from fl_clustering.tables import bad_table
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import views as views_lib
from tests.sites import sample_sites

_IDENTITIES = {
    name: identity_lib.Identity(name, bytes([place] * 32))
    for place, name in enumerate(("east", "north", "south"))
}


def _document(**changes):
  document = {**sample_sites.document_of(_IDENTITIES), **changes}
  return {key: value for key, value in document.items() if value is not None}


class FederationTest(parameterized.TestCase):

  @parameterized.parameters(
      ((5,), None), ((5,), sample_sites.PRIVATE), ((2, 3), sample_sites.VIEWS),
      ((5,), sample_sites.CLIENTS), ((5,), {**sample_sites.PRIVATE, "public_num_points": 100}),
  )
  def test_a_file_comes_back(self, widths, privacy):
    path = self.create_tempfile().full_path
    federation = federation_lib.Federation(
        sample_sites.document_of(_IDENTITIES, widths, privacy)
    )
    federation.write(path)
    found = federation_lib.Federation.load(path)

    self.assertEqual((found.document, found.fingerprint),
                     (federation.document, federation.fingerprint))
    self.assertRegex(found.fingerprint, r"^(\d{6} ){7}\d{6}$")
    if privacy is not None:
      self.assertEqual((found.privacy.trust, found.privacy.min_clients),
                       ("none", privacy["min_sites"]))

  def test_all_that_is_agreed_on_changes_the_fingerprint(self):
    other = identity_lib.Identity("south", bytes([9] * 32)).public.hex()
    documents = [
        _document(), _document(name="other"), _document(schema="1" * 64), _document(widths=[6]),
        _document(limits={"rounds": 9}), _document(exact=None, privacy=sample_sites.PRIVATE),
        _document(exact=None, privacy={**sample_sites.PRIVATE, "epsilon": 4.5}),
        _document(sites={**_document()["sites"], "south": other}),
    ]
    prints = {federation_lib.Federation(one).fingerprint for one in documents}
    self.assertLen(prints, len(documents))

  def test_how_the_file_is_written_changes_nothing(self):
    text = json.dumps(dict(reversed(_document().items())), indent=7)
    path = self.create_tempfile(content=text.encode("utf-8-sig"), mode="wb").full_path
    self.assertEqual(federation_lib.Federation.load(path).hash,
                     federation_lib.Federation(_document()).hash)
    sites = dict(reversed(_document()["sites"].items()))
    self.assertEqual([*federation_lib.Federation(_document(sites=sites)).sites], [*_IDENTITIES])

  def test_people_are_told_what_they_agree_to(self):
    for privacy, texts in (
        (None, ["EXACT"]), (sample_sites.PRIVATE, ["epsilon 4", "radius 20", "min_sites 2"]),
        (sample_sites.CLIENTS, ["client", "max_points 50"]),
        ({**sample_sites.VIEWS, "epsilon": 1e6}, ["view_norms [15.0, 20.0]", "warning: `epsilon`"]),
    ):
      widths = (2, 3) if privacy and "view_norms" in privacy else (5,)
      document = sample_sites.document_of(_IDENTITIES, widths, privacy)
      terms = "\n".join(federation_lib.Federation(document).terms)
      for text in texts:
        self.assertIn(text, terms)

  @parameterized.parameters(
      ({"sites": dict(list(_document()["sites"].items())[:2])}, "sites"),
      ({"sites": {}}, "sites"), ({"sites": ["east"]}, "sites"),
      ({"sites": {**_document()["sites"], "South": "00" * 32}}, "sites"),
      ({"sites": {**_document()["sites"], "west": "00" * 31}}, "sites"),
      ({"sites": {**_document()["sites"], "west": "zz"}}, "sites"),
      ({"sites": {**_document()["sites"], "west": _document()["sites"]["east"]}}, "differ"),
      ({"exact": None}, "privacy"), ({"exact": False}, "exact"), ({"exact": "yes"}, "exact"),
      ({"exact": False, "privacy": sample_sites.PRIVATE}, "exact"),
      ({"privacy": sample_sites.PRIVATE}, "both"), ({"format": 2}, "format"),
      ({"name": 1}, "name"), ({"schema": "0"}, "schema"), ({"widths": []}, "widths"),
      ({"widths": [0]}, "widths"), ({"widths": [2**15] * 3}, "widths"), ({"more": 1}, "keys"),
      ({"limits": {"rounds": 0}}, "rounds"), ({"limits": {"more": 1}}, "limits"),
      ({"limits": {"centers": 2**16 + 1}}, "centers"),
      ({"limits": {"rounds": 10**6 + 1}}, "rounds"),
      ({"limits": {"sessions": 10**6 + 1}}, "sessions"),
      ({"sites": {f"s{place}": f"{place:064x}" for place in range(1001)}}, "sites"),
      ({"sites": {**_document()["sites"], "w" * 64: "01" * 32}}, "sites"),
      ({"widths": [2, 3], "exact": None, "privacy": sample_sites.PRIVATE}, "view_norms"),
      ({"exact": None, "privacy": sample_sites.VIEWS}, "view_norms"),
      *(
          ({"exact": None, "privacy": {**sample_sites.PRIVATE, **changes}}, name)
          for changes, name in (
              ({"epsilon": math.inf}, "epsilon"), ({"epsilon": 0}, "epsilon"),
              ({"delta": 1.0}, "delta"), ({"radius": math.nan}, "radius"),
              ({"min_sites": 0}, "min_sites"), ({"min_sites": 4}, "min_sites"),
              ({"min_sites": None}, "min_sites"), ({"trust": "server"}, "trust"),
              ({"more": 1}, "more"), ({"max_points": 0}, "max_points"),
          )
      ),
  )
  def test_a_wrong_file_is_one_line_that_names_the_key(self, changes, name):
    path = self.create_tempfile(content=json.dumps(_document(**changes))).full_path
    with self.assertRaisesRegex(ValueError, rf"`federation` .*{name}") as caught:
      federation_lib.Federation.load(path)
    self.assertNotIn("\n", f"{caught.exception}")

  def test_a_file_that_is_none(self):
    twice = json.dumps(_document())[:-1] + ', "exact": true}'
    paths = [
        self.create_tempfile(content=text).full_path
        for text in ("", "[]", "{}", "[" * 10**5, "null", twice)
    ]
    for path in (*paths, "/nothing"):
      with self.assertRaisesRegex(ValueError, "`federation`"):
        federation_lib.Federation.load(path)


class IdentityTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.path = os.path.join(self.create_tempdir().full_path, "key.json")

  def test_a_file_is_its_owners_alone_and_comes_back(self):
    identity = identity_lib.Identity.create("east")
    identity.write(self.path)
    self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)
    self.assertEqual(identity_lib.Identity.load(self.path).public, identity.public)
    with self.assertRaises(FileExistsError):
      identity.write(self.path)
    for mode in (0o640, 0o604, 0o601):
      os.chmod(self.path, mode)
      with self.assertRaisesRegex(ValueError, "`identity` must be .* owner"):
        identity_lib.Identity.load(self.path)

  def test_what_is_wrong_with_a_file_says_nothing_of_the_key(self):
    for text in ("5ecre7\udcff", '{"name": "east", "private": "5ecre7"}', '{"private": "5ecre7"}'):
      with open(self.path, "wb") as file:
        file.write(text.encode(errors="surrogateescape"))
      os.chmod(self.path, 0o600)
      with self.assertRaisesRegex(ValueError, "`identity` must hold") as caught:
        identity_lib.Identity.load(self.path)
      self.assertNotIn("5ecre7", f"{caught.exception}")

  def test_modules_need_neither_what_takes_long_to_import_nor_the_extra_which_is_named(self):
    program = """
import sys
sys.modules["cryptography"] = None  # So its import fails.
from experiments import site
from fl_clustering.sites import coordinator, identity, rows
try:
  identity.Identity.create("east")
except ModuleNotFoundError as e:
  print(e, {"sklearn", "tensorflow"} & {*sys.modules})
"""
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": ""}
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    )
    self.assertRegex(found.stdout, r"^`cryptography` must be installed .*\.\[sites\].* set\(\)$")


class SiteLedgerTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.path = os.path.join(self.create_tempdir().full_path, "ledger.json")

  def _begun(self, unit="row"):
    """Returns a new ledger in a session."""
    ledger = site_ledger.SiteLedger.create(self.path)
    ledger.begin("s1", "f1", unit)
    return ledger

  def test_it_never_shrinks_and_stops_at_the_budget(self):
    ledger = self._begun()
    for _ in range(3):
      ledger.spend(0.25, 1.0)
    ledger.close()
    ledger = site_ledger.SiteLedger(self.path)
    self.assertAlmostEqual(ledger.spent("row"), 0.75)
    ledger.begin("s2", "f2", "row")
    for bad in (0.2500001, math.inf, math.nan, -0.5, 0.0):
      with self.assertRaises(wire.Refused):
        ledger.spend(bad, 1.0)
    ledger.spend(0.25, 1.0)
    with self.assertRaisesRegex(wire.Refused, "budget"):
      ledger.spend(1e-6, 1.0)
    before = ledger.spent("row")
    self.assertAlmostEqual(before, 1.0)
    self.assertEqual(ledger.num_sessions("f1"), 1)
    ledger.spend(1e-30, 1.0)
    self.assertGreater(ledger.spent("row"), before)
    with open(self.path, encoding="utf-8") as file:  # People read it, too.
      rounds = [(one["session"], one["rounds"]) for one in json.load(file)["sessions"]]
    self.assertEqual(rounds, [("s1", 3), ("s2", 2)])

  def test_after_exact_sums_or_noise_for_another_unit_there_is_no_budget(self):
    for first, second in (
        ("client", "row"), ("row", "client"), ("client", "client of another"), ("exact", "row")
    ):
      ledger = self._begun(first)
      if first == "exact":
        ledger.enter()
      else:
        ledger.spend(0.5, 1.0)
      ledger.begin("s2", "f2", second)
      with self.assertRaisesRegex(wire.Refused, "budget"):
        ledger.spend(1e-6, 100.0)
      ledger.close()
      os.remove(self.path)

  def test_one_program_at_a_time(self):
    ledger = self._begun()
    with self.assertRaisesRegex(ValueError, "`ledger` must be used by one program at a time"):
      site_ledger.SiteLedger(self.path)
    ledger.close()
    for enter in (lambda: ledger.begin("s2", "f1", "row"), lambda: ledger.spend(0.1, 1.0)):
      with self.assertRaises(wire.Refused):
        enter()
    site_ledger.SiteLedger(self.path)

  def test_a_ledger_that_was_changed_takes_no_entry(self):
    ledger = self._begun()
    with open(self.path, encoding="utf-8") as file:
      before = file.read()
    ledger.spend(0.25, 1.0)
    with open(self.path, "w", encoding="utf-8") as file:
      file.write(before)
    with self.assertRaisesRegex(wire.Refused, "another program"):
      ledger.spend(0.25, 1.0)
    self.assertAlmostEqual(ledger.spent("row"), 0.25)

  def test_a_ledger_that_is_missing_or_damaged_is_no_new_one(self):
    with self.assertRaisesRegex(ValueError, "`ledger` must be a file"):
      site_ledger.SiteLedger(self.path)
    entry = {"session": "", "federation": "", "unit": "row", "rounds": 1, "mu_squared": 1.0}
    whole = {"format": 2, "id": "0", "sessions": []}
    for text in ("", "{}", *(json.dumps({**whole, **wrong}) for wrong in (
        {"format": 1}, {"format": 3}, {"sessions": [1]},
    )), *(
        json.dumps({**whole, "sessions": [{**entry, **wrong}]})
        for wrong in (
            {"mu_squared": -1.0}, {"mu_squared": math.nan}, {"mu_squared": math.inf},
            {"mu_squared": "0"}, {"rounds": math.inf},
        )
    ), "[" * 10**5):
      with open(self.path, "w", encoding="utf-8") as file:
        file.write(text)
      with self.assertRaisesRegex(ValueError, "`ledger` can't be used"):
        site_ledger.SiteLedger(self.path)
      with self.assertRaises(FileExistsError):
        site_ledger.SiteLedger.create(self.path)

  def test_a_ledger_that_can_not_be_opened_is_not_locked(self):
    with open(self.path, "w", encoding="utf-8") as file:
      file.write("{}")
    try:
      site_ledger.SiteLedger(self.path)
      self.fail()
    except ValueError:  # Here nothing of the failure is forgotten yet.
      os.close(site_ledger.lock(f"{self.path}.lock", ledger=self.path))


def _fields(names, maximum=100):
  bounds = {"minimum": 0, "maximum": maximum}
  return [{"name": name, "type": "number", "constraints": bounds} for name in names]


class RowsTest(absltest.TestCase):
  """Of a client or two, each with a table of two views: `near` of x and y, and `far` of z."""

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    rng = np.random.default_rng(0)
    self.rows = {name: rng.integers(0, 100, (40, 3)).astype(float) for name in "ab"}
    for name, rows in self.rows.items():
      os.mkdir(os.path.join(self.folder, name))
      for view, columns, own in (("near", "xy", rows[:, :2]), ("far", "z", rows[:, 2:])):
        lines = [",".join(columns), *(",".join(f"{x:g}" for x in row) for row in own)]
        self._write(f"{name}/{view}.csv", lines)

  def _write(self, path, lines):
    with open(os.path.join(self.folder, path), "w", encoding="utf-8") as file:
      file.write("".join(f"{line}\n" for line in lines))

  def _read(self, schema, privacy=None, folder="", agreed=None):
    """Returns the rows of a folder, by a federation file with this schema, or another one."""
    schemas, agreed = (
        {schema_lib.NO_VIEW: one} if isinstance(one, schema_lib.Schema) else one
        for one in (schema, agreed or schema)
    )
    document = _document(
        schema=federation_lib.schema_hash(agreed),
        widths=[len(one.feature_names) for one in schemas.values()],
        **({} if privacy is None else {"exact": None, "privacy": privacy}),
    )
    directory = os.path.join(self.folder, folder)
    return rows_lib.read(directory, schemas, federation_lib.Federation(document))[0]

  def _views(self, **more):
    return views_lib.from_json({"resources": [
        {"name": view, "schema": {**more, "fields": [*more.get("fields", ()), *_fields(names)]}}
        for view, names in (("near", "xy"), ("far", "z"))
    ]})

  def test_views_are_side_by_side_in_the_order_of_their_names(self):
    for privacy in (None, sample_sites.VIEWS):
      found = self._read(self._views(), privacy)
      for name, rows in self.rows.items():
        expected = rows[:, [2, 0, 1]]
        np.testing.assert_allclose(found[name], expected if privacy is None else expected / 50 - 1)

  def test_no_private_row_changes_how_another_one_is_read(self):
    before = self._read(self._views(), sample_sites.VIEWS)
    lines = ["x,y", *(f"{x:g},{y:g}" for x, y in self.rows["a"][:, :2])]
    for bad in ("", '"', "1", "1,2,3", "x,\0", "1e999,nan"):
      self._write("a/near.csv", [*lines[:6], bad, *lines[7:]])
      found = self._read(self._views(), sample_sites.VIEWS)
      self.assertEqual(len(found["a"]), 40)
      np.testing.assert_array_equal(np.delete(found["a"], 5, 0), np.delete(before["a"], 5, 0))
      np.testing.assert_array_equal(found["a"][5, :1], before["a"][5, :1])
      np.testing.assert_array_equal(found["b"], before["b"])
      with self.assertRaises(bad_table.BadTable):
        self._read(self._views())
    for num_rows in (10, 0):
      self._write("a/near.csv", lines[: num_rows + 1])
      found = self._read(self._views(), sample_sites.VIEWS)
      np.testing.assert_array_equal(found["a"], before["a"][:num_rows])

  def test_a_key_could_change_what_others_are_joined_to(self):
    key = {"fields": [{"name": "patient", "type": "string"}], "primaryKey": "patient"}
    with self.assertRaisesRegex(ValueError, "`primaryKey` must be left out"):
      self._read(self._views(**key), sample_sites.VIEWS)

  def test_a_private_site_without_a_client_is_one_without_rows(self):
    schema = schema_lib.Schema.from_json(
        {"fields": [*_fields("xy"), {"name": "who", "type": "string"}], "client": "who"}
    )
    os.mkdir(os.path.join(self.folder, "none"))
    self._write("none/ward.csv", ["x,y,who"])
    rows = self._read(schema, sample_sites.PRIVATE, "none")
    self.assertEqual([(len(own), own.shape[1]) for own in rows.values()], [(0, 2)])

  def test_numbers_that_are_equal_are_one_schema_and_dialects_may_differ(self):
    hashes = {
        federation_lib.schema_hash({schema_lib.NO_VIEW: schema_lib.Schema.from_json({
            "dialect": {"delimiter": delimiter}, "missingValues": ["", delimiter],
            "fields": [{
                "name": "x", "type": "number", "constraints": {"minimum": low, "maximum": high},
            }],
        })}) for low in (0, 0.0, -0.0) for high in (10**17, 1e17) for delimiter in ";,"
    }
    self.assertLen(hashes, 1)

  def test_another_schema_is_refused(self):
    own, other = (
        schema_lib.Schema.from_json({"fields": _fields("xy", maximum)}) for maximum in (100, 99)
    )
    with self.assertRaisesRegex(ValueError, "`schema` must"):
      self._read(own, agreed=other)
    mean = schema_lib.Schema.from_json({"fields": _fields("xy"), "missing": "mean"})
    with self.assertRaisesRegex(ValueError, "`schema.missing` must"):
      self._read(mean)
    # With noise, a missing number is its center, whatever the schema says.
    found = self._read(mean, sample_sites.PRIVATE, "a")
    np.testing.assert_allclose(found["near"], self.rows["a"][:, :2] / 50 - 1)

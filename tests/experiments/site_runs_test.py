"""Tests for experiments.site_runs."""

import contextlib
import csv
import io
from unittest import mock

from absl.testing import absltest
from absl.testing import flagsaver

from experiment_shell import launch
from experiment_shell import output_folder
from experiments import site_runs
from experiments import worker_flags
from fl_clustering.distribution import dealing
from fl_clustering.distribution import remote_worker
from fl_clustering.distribution import worker_lost


def _document(digest, **num_rows):
  clients = {client_id: {"num_rows": n} for client_id, n in num_rows.items()}
  return {"clients": clients, "digest": digest}


_OPENED = site_runs.OpenSites(
    {"x:1": _document("7a", south=4, west=2), "y:1": _document("3b", north=5)}, (), ()
)
_DATA = {"features": ["age"], "sites": _OPENED.describe()}


def _missing(address):
  worker = remote_worker.RemoteWorker(address, 1, None)
  return dealing.SiteMissing(worker, 1)


class OpenWorkersTest(absltest.TestCase):

  def test_says_who_computes_for_how_many_clients(self):
    opened = mock.Mock(sites={}, clients_at_a_time={"x:1": 2, "y:1": 8})
    told = io.StringIO()
    with (
        flagsaver.flagsaver(workers=["x:1", "y:1"]),
        mock.patch.object(worker_flags, "pool", mock.Mock(Pool=lambda *_: opened)),
        contextlib.redirect_stderr(told),
    ):
      self.assertIs(worker_flags.open_workers("leave out"), opened)
    self.assertEqual(told.getvalue().splitlines(), [
        "worker x:1: clients at a time: 2",
        "worker y:1: clients at a time: 8",
    ])


  def test_this_machine_s_own_worker_does_not_start(self):
    lost = worker_lost.WorkerLost("It did not answer within 60 s.")
    with (
        flagsaver.flagsaver(workers=["x:1"]),
        mock.patch.object(worker_flags, "pool", mock.Mock(Pool=mock.Mock(side_effect=lost))),
        contextlib.ExitStack() as stack,
        self.assertRaisesRegex(launch.RunFailed, r"^It did not answer within 60 s\.$"),
    ):
      worker_flags.open_documents(stack)


class OpenSitesTest(absltest.TestCase):

  def test_describes_sites_in_the_order_of_their_clients_without_addresses(self):
    self.assertEqual(_DATA["sites"], [
        {"clients": {"north": 5}, "digest": "3b"},
        {"clients": {"south": 4, "west": 2}, "digest": "7a"},
    ])

  def test_says_who_computes_for_whom(self):
    opened = site_runs.OpenSites(_OPENED.documents, (), ())
    opened.__dict__["sites"] = mock.Mock(clients={"south": 0, "west": 0, "north": 0})
    self.assertEqual(
        opened.lines, ("data: 3 clients at 2 sites", "site x:1: 2 clients", "site y:1: 1 client")
    )
    self.assertIn("the numbers of clients are 1, 2.", site_runs.shares_text(_DATA))

  def test_without_a_site(self):
    left = _OPENED.without("x:1")
    self.assertEqual(list(left.documents), ["y:1"])
    self.assertEqual(left.summary(), {"addresses": ["x:1"], "clients": ["south", "west"]})

  def test_the_same_sites_at_other_addresses_are_resumed(self):
    moved = site_runs.OpenSites(
        {"b:2": _document("7a", south=4, west=2), "a:2": _document("3b", north=5)}, (), ()
    )
    described = {**_DATA, "sites": moved.describe()}
    self.assertEqual(moved.resuming(_DATA, described).missing_clients, ())

  def test_a_site_that_is_missing_is_known_from_before(self):
    left = site_runs.OpenSites({"y:1": _document("3b", north=5)}, ("x:1",), ())
    described = {**_DATA, "sites": left.describe()}
    self.assertEqual(left.resuming(_DATA, described).missing_clients, ("south", "west"))

  def _assert_refused(self, documents, missing=(), recorded=None, **changes):
    opened = site_runs.OpenSites(documents, missing, ())
    described = {**_DATA, "sites": opened.describe(), **changes}
    with self.assertRaisesRegex(ValueError, "^`workers` must be the sites that the run to resume"):
      opened.resuming(_DATA if recorded is None else recorded, described)

  def test_other_sites_are_refused(self):
    x, y = _OPENED.documents.values()
    self._assert_refused({"y:1": y})
    self._assert_refused({"x:1": x, "y:1": _document("3c", north=5)})
    with self.assertRaisesRegex(ValueError, "began with, got other clients or rows at y:1.$"):
      opened = site_runs.OpenSites({"x:1": x, "y:1": _document("3c", north=5)}, (), ())
      opened.resuming(_DATA, {**_DATA, "sites": opened.describe()})
    self._assert_refused({"x:1": x, "y:1": y, "z:1": _document("4d", east=1)})
    self._assert_refused({"z:1": _document("4d", east=1)}, missing=("x:1",))
    # One that does not answer is not two.
    recorded = {**_DATA, "sites": [*_DATA["sites"], {"clients": {"west 2": 3}, "digest": "5c"}]}
    self._assert_refused({"y:1": y}, missing=("x:1",), recorded=recorded)
    self._assert_refused({"x:1": x, "y:1": y}, features=["age", "sex"])
    self._assert_refused({"x:1": x, "y:1": y}, recorded={"clients": {"north": 5}})


class OpeningTest(absltest.TestCase):

  def _open(self, kind):
    documents = {"x:1": {**_document("7a", south=4), "kind": "views"}}
    with (
        mock.patch.object(worker_flags, "open_documents", return_value=documents),
        mock.patch.object(worker_flags, "addresses", return_value=("x:1", "y:1")),
        mock.patch.object(site_runs, "joined_sites"),
    ):
      return site_runs.open_sites(None, kind)

  def test_those_that_do_not_answer_are_missing(self):
    for kind in ("views", None):
      self.assertEqual(self._open(kind).missing, ("y:1",))

  def test_sites_of_another_kind(self):
    with self.assertRaisesRegex(
        ValueError,
        "^`workers` must be sites of tables, got sites of views, which experiments:multi_view "
        r"clusters\.$",
    ):
      self._open("tables")


class WarningsTest(absltest.TestCase):

  def test_known_clients_are_not_said_to_be_those_of_all_missing_sites(self):
    for clients, text in ((["a", "b"], "Known clients: a, b."), ([], "Known clients: none.")):
      missing = {"addresses": ["x:1", "y:1"], "clients": clients}
      finished = mock.Mock(summary={site_runs.MISSING: missing})
      ((_, found, _),) = site_runs.warnings(finished)
      self.assertEndsWith(found, f"x:1, y:1. {text}")


class RunTest(absltest.TestCase):

  def _run(self, *lost):
    """Runs what loses the sites one after another; returns its calls."""
    calls, left = [], list(lost)

    def measure(opened):
      calls.append(list(opened.documents))
      if left:
        raise _missing(left.pop(0))
      return "done"

    self.assertEqual(site_runs.run(_OPENED, measure), "done")
    return calls

  def test_nothing_is_lost(self):
    self.assertEqual(self._run(), [["x:1", "y:1"]])

  def test_stops(self):
    with self.assertRaisesRegex(dealing.SiteMissing, "x:1"):
      self._run("x:1")

  @flagsaver.flagsaver(missing_sites="skip")
  def test_begins_again_without_a_site(self):
    self.assertEqual(self._run("x:1"), [["x:1", "y:1"], ["y:1"]])

  @flagsaver.flagsaver(missing_sites="skip")
  def test_stops_without_any_site(self):
    with self.assertRaisesRegex(dealing.SiteMissing, "y:1"):
      self._run("x:1", "y:1")

  @flagsaver.flagsaver(missing_sites="skip")
  def test_a_site_is_left_out_once(self):
    with self.assertRaisesRegex(dealing.SiteMissing, "x:1"):
      self._run("x:1", "x:1")


class TablesTest(absltest.TestCase):

  def _study(self, opened, resume=True):
    folder = output_folder.OutputFolder(self.path, resume, False, ["t.csv"])
    folder.start({"config": {}})
    self.addCleanup(folder.close)
    study = site_runs.SitesStudy(opened, folder, "t.csv", ("k",), ("v",))
    folder.close()
    return study

  def setUp(self):
    super().setUp()
    self.path = self.create_tempdir().full_path

  def test_rows_of_all_sites_are_kept_and_others_removed(self):
    self._study(_OPENED, resume=False).run([{"k": 1}], lambda k: {"v": k})
    self.assertEqual(self._study(_OPENED).rows, [{"k": 1, "v": 1, "missing_sites": None}])
    left = self._study(_OPENED.without("x:1"))
    self.assertEqual(left.rows, [])
    left.run([{"k": 1}], lambda k: {"v": 5})
    self.assertEqual(left.rows, [{"k": 1, "v": 5, "missing_sites": "x:1"}])
    self.assertEqual(self._study(_OPENED).rows, [])

  def test_rows_without_another_site_at_the_same_address_are_removed(self):
    x, y = _OPENED.documents.values()
    moved = site_runs.OpenSites({"x:1": y, "y:1": x}, (), ())
    self._study(_OPENED.without("x:1"), resume=False).run([{"k": 1}], lambda k: {"v": 5})
    self.assertEqual(self._study(moved.without("x:1")).rows, [])

  def test_every_row_says_which_sites_are_missing(self):
    columns = _OPENED.without("x:1").last_columns
    text = output_folder.csv_text(("a",), [(1,), (2,)], columns)
    self.assertEqual(list(csv.reader(io.StringIO(text))), [
        ["a", "missing_sites"], ["1", "x:1"], ["2", "x:1"],
    ])


if __name__ == "__main__":
  absltest.main()

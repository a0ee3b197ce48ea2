import contextlib
import dataclasses
import functools
import io
import itertools
import os
import pathlib
import re
import shutil
import signal
import tempfile
import time
from unittest import mock

from absl.testing import parameterized
import pandas as pd

from experiment_shell import cell_processes
from experiment_shell import finished_run
from experiment_shell import launch
from experiment_shell import program
from experiment_shell import tidy_experiment
from experiment_shell import tidy_report
from tests import nightly
from tests.experiment_shell import in_process
from tests.experiment_shell import run_folder


class _Lost(Exception):
  """What fails a cell."""


@dataclasses.dataclass(frozen=True)
class _Config:
  seeds: int = 3
  rate: float = 0.5

  def to_json(self):
    return dataclasses.asdict(self)


# What happens to a cell, by its text: an exception, "slow", or "kill" for its process.
_FAULTS = {}
_MEASURED = []


def _load(config, stack, source="here", **more):
  del config
  stack.callback(_MEASURED.append, "closed")
  return tidy_experiment.Inputs(
      data=dict(_FAULTS), identity={"data": {"source": source, "shape": (2, 3), **more}},
      about={"rows": {"wide": 2, "long": None}}, warnings=("<few>",), lines=("data: two",),
  )


def _cells(config, data):
  del data
  return [
      {"method": method, "seed": seed} for method in ("<a>", "007") for seed in range(config.seeds)
  ]


def _measure(run, method, seed):
  fault = run.data.get(f"{method} {seed}")
  if fault == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
  if fault == "slow":
    time.sleep(0.5)
  elif fault is not None:
    raise fault
  _MEASURED.append(f"{method} {seed}")
  score = (0.7 if method == "007" else 0.5) + seed / 30 * run.config.rate
  return {
      "results": [
          {"client": client, "metric": metric, "value": score if metric == "accuracy" else None}
          for client in ("NA", "01") for metric in ("accuracy", "recall")
      ],
      "curves": (
          {"round": round_, "metric": "loss", "value": 1 / (1 + round_)} for round_ in range(3)
      ),
  }


def _summarise(tidy, document):
  results = tidy["results"]
  means = results.groupby("method", sort=False)["value"].agg(["mean", "std"]).reset_index()
  return {
      "headline": pd.DataFrame([{"verdict": "better", "rate": document["config"]["rate"]}]),
      "means": means.assign(below_zero=-1e-9),
      "none": means[:0],
      "curves": tidy["curves"].rename(columns={"value": "mean"}),
  }


def _draw(frame, axes):
  axes.plot(frame["round"], frame["mean"], label="loss")


_TOY = tidy_experiment.Experiment(
    name="toy", title="A toy & more", keys={"method": str, "seed": int}, load=_load, cells=_cells,
    measure=_measure, summarise=_summarise,
    headlines={"better": "007 is better at {rate:g}."},
    tables=[
        tidy_experiment.Table(
            "means", "Means at {rate:g}", "All seeds.",
            {"method": "{}", "mean": "{:.3f}", "below_zero": "{:.2f}"}, printed=True,
        ),
        tidy_experiment.Table("none", "Not there", ""),
    ],
    figures=[
        tidy_experiment.Figure("curves", "Loss at {rate:g}", "Falls.", _draw, panels="method"),
        tidy_experiment.Figure("none", "Not there", "", _draw),
    ],
    reading=["Read it."], tidy={"results": {"client": str}, "curves": {"round": int}},
    versions_of=("numpy",), failures=(_Lost,),
)


class TidyExperimentTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    temporary = tempfile.TemporaryDirectory()
    cls.addClassCleanup(temporary.cleanup)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
      tidy_experiment.run(_TOY, _Config(), temporary.name)
    cls.printed, cls.undisturbed = printed.getvalue(), finished_run.FinishedRun(temporary.name)
    tidy_report.report(_TOY, cls.undisturbed)

  def setUp(self):
    super().setUp()
    self.run_ = pathlib.Path(self.create_tempdir().full_path, "run")
    _FAULTS.clear()
    _MEASURED.clear()

  def _measured(self, config=_Config(), changes=None, **options):
    """Runs the experiment with changes; returns the table of results."""
    with contextlib.redirect_stdout(io.StringIO()):
      return tidy_experiment.run(
          dataclasses.replace(_TOY, **(changes or {})), config, str(self.run_), **options
      )

  def _run(self, **options):
    """Runs the experiment and draws its report; returns the table of results."""
    found = self._measured(**options)
    tidy_report.report(_TOY, finished_run.FinishedRun(str(self.run_)))
    return found

  def _check_same(self):
    """Checks that the run leaves what an undisturbed one does."""
    found, expected = map(run_folder.files, (self.run_, self.undisturbed.path))
    self.assertGreater(len(expected), 7)
    self.assertEqual(found, expected)

  def _stop(self, cell):
    """Runs the experiment until a cell, where it is interrupted."""
    _FAULTS[cell] = KeyboardInterrupt()
    with self.assertRaises(KeyboardInterrupt):
      self._measured()
    _FAULTS.clear()
    _MEASURED.clear()

  def test_leaves_a_row_for_every_number(self):
    results = self._measured()

    self.assertLen(results, 6 * 4)
    self.assertEqual(list(results), ["method", "seed", "client", "metric", "value"])
    # Text stays text, also where it looks like a number, or like none.
    self.assertEqual(set(results["method"]), {"<a>", "007"})
    self.assertEqual(set(results["client"]), {"NA", "01"})
    self.assertEqual(results["value"].tolist()[4], 0.5 + 1 / 30 * 0.5)
    self.assertEqual(results["value"].isna().tolist(), [False, True] * 12)
    self.assertEqual(_MEASURED[-1], "closed")

  def test_a_cell_with_half_of_its_numbers_is_measured_again(self):
    self._stop("007 1")
    path = self.run_ / "cells.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for kept in (lines[:-1], [*lines[:-1], lines[-1][:-9]], [*lines[:-1], b"\0" * 99 + b"\n"]):
      path.write_bytes(b"".join(kept))
      _FAULTS["007 1"] = KeyboardInterrupt()
      with self.assertRaises(KeyboardInterrupt):
        self._measured(resume=True)
      self.assertEqual(_MEASURED, ["007 0", "closed"])
      self.assertEqual(path.read_bytes(), b"".join(lines))
      _MEASURED.clear()
    _FAULTS.clear()

    self._run(resume=True)

    self.assertEqual(_MEASURED, ["007 1", "007 2", "closed"])
    self._check_same()

  def test_a_run_that_is_stopped_while_it_draws_measures_nothing_again(self):
    with mock.patch.object(tidy_report, "write_page", side_effect=KeyboardInterrupt):
      with self.assertRaises(KeyboardInterrupt):
        self._run()
    _MEASURED.clear()

    before = self._run(resume=True)

    self.assertEqual(_MEASURED, ["closed"])
    self._check_same()
    _MEASURED.clear()
    pd.testing.assert_frame_equal(self._measured(resume=True), before)
    self.assertEmpty(_MEASURED)  # It is finished.

  def test_a_failed_cell_is_a_row_and_is_tried_again(self):
    _FAULTS["007 1"] = _Lost("gone\nfor good")

    self.assertLen(self._run(), 5 * 4)

    self.assertEqual(run_folder.rows(self.run_, "failures.csv"), [
        {"method": "007", "seed": "1", "last words": "gone for good"}
    ])
    self.assertIn("gone for good", (self.run_ / "report.html").read_text())
    finished = finished_run.FinishedRun(str(self.run_))
    self.assertEqual(
        tidy_report._failures(_TOY, finished),  # pylint: disable=protected-access
        [{"method": "007", "seed": 1, "last words": "gone for good"}],
    )
    _FAULTS.clear()
    _MEASURED.clear()
    self._run(resume=True)
    self.assertEqual(_MEASURED, ["007 1", "closed"])
    self.assertFalse((self.run_ / "failures.csv").exists())
    self._check_same()

  def test_failed_cells_are_in_their_order_whichever_failed_first(self):
    outcomes, cells = cell_processes.outcomes, [("<a>", "1"), ("<a>", "2"), ("007", "1")]
    _FAULTS.update({" ".join(cell): _Lost("gone") for cell in cells})

    def last_first(*arguments):
      yield from reversed([*outcomes(*arguments)])

    with mock.patch.object(cell_processes, "outcomes", last_first):
      self._measured()
    rows = run_folder.rows(self.run_, "failures.csv")
    self.assertEqual([(row["method"], row["seed"]) for row in rows], cells)

  def test_a_cell_whose_process_is_killed_fails_and_the_others_go_on(self):
    _FAULTS["<a> 2"] = "kill"

    def load(*arguments, **options):
      inputs = _load(*arguments, **options)
      return dataclasses.replace(inputs, processes=cell_processes.Processes())

    self.assertLen(self._measured(changes={"load": load}), 5 * 4)

    (failure,) = run_folder.rows(self.run_, "failures.csv")
    self.assertEqual((failure["method"], failure["seed"]), ("<a>", "2"))
    self.assertIn("SIGKILL", failure["last words"])
    _FAULTS.clear()
    self._run(resume=True)
    self._check_same()

  def test_an_error_in_another_process_ends_the_run_too(self):
    _FAULTS["007 1"] = OSError("disk full")

    def load(*arguments, **options):
      inputs = _load(*arguments, **options)
      return dataclasses.replace(inputs, processes=cell_processes.Processes())

    with self.assertRaisesRegex(launch.RunFailed, "disk full.*--resume"):
      self._measured(changes={"load": load})

  def test_a_program_whose_cells_failed_says_so(self):
    main = lambda: program.main(_TOY, _Config())
    _FAULTS["<a> 1"] = _Lost("gone")
    with self.assertRaisesRegex(launch.RunFailed, "failures.csv.*--resume"):
      in_process.run_main(main, f"--output_dir={self.run_}")
    self.assertTrue((self.run_ / "report.html").exists())
    _FAULTS.update({
        f"{cell['method']} {cell['seed']}": _Lost("gone") for cell in _cells(_Config(), None)
    })
    with self.assertRaisesRegex(launch.RunFailed, "no results.*failures.csv"):
      in_process.run_main(main, f"--output_dir={self.run_}", "--overwrite")

  def test_a_table_for_each_value_has_the_rows_of_that_value(self):
    table = tidy_experiment.Table(
        "means", "By method", "", {"mean": "{:.3f}", "below_zero": "{:.2f}"}, by="method",
        printed=True,
    )
    self.assertRegex(
        tidy_report.text(dataclasses.replace(_TOY, tables=[table]), self.undisturbed),
        r"(?s)\n<a>[^\n]*\n0\.517 +0\.00\n\n007[^\n]*\n0\.717 +0\.00$",
    )

  @parameterized.parameters(
      ({"results": [{"client": "1", "metric": "loss"}]}, "results.*'value'"),
      ({"results": [{"client": "1", "metric": "loss", "value": 1, "odd": 2}]}, "results.*'odd'"),
      ({"others": [{"metric": "loss", "value": 1}]}, "others"),
  )
  def test_rows_that_fit_no_table_end_the_run_at_once(self, measured, message):
    with self.assertRaisesRegex(ValueError, message):
      self._measured(changes={"measure": lambda run, **cell: measured})
    self.assertEqual((self.run_ / "cells.jsonl").read_text(), "")

  @parameterized.parameters(1, 2)
  def test_another_error_ends_the_run_and_keeps_what_was_measured(self, jobs):
    # By day, `cell_processes_test` measures in other processes.
    nightly.skip_by_day(self, jobs > 1)
    _FAULTS.update({"<a> 2": "slow", "007 1": OSError("disk full")})
    with self.assertRaisesRegex(launch.RunFailed, "disk full.*--resume"):
      self._measured(jobs=jobs)
    journal = (self.run_ / "cells.jsonl").read_text()
    for seed in range(3):  # Also one that another process was at.
      self.assertIn(f'"<a>", "seed": {seed}', journal)

  @parameterized.parameters(
      ({"config": _Config(rate=1.0)}, "`rate`"), ({"source": "there"}, "`output_dir`.*source"),
      ({"further": 1}, "`output_dir`.*further"), ({"overwrite": True}, "`resume`"),
  )
  def test_a_resumed_run_must_be_the_same(self, changes, message):
    self._stop("007 1")

    with self.assertRaisesRegex(launch.InputError, message):
      self._measured(resume=True, **changes)

  def test_overwrites_a_run_but_none_that_was_charged(self):
    changes = {"charged_in": lambda config: "cells.jsonl" if config.seeds == 1 else None}
    self._measured(changes=changes)
    with self.assertRaisesRegex(launch.InputError, "`output_dir`"):
      self._measured(changes=changes)
    charged = {"config": _Config(seeds=1), "changes": changes}
    self.assertLen(self._measured(**charged, overwrite=True), 2 * 4)
    with self.assertRaisesRegex(launch.InputError, "`output_dir`"):
      self._measured(changes=changes, overwrite=True)
    self._measured(**charged, resume=True)
    os.remove(self.run_ / "cells.jsonl")
    before = len(_MEASURED)
    with self.assertRaisesRegex(launch.InputError, "`output_dir`"):
      self._measured(**charged, resume=True)
    self.assertEqual(_MEASURED[before:], ["closed"])

  def test_inputs_of_a_finished_run_are_checked_where_the_experiment_says_so(self):
    shutil.copytree(self.undisturbed.path, self.run_)
    options = {"changes": {"rechecks_finished": True}, "resume": True}
    self.assertLen(self._measured(**options), 6 * 4)
    with self.assertRaisesRegex(launch.InputError, "`output_dir` .*source"):
      self._measured(source="there", **options)
    self.assertEqual(_MEASURED, ["closed"] * 2)

  def test_it_is_finished_when_all_cells_are_measured(self):
    finished = []
    changes = {"finish": lambda run, tidy: finished.append((run, tidy))}
    for fault, options in ((_Lost("gone"), {}), (None, {"resume": True})):
      self.assertEmpty(finished)
      _FAULTS["<a> 1"] = fault
      results = self._measured(changes=changes, **options)
    self._measured(changes=changes, resume=True)

    (whole, tidy), (again, _) = finished  # No report was drawn, so the run went on.
    self.assertTrue(whole.is_resumed and again.is_resumed)
    pd.testing.assert_frame_equal(tidy["results"], results)

  def test_the_first_cells_are_measured_and_finished_before_the_others(self):
    finished = []

    def measure(run, method, seed):
      found = _measure(run, method, seed)
      self.assertEqual(len(finished), method == "007")
      # The one half has a table that the other lacks.
      return found if method == "007" else {**found, "results": [], "trials": found["results"]}

    changes = {
        "num_first": lambda config: config.seeds, "measure": measure, "optional": ("trials",),
        "tidy": {**_TOY.tidy, "trials": {"client": str}},
        "finish": lambda run, tidy: finished.append({name: len(tidy[name]) for name in tidy}),
    }
    for fault, expected in ((_Lost("gone"), []), (None, [0, 12])):
      _FAULTS["<a> 1"] = fault
      results = self._measured(changes=changes, resume=bool(expected))
      self.assertEqual([one["results"] for one in finished], expected)
    self.assertEqual([one["trials"] for one in finished], [12, 12])
    self.assertEqual(set(results["method"]), {"007"})
    self.assertEqual(_MEASURED, [
        "<a> 0", "<a> 2", "closed", "<a> 1", "007 0", "007 1", "007 2", "closed"
    ])

  def test_an_optional_table_is_not_written_without_rows(self):
    changes = {"optional": ("trials",), "tidy": {**_TOY.tidy, "trials": {"client": str}}}
    tables = []
    self._measured(changes={**changes, "finish": lambda run, tidy: tables.append([*tidy])})

    self.assertEqual(tables, [["results", "curves"]])
    self.assertFalse((self.run_ / "trials.csv").exists())

  def test_a_long_legend_takes_no_room_from_the_panels(self):
    drawn = []

    def draw(num_lines, frame, axes):
      drawn.append(axes)
      for number in range(num_lines):
        axes.plot(frame["round"], frame["mean"], label=str(number))

    figures = [
        tidy_experiment.Figure("curves", "", "", functools.partial(draw, num_lines))
        for num_lines in (4, 20)
    ]
    self._measured()
    run = finished_run.FinishedRun(str(self.run_))
    tidy_report.report(dataclasses.replace(_TOY, figures=figures), run)
    short, long = (axes.get_window_extent().height for axes in drawn)
    self.assertAlmostEqual(long, short, delta=0.03 * short)

  def test_the_page_is_one_file_with_all_parts_and_nothing_of_the_network(self):
    page = pathlib.Path(self.undisturbed.join("report.html")).read_text()
    for text in (
        "A toy &amp; more</h1>", "007 is better at 0.5.", "Means at 0.5</h2>", "&lt;a&gt;",
        "&lt;few&gt;", "Read it.", "Falls.", "0.717", "below zero</th>",
    ):
      self.assertIn(text, page)
    for text in ("Not there", "<a>", "-0.00"):
      self.assertNotIn(text, page)
    self.assertRegex(page, r"<td>rows wide</td>\s+<td>2</td>")
    self.assertRegex(page, '"scroll"[^>]+"Means at 0.5"')
    self.assertRegex(page, '"scroll text"[^>]+"Warnings"')  # To the left.
    self.assertLen(re.findall('src="data:image/png;base64,', page), 1)
    self.assertEmpty(re.findall("https?://|<script|<link", page))
    levels = [int(level) for level in re.findall("<h([1-6])", page)]
    for level, following in itertools.pairwise(levels):
      self.assertLessEqual(following, level + 1)
    self.assertRegex(
        tidy_report.text(_TOY, self.undisturbed),
        "007 is better at 0.5.\n\nMeans.*\n\nmethod +mean +below zero\n<a> +0.517 +0.00\n007",
    )

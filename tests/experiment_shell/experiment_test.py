import contextlib
import dataclasses
import io
import json
import os
import sys
import types
from unittest import mock

from absl import flags
from absl.testing import absltest
from absl.testing import flagsaver
from absl.testing import parameterized

from clustering_basics import file_format
from experiment_shell import experiment
from experiment_shell import launch


@dataclasses.dataclass(frozen=True)
class _Config:
  seed: int

  def to_json(self):
    return dataclasses.asdict(self)


class _Lost(RuntimeError):
  """What may happen while the experiment below measures."""


class _Squares(experiment.Experiment):
  """Squares numbers, with the methods of a test."""

  name = "squares"
  program = "squares"
  files = ("squares.csv",)
  folders = ()
  versions_of = ("numpy", "not-installed")
  report = "squares_report"
  failures = (_Lost,)

  def result_text(self, finished):
    return f"seed {finished.summary['seed']}"


class ExperimentTest(parameterized.TestCase):
  """Runs an experiment that squares numbers, and looks at what it leaves."""

  def setUp(self):
    super().setUp()
    self._path = os.path.join(self.create_tempdir().full_path, "run")
    self._seed = 3
    self._data = [2]
    self._error = None
    self._is_broken = False
    self._problem = ""
    self._may_get_further = False
    self._log = []

  def load(self, config, recorded, stack):
    self._log.append(("load", config.seed, recorded and recorded["data"]))
    stack.callback(self._log.append, "closed")
    return experiment.Inputs(self._data, {"data": self._data}, ("data: numbers",))

  def measure(self, config, inputs, folder):
    self._log.append("measure")
    if self._error is not None:
      raise self._error
    folder.write_text("squares.csv", "square\n" + "".join(f"{x * x}\n" for x in inputs.data))
    return {"seed": config.seed}

  def write_report(self, finished):
    with open(finished.join("report.html"), "w", encoding="utf-8") as file:
      file.write(f"{finished.rows('squares.csv')} of {finished.settings['seed']}")

  def check_recorded(self, recorded, document):
    if recorded["data"] != document["data"]:
      raise ValueError("`data` must be the same.")

  def _run(self, rechecks_finished=False, **flag_values):
    squares = _Squares()
    squares.rechecks_finished = rechecks_finished
    squares.config = lambda: _Config(self._seed)
    squares.load, squares.measure = self.load, self.measure
    squares.check_recorded = self.check_recorded
    squares.problem = lambda run: self._problem and f"{self._problem} {run.settings['seed']}"
    squares.may_get_further = lambda run: self._may_get_further and run.has("report.html")
    report = types.SimpleNamespace(write_report=self.write_report)
    # None makes the import fail.
    modules = {squares.report: None if self._is_broken else report}
    printed = io.StringIO()
    if not flags.FLAGS.is_parsed():
      flags.FLAGS(["program"])
    with (
        mock.patch.dict(sys.modules, modules),
        flagsaver.flagsaver(output_dir=self._path, **flag_values),
        contextlib.redirect_stdout(printed),
    ):
      squares.main()
    return printed.getvalue().splitlines()

  def test_goes_from_flags_to_report(self):
    lines = self._run()

    self.assertEqual(lines, [
        "data: numbers", f"results: {self._path}", "seed 3", f"report: {self._path}/report.html",
    ])
    self.assertEqual(self._log, [("load", 3, None), "measure", "closed"])
    self.assertCountEqual(
        os.listdir(self._path), ["config.json", "report.html", "squares.csv", "summary.json"]
    )
    with open(os.path.join(self._path, "config.json"), encoding="utf-8") as file:
      document = json.load(file)
    self.assertEqual(document["experiment"], "squares")
    self.assertEqual(document["config"], {"seed": 3})
    self.assertEqual(document["data"], [2])
    self.assertCountEqual(document["versions"], ["python", "numpy"])
    with open(os.path.join(self._path, "report.html"), encoding="utf-8") as file:
      self.assertEqual(file.read(), "[{'square': 4}] of 3")

  def test_a_finished_run_can_end_with_a_problem(self):
    self._problem = "no square of"
    for flag_values in ({}, {"resume": True}):
      with self.assertRaisesRegex(launch.RunFailed, "^no square of 3$"):
        self._run(**flag_values)
      self.assertIn("report.html", os.listdir(self._path))

  def test_a_finished_run_that_may_get_further_goes_on(self):
    self._run()
    self._may_get_further = True
    self._error = _Lost("again")

    with self.assertRaisesRegex(launch.RunFailed, "^again"):
      self._run(resume=True)

    # Nothing there says any more that the run is finished.
    self.assertCountEqual(os.listdir(self._path), ["config.json", "squares.csv"])
    self._error = None
    self.assertEqual(self._run(resume=True)[0], "data: numbers")

  def test_a_finished_run_is_only_shown(self):
    self._run()
    self._log.clear()

    lines = self._run(resume=True)

    self.assertEqual(lines[0], f"this run is finished: {self._path}")
    self.assertEqual(lines[1:], ["seed 3", f"report: {self._path}/report.html"])
    self.assertEqual(self._log, [])

  def test_a_finished_run_with_a_file_missing_ends_with_one_line(self):
    self._run()
    os.remove(os.path.join(self._path, "summary.json"))

    with self.assertRaisesRegex(launch.InputError, "No such file.*summary.json"):
      self._run(resume=True)

  def test_a_finished_run_with_a_truncated_summary_ends_with_one_line(self):
    self._run()
    for text, reason in (("{", "Expecting"), ("{}", "it has no 'seed'"), ("[]", "no JSON object")):
      with open(os.path.join(self._path, "summary.json"), "w", encoding="utf-8") as file:
        file.write(text)
      with self.assertRaisesRegex(launch.InputError, f"summary.json' can't be read .*{reason}"):
        self._run(resume=True)

  def test_a_report_that_misses_something_ends_with_one_line(self):
    self.write_report = lambda finished: finished.document["colour"]

    with self.assertRaisesRegex(launch.InputError, "config.json' can't be .*has no 'colour'"):
      self._run()

  def test_a_finished_run_of_other_data_is_refused_if_it_is_checked(self):
    self._run()
    self._data = [5]

    with self.assertRaisesRegex(launch.InputError, "`data` must be the same"):
      self._run(rechecks_finished=True, resume=True)

  def test_what_fails_can_be_resumed(self):
    self._error = _Lost("the worker is lost.")
    with self.assertRaisesRegex(
        launch.RunFailed, f"the worker is lost. Results so far are in {self._path}; --resume"
    ):
      self._run()
    self.assertEqual(self._log[-1], "closed")
    self._error = None
    self._log.clear()

    self._run(resume=True)

    self.assertEqual(self._log, [("load", 3, [2]), "measure", "closed"])

  def test_does_not_resume_with_other_settings_or_data(self):
    self._error = _Lost("lost")
    with self.assertRaises(launch.RunFailed):
      self._run()
    self._seed = 4
    with self.assertRaisesRegex(launch.InputError, "`seed` must be 3, as in the run to resume"):
      self._run(resume=True)
    self._seed, self._data = 3, [5]
    with self.assertRaisesRegex(launch.InputError, "`data` must be the same"):
      self._run(resume=True)

  @parameterized.named_parameters(
      # What someone has changed by hand.
      ("absent", {}), ("null", {"data": None}), ("of_another_kind", {"data": 2}),
  )
  def test_does_not_resume_without_the_recorded_data(self, document):
    os.mkdir(self._path)
    document = {"experiment": "squares", "config": {"seed": 3}, **document}
    with open(os.path.join(self._path, "config.json"), "w", encoding="utf-8") as file:
      json.dump(file_format.stamped(document), file)
    loads = {
        "reads_it": lambda config, recorded, stack: experiment.Inputs(
            list(recorded["data"].items()), {"data": 1}, ()),
        "reads_nothing": lambda config, recorded, stack: experiment.Inputs(1, {"data": 1}, ()),
    }
    checks = {
        "reads_it": lambda recorded, document: None,
        "reads_nothing": lambda recorded, document: recorded["data"]["name"],
    }

    for name, load in loads.items():
      with self.subTest(name):
        self.load, self.check_recorded = load, checks[name]
        with self.assertRaisesRegex(launch.InputError, "must hold a readable config.json"):
          self._run(resume=True)

  def test_an_error_in_the_loading_of_a_new_run_is_not_hidden(self):
    self.load = lambda config, recorded, stack: None.data

    with self.assertRaises(AttributeError):
      self._run()

  def test_what_draws_the_report_is_imported_before_measuring(self):
    self._is_broken = True

    with self.assertRaisesRegex(ImportError, "halted; None in sys.modules"):
      self._run()

    self.assertNotIn("measure", self._log)

  def test_a_report_may_say_the_result(self):
    report = types.SimpleNamespace(result_text=lambda finished: f"result of {finished}")
    with mock.patch.dict(sys.modules, {_Squares.report: report}):
      self.assertEqual(experiment.Experiment.result_text(_Squares(), "run"), "result of run")


if __name__ == "__main__":
  absltest.main()

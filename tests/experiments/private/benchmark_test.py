import json
import os
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiment_shell import output_folder
from experiment_shell import study
from experiments.private import benchmark as benchmark_lib
from experiments.private import config as config_lib
from experiments.private import datasets
from experiments.private import diffprivlib_process
from experiments.private import measuring
from experiments.private import uci
from tests.experiments.private import fake_diffprivlib


def _letter(data_dir):
  """Stands for UCI's files: a few points, others for another folder."""
  return np.random.default_rng(len(data_dir)).random((300, 3)), f"letters of {data_dir}"


class _BenchmarkTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.enter_context(mock.patch.object(uci, "load_letter", _letter))
    self.enter_context(
        mock.patch.object(diffprivlib_process, "default_python", return_value=None)
    )
    self.path = os.path.join(self.create_tempdir().full_path, "run")

  def _open(self, data_dir="uci", python=None, **changes):
    config = config_lib.BenchmarkConfig(**{
        "datasets": ("letter",), "methods": ("sklearn", "refine"), "k_to_try": (2,),
        "epsilon_to_try": (), "fixed_k": 3, "runs": 1, **changes,
    })
    return benchmark_lib.open_benchmark(config, data_dir, python)


class OpenBenchmarkTest(_BenchmarkTest):

  def test_has_the_data_sets_and_methods_asked_for(self):
    with self._open() as benchmark:
      self.assertEqual(list(benchmark.datasets), ["letter"])
      self.assertEqual(list(benchmark.clusterers), ["sklearn", "refine"])
      self.assertEqual(benchmark.skipped, {})

  def test_leaves_out_diffprivlib_where_it_is_not_and_says_so(self):
    with self._open(methods=("diffprivlib", "lsh")) as benchmark:
      self.assertEqual(list(benchmark.clusterers), ["lsh"])
      self.assertIn("--diffprivlib_python names one", benchmark.skipped["diffprivlib"])
      self.assertEqual(benchmark.diffprivlib_versions, {})

  def test_leaves_out_a_diffprivlib_of_bazel_that_is_broken(self):
    diffprivlib_process.default_python.return_value = "/bin/false"
    with self._open(methods=("diffprivlib", "lsh")) as benchmark:
      self.assertIn("/bin/false has no diffprivlib", benchmark.skipped["diffprivlib"])

  def test_runs_diffprivlib_where_it_is(self):
    python = fake_diffprivlib.write_python(self.create_tempdir().full_path)
    with self._open(methods=("diffprivlib", "lsh"), python=python) as benchmark:
      self.assertEqual(list(benchmark.clusterers), ["diffprivlib", "lsh"])
      self.assertIn("diffprivlib", benchmark.diffprivlib_versions)

  def test_does_not_start_what_is_not_asked_for(self):
    diffprivlib_process.default_python.side_effect = AssertionError
    with self._open(methods=("lsh",)) as benchmark:
      self.assertEqual(benchmark.skipped, {})

  def test_names_what_data_can_not_be_had(self):
    unavailable = mock.patch.object(uci, "load_gas_emissions", side_effect=uci.Unavailable("why"))
    with unavailable, self._open(datasets=("letter", "gas_emissions")) as benchmark:
      self.assertEqual(benchmark.skipped, {"gas_emissions": "why"})
      self.assertNotIn("gas_emissions", benchmark.describe()["datasets"])

  @parameterized.named_parameters(
      ("no_method_left", {"methods": ("diffprivlib",)}, "`methods` must name one that can be run"),
      ("no_diffprivlib", {"methods": ("diffprivlib",), "python": "/bin/false"},
       "`diffprivlib_python` must have diffprivlib"),
      ("k_above_n", {"k_to_try": (301,)}, "`k_to_try` must be at most 300.*of letter"),
      ("fixed_k_above_n", {"fixed_k": 301}, "`fixed_k` must be at most 300"),
  )
  def test_refuses(self, changes, message):
    with self.assertRaisesRegex(ValueError, message):
      with self._open(**changes):
        pass


class FolderTest(_BenchmarkTest):

  def _start(self, resume=False, **changes):
    folder = output_folder.OutputFolder(
        self.path, resume, False, (benchmark_lib.LEDGERS, benchmark_lib.MEASUREMENTS)
    )
    with self._open(**changes) as benchmark:
      document = {"config": {}, **benchmark.describe()}
      if resume:
        benchmark_lib.check_recorded(folder.recorded, document)
      folder.start(document)
      table = study.Study(
          folder, benchmark_lib.MEASUREMENTS, measuring.KEYS, measuring.VALUES
      )
      benchmark_lib.run(benchmark, folder, table)

  def test_a_run_leaves_measurements_and_ledgers(self):
    self._start()

    self.assertCountEqual(
        os.listdir(self.path), ["config.json", "ledgers.json", "measurements.csv"])
    with open(os.path.join(self.path, "ledgers.json"), encoding="utf-8") as file:
      ledgers = json.load(file)
    self.assertEqual(list(ledgers), ["refine"])
    self.assertEqual((ledgers["refine"]["dataset"], ledgers["refine"]["k"]), ("letter", 3))
    spent = sum(release["mu"] ** 2 for release in ledgers["refine"]["releases"])
    self.assertAlmostEqual(spent, ledgers["refine"]["mu_spent"] ** 2)

  def test_resumes_with_the_same_data(self):
    self._start()
    self._start(resume=True)

  @parameterized.named_parameters(
      ("other_points", {"data_dir": "elsewhere"}, "got another letter"),
      ("another_data_set_is_there", {"datasets": ("letter", "sklearn_digits")},
       "got another sklearn_digits"),
  )
  def test_does_not_resume_with_others(self, changes, message):
    self._start()

    with self.assertRaisesRegex(ValueError, f"`output_dir` must .*same data sets.*{message}"):
      self._start(resume=True, **changes)

  def test_does_not_resume_with_a_diffprivlib_that_was_not_there(self):
    self._start(methods=("lsh", "diffprivlib"))
    python = fake_diffprivlib.write_python(self.create_tempdir().full_path)

    with self.assertRaisesRegex(ValueError, "`output_dir` must .*got another diffprivlib"):
      self._start(resume=True, methods=("lsh", "diffprivlib"), python=python)


class DescribeTest(absltest.TestCase):

  def test_other_points_have_another_fingerprint(self):
    points = np.zeros((4, 2))
    described = datasets.BenchmarkDataset("letter", points, "").describe()["sha256"]
    points[3, 1] = 1e-300

    self.assertNotEqual(
        described, datasets.BenchmarkDataset("letter", points, "").describe()["sha256"])


if __name__ == "__main__":
  absltest.main()

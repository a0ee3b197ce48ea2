import os
import pathlib
import subprocess
import sys
from unittest import mock

from absl import logging
from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.tasks import digits
from fl_clustering.tasks import emnist
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import registry
from fl_clustering.tasks import task_options
from tests.tasks import data_files

_DIGITS = digits.load()


def _fake_emnist_task(options):
  """Returns a task that says it is EMNIST, without its file."""
  task = registry.DATASETS["digits"].load(task_options.TaskOptions(num_clients=options.num_clients))
  return federated_task.FederatedTask(
      name="emnist",
      source="made up",
      partition="natural",
      clients=task.clients,
      global_test=task.global_test,
      global_test_source="made up",
      num_classes=10,
      model=task.model,
  )


class LoadTaskTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    # The package's file takes seconds to parse.
    self.enter_context(mock.patch.object(digits, "load", return_value=_DIGITS))
    self._folder = self.create_tempdir().full_path

  def _emnist_is(self, cached):
    """Puts EMNIST into the cache, or makes it something that can only be downloaded."""
    missing = None if cached else "/cache/emnist_all.sqlite"
    self.enter_context(mock.patch.object(emnist, "load_task", side_effect=_fake_emnist_task))
    self.enter_context(mock.patch.object(emnist, "missing_path", return_value=missing))

  def test_digits_by_default_are_dirichlet(self):
    task = registry.load_task(dataset="digits", seed=3)
    self.assertEqual((task.name, task.partition), ("digits", "dirichlet"))
    self.assertEqual(task.partition_options, {"dirichlet_alpha": 0.5})
    self.assertEqual((task.model.name, len(task.clients)), ("cnn_small", 100))
    self.assertIsNone(task.fallback_reason)
    self.assertEqual(task.warnings, ())

  def test_says_which_options_it_used(self):
    task = registry.load_task(dataset="digits", partition="rotated", num_clients=12)
    self.assertEqual(task.partition_options, {"num_groups": 4, "dirichlet_alpha": None})
    self.assertEqual(set(task.true_groups), {0, 1, 2, 3})
    task = registry.load_task(
        dataset="digits",
        partition="permuted_labels",
        num_groups=3,
        dirichlet_alpha=0.7,
        num_clients=12,
    )
    self.assertEqual(task.partition_options, {"num_groups": 3, "dirichlet_alpha": 0.7})

  def test_clients_that_were_topped_up_are_said_and_logged(self):
    with self.assertLogs(level="WARNING") as logged:
      task = registry.load_task(dataset="digits", dirichlet_alpha=0.1)
    self.assertRegex(task.warnings[0], "left [1-9] of 100 clients with fewer than 2 examples")
    self.assertIn(task.warnings[0], logged.output[0])

  def test_global_test_set_is_the_same_for_all_seeds(self):
    tasks = [registry.load_task(dataset="digits", seed=seed) for seed in (0, 1)]
    np.testing.assert_array_equal(tasks[0].global_test.features, tasks[1].global_test.features)
    self.assertNotEqual(tasks[0].fingerprint(), tasks[1].fingerprint())

  def test_idx_folder(self):
    data_files.write_idx_files(self._folder, data_files.idx_arrays(num_classes=7))
    task = registry.load_task(dataset="idx", data_dir=self._folder, num_clients=5, partition="iid")
    self.assertEqual((task.name, task.num_classes, len(task.global_test)), ("idx", 7, 10))
    self.assertEqual(task.model.num_classes, 7)

  def test_idx_images_too_small_for_the_model(self):
    data_files.write_idx_files(self._folder, data_files.idx_arrays(size=8))
    with self.assertRaisesRegex(ValueError, r"`input_shape` .*10x10x1 .*, got \(8, 8, 1\)"):
      registry.load_task(dataset="idx", data_dir=self._folder, num_clients=5, partition="iid")

  def test_auto_is_emnist_where_it_is_cached(self):
    self._emnist_is(cached=True)
    task = registry.load_task(dataset="auto", num_clients=10)
    self.assertEqual(task.name, "emnist")
    self.assertIsNone(task.fallback_reason)

  def test_auto_falls_back_to_digits_and_says_so(self):
    self._emnist_is(cached=False)
    with mock.patch.object(logging, "warning") as warn:
      task = registry.load_task(dataset="auto", data_dir=self._folder)
    self.assertEqual((task.name, task.partition), ("digits", "dirichlet"))
    self.assertEqual(
        task.fallback_reason, "/cache/emnist_all.sqlite is not there; --dataset=emnist downloads it"
    )
    emnist.load_task.assert_not_called()  # It would download it.
    self.assertLen(task.warnings, 1)
    self.assertRegex(task.warnings[0], "is 5,000 MNIST digits .*not federated EMNIST.*downloads it")
    warn.assert_called_once_with("%s", task.warnings[0])

  def test_auto_falls_back_with_the_partition_asked_for(self):
    self._emnist_is(cached=False)
    task = registry.load_task(dataset="auto", partition="rotated", num_groups=2, num_clients=10)
    self.assertEqual((task.name, task.partition), ("digits", "rotated"))
    self.assertEqual(task.partition_options["num_groups"], 2)
    task = registry.load_task(dataset="auto", dirichlet_alpha=2.0, num_clients=10)
    self.assertEqual((task.name, task.partition), ("digits", "dirichlet"))
    self.assertEqual(task.partition_options["dirichlet_alpha"], 2.0)

  @parameterized.parameters(
      ({"partition": "rotated"}, "`partition` .*got 'rotated'"),
      ({"partition": "rotated", "num_groups": 2}, "`partition` .*got 'rotated'"),
      ({"dirichlet_alpha": 2.0}, "`dirichlet_alpha` .*got 2.0"),
  )
  def test_auto_reinterprets_no_option_where_it_is_emnist(self, options, message):
    self._emnist_is(cached=True)
    with self.assertRaisesRegex(ValueError, message + ".") as caught:
      registry.load_task(dataset="auto", **options)
    self.assertRegex(str(caught.exception), "auto .*EMNIST.*name `dataset`")

  def test_auto_with_a_natural_partition_is_emnist_or_nothing(self):
    with data_files.no_network():
      with self.assertRaisesRegex(ValueError, "`dataset` .*refused"):
        registry.load_task(dataset="auto", data_dir=self._folder, partition="natural")

  def test_auto_does_not_pass_over_a_damaged_file(self):
    path = os.path.join(self._folder, emnist.FILE_NAME)
    pathlib.Path(path).write_text("half a download")
    for options in ({}, {"partition": "rotated"}):
      with self.assertRaisesRegex(ValueError, f"{path}, which is damaged"):
        registry.load_task(dataset="auto", data_dir=self._folder, **options)

  def test_emnist_by_name_does_not_fall_back(self):
    with data_files.no_network():
      with self.assertRaisesRegex(ValueError, "`dataset` .*refused"):
        registry.load_task(dataset="emnist", data_dir=self._folder)

  @parameterized.named_parameters(
      ("dataset", {"dataset": "cifar"}, "`dataset` must be one of .*auto, .*got 'cifar'"),
      ("model", {"model": "resnet"}, "`model` must be one of .*cnn_small, .*'resnet'"),
      ("partition", {"partition": "noniid"}, "`partition` must be one of natural, .*got 'noniid'"),
      ("num_clients", {"num_clients": 0}, "`num_clients` must be an integer >= 1, got 0"),
      ("seed", {"seed": -1}, "`seed` must be an integer >= 0, got -1"),
      ("alpha", {"dirichlet_alpha": 0}, "`dirichlet_alpha` must be a number in .*, got 0"),
      ("groups", {"num_groups": 3}, "`num_groups` must be left out unless .*rotated.*got 3"),
      ("too_many_clients", {"num_clients": 2001}, "`num_clients` must be at most 2000, .*got 2001"),
      ("data_dir", {"data_dir": "/x"}, "`data_dir` must be left out .*digits.*got '/x'"),
      ("no_data_dir", {"dataset": "idx"}, "`data_dir` must name the folder .*idx, got None"),
      ("natural", {"partition": "natural"}, "`partition` must be one of .*digits.*'natural'"),
      (
          "emnist_partition",
          {"dataset": "emnist", "partition": "iid"},
          "`partition` must be left out for EMNIST.*got 'iid'",
      ),
      (
          "emnist_alpha",
          {"dataset": "emnist", "dirichlet_alpha": 1.0},
          "`dirichlet_alpha` must be left out for EMNIST.*got 1.0",
      ),
      (
          "natural_alpha",
          {"dataset": "auto", "partition": "natural", "num_groups": 2},
          "`num_groups` must be left out for EMNIST",
      ),
      (
          "groups_over_clients",
          {"partition": "rotated", "num_clients": 3},
          "`num_clients` must be at least 4, one for each group of `partition`='rotated' "
          r"\(`num_groups`\), got 3",
      ),
  )
  def test_refuses(self, options, message):
    with self.assertRaisesRegex(ValueError, message):
      registry.load_task(**{"dataset": "digits", **options})

  def test_check_options_needs_no_number_of_clients(self):
    registry.check_options("digits", partition="permuted_labels", num_groups=150)
    with self.assertRaisesRegex(ValueError, "`num_clients`"):
      registry.check_options("digits", "permuted_labels", num_clients=100, num_groups=150)


class ImportTest(absltest.TestCase):

  def test_does_not_import_tensorflow(self):
    program = (
        "import sys; from fl_clustering.tasks import registry; "
        "sys.exit(any(name.split('.')[0].startswith('tensorflow') for name in sys.modules))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


if __name__ == "__main__":
  absltest.main()

import os
import pathlib
from unittest import mock
import urllib.error

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
    other = registry.load_task(dataset="digits", seed=0)
    np.testing.assert_array_equal(task.global_test.features, other.global_test.features)
    self.assertNotEqual(task.fingerprint(), other.fingerprint())

  @parameterized.parameters(
      ({"partition": "rotated"}, {"num_groups": 4, "dirichlet_alpha": None}),
      ({"partition": "permuted_labels", "num_groups": 3, "dirichlet_alpha": 0.7},
       {"num_groups": 3, "dirichlet_alpha": 0.7}),
  )
  def test_says_which_options_it_used(self, asked, expected):
    task = registry.load_task(dataset="digits", num_clients=12, **asked)
    self.assertEqual(task.partition_options, expected)
    self.assertEqual(set(task.true_groups), set(range(expected["num_groups"])))

  def test_clients_that_were_topped_up_are_said_and_logged(self):
    with self.assertLogs(level="WARNING") as logged:
      task = registry.load_task(dataset="digits", dirichlet_alpha=0.1)
    self.assertIn(task.warnings[0], logged.output[0])

  def test_idx_folder(self):
    data_files.write_idx_files(self._folder, data_files.idx_arrays(num_classes=7))
    options = {"dataset": "idx", "data_dir": self._folder, "num_clients": 5, "partition": "iid"}
    task = registry.load_task(**options)
    self.assertEqual((task.name, task.num_classes, len(task.global_test)), ("idx", 7, 10))
    self.assertEqual(task.model.num_classes, 7)
    data_files.write_idx_files(self._folder, data_files.idx_arrays(size=8))
    with self.assertRaisesRegex(ValueError, "^`input_shape`"):  # Too small for the model.
      registry.load_task(**options)

  def test_auto_is_emnist_where_it_is_cached(self):
    self._emnist_is(cached=True)
    task = registry.load_task(dataset="auto", num_clients=10)
    self.assertEqual((task.name, task.fallback_reason), ("emnist", None))
    for name, options in (
        ("partition", {"partition": "rotated", "num_groups": 2}),
        ("dirichlet_alpha", {"dirichlet_alpha": 2.0}),
    ):
      with self.assertRaisesRegex(ValueError, f"^`{name}`"):
        registry.load_task(dataset="auto", **options)

  @parameterized.parameters(
      ({}, "dirichlet", {"dirichlet_alpha": 0.5}),
      ({"partition": "rotated", "num_groups": 2}, "rotated",
       {"num_groups": 2, "dirichlet_alpha": None}),
      ({"dirichlet_alpha": 2.0}, "dirichlet", {"dirichlet_alpha": 2.0}),
  )
  def test_auto_falls_back_to_digits_and_says_so(self, options, partition, used):
    self._emnist_is(cached=False)
    with self.assertLogs(level="WARNING") as logged:
      task = registry.load_task(dataset="auto", data_dir=self._folder, num_clients=10, **options)
    self.assertEqual((task.name, task.partition), ("digits", partition))
    self.assertEqual(task.partition_options, used)
    self.assertIn("/cache/emnist_all.sqlite", task.fallback_reason)
    emnist.load_task.assert_not_called()  # It would download it.
    (warning,) = task.warnings
    self.assertIn(task.fallback_reason, warning)
    self.assertIn(warning, logged.output[0])

  @parameterized.parameters({"dataset": "auto", "partition": "natural"}, {"dataset": "emnist"})
  def test_who_asks_for_emnist_gets_nothing_else(self, **options):
    refused = urllib.error.URLError(ConnectionRefusedError("refused"))
    with mock.patch.object(emnist, "_download", side_effect=refused) as download:
      with self.assertRaises(urllib.error.URLError):
        registry.load_task(data_dir=self._folder, **options)
    download.assert_called_once()

  def test_auto_does_not_pass_over_a_damaged_file(self):
    path = os.path.join(self._folder, emnist.FILE_NAME)
    pathlib.Path(path).write_text("half a download")
    for options in ({}, {"partition": "rotated"}):
      with self.assertRaisesRegex(ValueError, path):
        registry.load_task(dataset="auto", data_dir=self._folder, **options)

  @parameterized.parameters(
      ("dataset", {"dataset": "cifar"}), ("model", {"model": "resnet"}),
      ("partition", {"partition": "noniid"}), ("num_clients", {"num_clients": 0}),
      ("seed", {"seed": -1}), ("dirichlet_alpha", {"dirichlet_alpha": 0}),
      ("num_groups", {"num_groups": 3}), ("num_clients", {"num_clients": 2001}),
      ("data_dir", {"data_dir": "/x"}), ("data_dir", {"dataset": "idx"}),
      ("partition", {"partition": "natural"}),
      ("partition", {"dataset": "emnist", "partition": "iid"}),
      ("dirichlet_alpha", {"dataset": "emnist", "dirichlet_alpha": 1.0}),
      ("num_groups", {"dataset": "auto", "partition": "natural", "num_groups": 2}),
      ("num_clients", {"partition": "rotated", "num_clients": 3}),
  )
  def test_refuses(self, name, options):
    with self.assertRaisesRegex(ValueError, f"^`{name}`"):
      registry.load_task(**{"dataset": "digits", **options})


if __name__ == "__main__":
  absltest.main()

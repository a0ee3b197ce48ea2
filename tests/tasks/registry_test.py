from unittest import mock

from absl.testing import parameterized
import numpy as np

from fl_clustering.tasks import digits
from fl_clustering.tasks import held_out
from fl_clustering.tasks import registry
from tests import drawn_seeds

_DIGITS = digits.load()


class LoadTaskTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    # The package's file takes seconds to parse.
    self.enter_context(mock.patch.object(digits, "load", return_value=_DIGITS))

  def test_digits_by_default_are_dirichlet(self):
    task = registry.load_task(registry.TaskOptions(seed=3))
    self.assertEqual((task.name, task.partition), ("digits", "dirichlet"))
    self.assertEqual(task.partition_options, {"dirichlet_alpha": 0.5})
    self.assertEqual((task.model.name, len(task.clients)), ("cnn_small", 100))
    self.assertEqual(task.warnings, ())
    other = registry.load_task(registry.TaskOptions())
    np.testing.assert_array_equal(task.global_test.features, other.global_test.features)
    self.assertNotEqual(task.fingerprint(), other.fingerprint())

  @parameterized.parameters(
      ({"partition": "rotated"},
       {"num_groups": 4, "dirichlet_alpha": None, "examples_per_client": None}),
      ({"partition": "permuted_labels", "num_groups": 3, "dirichlet_alpha": 0.7},
       {"num_groups": 3, "dirichlet_alpha": 0.7, "examples_per_client": None}),
  )
  def test_says_which_options_it_used(self, asked, expected):
    task = registry.load_task(registry.TaskOptions(num_clients=12, **asked))
    self.assertEqual(task.partition_options, expected)
    self.assertEqual(set(task.true_groups), set(range(expected["num_groups"])))

  @parameterized.parameters(None, held_out.Fold(0, 2))
  def test_all_is_drawn_by_the_seed(self, fold):
    options = registry.TaskOptions(seed=3, num_clients=8, partition="rotated")
    held = held_out.HeldOut(num_new_clients=2, validation_share=0.1)
    with drawn_seeds.recorded() as seeds:
      registry.load_task(options, None, held, fold)
    self.assertEqual(seeds, {3})

  def test_clients_that_were_topped_up_are_said_and_logged(self):
    with self.assertLogs(level="WARNING") as logged:
      task = registry.load_task(registry.TaskOptions(dirichlet_alpha=0.1))
    self.assertIn(task.warnings[0], logged.output[0])

  @parameterized.parameters(
      ("dataset", {"dataset": "cifar"}), ("model", {"model": "resnet"}),
      ("partition", {"partition": "noniid"}), ("num_clients", {"num_clients": 0}),
      ("seed", {"seed": -1}), ("num_clients", {"num_clients": 2001}),
      ("data_dir", {"data_dir": "/x"}), ("data_dir", {"dataset": "idx"}),
      ("partition", {"partition": "natural"}),
      ("partition", {"dataset": "emnist", "partition": "iid"}),
      ("dirichlet_alpha", {"dataset": "emnist", "dirichlet_alpha": 1.0}),
      ("num_groups", {"dataset": "emnist", "partition": "natural", "num_groups": 2}),
      ("num_clients", {"partition": "rotated", "num_clients": 3}),
  )
  def test_refuses(self, name, options):
    with self.assertRaisesRegex(ValueError, f"^`{name}`"):
      data_dir = options.pop("data_dir", None)
      registry.load_task(registry.TaskOptions(**options), data_dir)

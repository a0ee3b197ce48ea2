"""Tests of what the multi-view program refuses."""

import os

from absl.testing import parameterized

from experiment_shell import launch
from experiments.multi_view import __main__ as multi_view
from tests.experiment_shell import in_process


class ProgramTest(parameterized.TestCase):

  @parameterized.parameters(
      ("`datasets`", "--datasets=mnist"),
      ("`features_dir`", "--datasets=multiple_features", "--features_dir=/no/such"),
      ("`features_dir`", "--datasets=digits", "--features_dir=x"),
      ("`dirichlet_alpha`", "--datasets=simulated_dha", "--dirichlet_alpha=1"),
      ("`alpha`", "--alpha=1"),
  )
  def test_refuses(self, message, *flags):
    output = os.path.join(self.create_tempdir().full_path, "out")
    with self.assertRaisesRegex(launch.InputError, message):
      in_process.run_main(multi_view.main, f"--output_dir={output}", *flags)
    self.assertFalse(os.path.exists(output))

import os

from absl.testing import absltest
from absl.testing import parameterized

from tests.integration import three_phase_program as program


class BadInputTest(parameterized.TestCase):
  """One line that names the argument, the rule and the value; code 2."""

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _check(self, result, code, message):
    self.assertEqual(result.returncode, code, result.stderr)
    self.assertNotIn("Traceback", result.stderr)
    lines = result.stderr.splitlines()
    self.assertRegex(lines[-1], message)
    return lines

  @parameterized.named_parameters(
      ("flag_value", ["--dataset=mnist"], "dataset.*mnist"),
      ("no_number", ["--num_clients=many"], "num_clients"),
      ("grouping", ["--groupings=kmean"], "`groupings` must be one of .*'kmean'"),
      ("clusters", ["--num_clients=5", "--num_clusters=6"],
       r"`num_clusters` must be an integer in \[1, 5\], got 6"),
      ("unused_flag", ["--groupings=kmeans", "--linkage=single"], "`linkage` must"),
      ("alpha", ["--dataset=digits", "--partition=dirichlet", "--dirichlet_alpha=0"],
       "`dirichlet_alpha` must"),
      ("too_many_clients", ["--dataset=digits", "--num_clients=3000", "--partition=iid"],
       "`num_clients` must"),
      ("no_data_dir", ["--dataset=idx"], "`data_dir` must"),
      ("missing_data_dir", ["--dataset=idx", "--data_dir=/no/such/folder"],
       "`data_dir` must.*/no/such/folder"),
      ("resume_what", ["--resume"], "`output_dir` must be given"),
      ("batch_beyond_int32", ["--batch_size=2147483648"],
       r"`batch_size` must be an integer in \[1, 1073741824\], got 2147483648"),
      ("epochs_beyond_int32", ["--client_epochs_per_round=3000000000"],
       r"`client_epochs_per_round` must be an integer in \[1, 2147483647\]"),
      ("privacy_of_one_client", ["--aggregator=dp", "--num_clients=1"],
       "`num_clients` must be >= 2 with aggregator=dp"),
      ("too_little_noise", ["--aggregator=dp", "--noise_multiplier=1e-9"],
       "`noise_multiplier` must be a number in"),
      ("threshold_that_nothing_uses",
       ["--groupings=hierarchical", "--hierarchical_cut=num_clusters",
        "--distance_threshold=mean"], "`distance_threshold` must"),
      ("cut_of_what_is_not_chosen",
       ["--groupings=kmeans", "--hierarchical_cut=distance"], "`hierarchical_cut` must"),
      ("negative_seed", ["--seed=-1"], "`seed` must"),
  )
  def test_flags(self, flags, message):
    if "--resume" not in flags:
      flags = [*flags, f"--output_dir={self.folder}/run"]
    lines = self._check(program.run(*flags), 2, message)
    self.assertLen(lines, 1)
    self.assertFalse(os.path.exists(f"{self.folder}/run"))

  def test_a_folder_with_other_files_is_left_alone(self):
    self.create_tempfile(f"{self.folder}/thesis.txt", "years of work")
    for flag in ("--overwrite", "--resume"):
      result = program.run(*program.SMALL, f"--output_dir={self.folder}", flag)
      self._check(result, 2, "`output_dir` must hold a run.*thesis.txt")
    result = program.run(*program.SMALL, f"--output_dir={self.folder}")
    self._check(result, 2, "`output_dir` must be empty without")
    self.assertEqual(os.listdir(self.folder), ["thesis.txt"])

  def test_a_folder_that_is_a_file(self):
    path = self.create_tempfile("file").full_path
    result = program.run(*program.SMALL, f"--output_dir={path}")
    self._check(result, 2, "`output_dir` must be a folder.*Not a directory")

  def test_a_folder_below_a_file(self):
    path = self.create_tempfile("file").full_path
    result = program.run(*program.SMALL, f"--output_dir={path}/run")
    self._check(result, 2, "`output_dir` must be a folder.*file/run")

  def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_it(self):
    result = program.run(
        *program.SMALL, "--learning_rate=1e30", f"--output_dir={self.folder}")
    self._check(
        result, 1, r"error: the (training loss|averaged weights).*round [12].*--resume")
    self.assertIn("config.json", os.listdir(self.folder))
    self.assertStartsWith(program.read_text(self.folder, "metrics.csv"), "phase,method")

  def test_a_damaged_checkpoint(self):
    result = program.run(
        *program.SMALL, "--learning_rate=1e30", f"--output_dir={self.folder}")
    self.assertEqual(result.returncode, 1)
    self.create_tempfile(f"{self.folder}/checkpoints/pretrain.npz", "PK")
    result = program.run(
        *program.SMALL, "--learning_rate=1e30", f"--output_dir={self.folder}", "--resume")
    self._check(result, 2, "the checkpoint .*pretrain.npz can't be read")

  def test_overwrite_removes_the_earlier_run(self):
    self.create_tempfile(f"{self.folder}/config.json", '{"config": {}}')
    self.create_tempfile(f"{self.folder}/checkpoints/pretrain.npz", "old")
    result = program.run(*program.SMALL, f"--output_dir={self.folder}")
    self._check(result, 2, "`output_dir` must be empty without --resume or --overwrite")
    result = program.run(
        *program.SMALL[:-1], "--groupings=", f"--output_dir={self.folder}", "--overwrite")
    self.assertEqual(result.returncode, 0, result.stderr)
    self.assertEqual(
        set(program.read_json(self.folder, "summary.json")["methods"]),
        {"fedavg", "local"})


if __name__ == "__main__":
  absltest.main()

import json
import os
import sys
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized

from clustering_basics import file_format
from experiments.three_phase import flags as experiment_flags
from fl_clustering.three_phase import config as config_lib
from tests.integration import three_phase_program as program
from tests.tasks import data_files


def _config(settings, **more):
  """Returns the text of a run's `config.json`."""
  document = {"experiment": "three_phase_emnist", "config": settings, **more}
  return json.dumps(file_format.stamped(document))


class BadInputTest(parameterized.TestCase):
  """One line that names the argument, the rule and the value; code 2.

  It is printed before TensorFlow Federated is imported.
  """

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _check_line(self, result, message):
    self.assertEqual(result.code, 2, result.stderr)
    # Matplotlib warns where a home can't be written.
    errors = [one for one in result.stderr.splitlines() if not one.startswith("warning: ")]
    self.assertLen(errors, 1, result.stderr)
    self.assertRegex(errors[0], message)

  def _check(self, result, message):
    """Checks the `Result` of a run in this process."""
    self._check_line(result, message)
    self.assertNotIn("tensorflow_federated", sys.modules)

  def _idx_flags(self):
    folder = self.create_tempdir().full_path
    data_files.write_idx_files(folder, data_files.idx_arrays())
    return "--dataset=idx", f"--data_dir={folder}", "--partition=iid"

  @parameterized.named_parameters(
      ("flag_value", ["--dataset=mnist"], "dataset.*mnist"),
      ("no_number", ["--num_clients=many"], "num_clients"),
      ("grouping", ["--methods=kmean"], "`methods` must be one of .*'kmean'"),
      ("personal", ["--personal=ditto,pfedme"], "`personal` must be one of .*'pfedme'"),
      ("personal_twice", ["--personal=ditto,ditto"], "`personal` must name everything once"),
      ("option_of_no_personal_model", ["--personal=apfl", "--ditto_lambda=0.1"],
       "`ditto_lambda` must be given only where ditto uses it, got 0.1"),
      ("one_layer", ["--dataset=digits", "--model=logistic", "--personal=fedrep"],
       "`model` must have a layer before the last.*'logistic'"),
      ("clusters", ["--num_clients=5", "--num_clusters=6"],
       r"`num_clusters` must be an integer in \[1, 5\], got 6"),
      ("unused_flag", ["--methods=kmeans", "--linkage=single"], "`linkage` must"),
      ("hidden_units", ["--dataset=digits", "--model=mlp", "--hidden_units=20,x"],
       "`hidden_units` must"),
      ("alpha", ["--dataset=digits", "--partition=dirichlet", "--dirichlet_alpha=0"],
       "`dirichlet_alpha` must"),
      ("no_data_dir", ["--dataset=idx"], "`data_dir` must"),
      ("missing_data_dir", ["--dataset=idx", "--data_dir=/no/such/folder"],
       "`data_dir` must.*/no/such/folder"),
      ("batch_beyond_int32", ["--batch_size=2147483648"],
       r"`batch_size` must be an integer in \[1, 1073741824\], got 2147483648"),
      ("epochs_beyond_int32", ["--client_epochs_per_round=3000000000"],
       r"`client_epochs_per_round` must be an integer in \[1, 2147483647\]"),
      ("privacy_of_one_client", ["--aggregator=dp", "--num_clients=1", "--partition=dirichlet"],
       "`num_clients` must be >= 2 with aggregator=dp"),
      ("too_little_noise", ["--aggregator=dp", "--noise_multiplier=1e-9"],
       "`noise_multiplier` must be a number in"),
      ("threshold_that_nothing_uses",
       ["--methods=hierarchical", "--hierarchical_cut=num_clusters",
        "--distance_threshold=mean"], "`distance_threshold` must"),
      ("cut_of_what_is_not_chosen",
       ["--methods=kmeans", "--hierarchical_cut=distance"], "`hierarchical_cut` must"),
      ("nobody_left_to_train", ["--num_clients=5", "--num_new_clients=5"],
       r"`num_new_clients` must be an integer in \[0, 4\], got 5"),
      ("nothing_to_reuse", ["--dataset=digits", "--reuse=/no/such/folder"],
       "`reuse` must be the folder of a run.*/no/such/folder"),
      ("impossible_angle", ["--methods=pacfl", "--pacfl_angle=91"], "`pacfl_angle` must"),
      ("option_of_another_method", ["--methods=cfl", "--ifca_start=random"],
       "`ifca_start` must be given only where ifca uses it"),
      ("impossible_norm", ["--methods=cfl", "--cfl_ratio=0"], "`cfl_ratio` must be .* > 0"),
      ("negative_seed", ["--seed=-1"], "`seed` must"),
      ("method_of_the_other_engine", ["--engine=jax", "--methods=kmeans,cfl"],
       "`methods` must be of kmeans, .*, flexcfl with engine=jax, got 'cfl'"),
      ("personal_of_the_other_engine", ["--engine=jax", "--personal=ditto"],
       "`personal` must be of none with engine=jax, got 'ditto'"),
      ("aggregator_of_the_other_engine", ["--engine=jax", "--aggregator=dp"],
       "`aggregator` must be mean with engine=jax, got 'dp'"),
      ("blocks_of_the_other_engine", ["--clients_per_block=5"],
       "`clients_per_block` must be left out with engine=tff, got 5"),
  )
  def test_flags(self, flags, message):
    result = program.run(*flags, f"--output_dir={self.folder}/run")

    self._check(result, message)
    self.assertFalse(os.path.exists(f"{self.folder}/run"))

  @parameterized.named_parameters(
      ("data", ["--dataset=idx", "--data_dir=/no/such/folder"], "^error: `data_dir` must"),
      ("argument", ["kmeans"], "^error: arguments must be flags, got 'kmeans'"),
  )
  def test_a_process_prints_nothing_else(self, flags, message):
    result = program.run_in_a_process(*flags, f"--output_dir={self.folder}/run")

    self._check_line(result, message)
    self.assertEmpty(result.stdout)
    self.assertFalse(os.path.exists(f"{self.folder}/run"))

  def test_too_many_clients_for_the_data(self):
    result = program.run(
        *self._idx_flags(), "--num_clients=3000", f"--output_dir={self.folder}/run"
    )

    self._check(result, "`num_clients` must")
    self.assertFalse(os.path.exists(f"{self.folder}/run"))

  def test_a_tilde_is_the_home_folder(self):
    self.create_tempfile(f"{self.folder}/thesis.txt", "years of work")

    with mock.patch.dict(os.environ, {"HOME": self.folder}):
      result = program.run("--dataset=digits", "--output_dir=~")

    self._check(result, f"`output_dir` must be empty .*, got '{self.folder}' with 1 entries")

  def test_a_path_that_is_not_utf_8(self):
    for flag in ("--output_dir", "--data_dir"):
      result = program.run(f"{flag}={self.folder}/" + os.fsdecode(b"caf\xe9"))

      self._check(result, rf"^error: flag {flag}=.*`path` must be in UTF-8, got .*caf")
    self.assertEmpty(os.listdir(self.folder))

  def test_nothing_to_resume(self):
    self._check(program.run("--resume"), "`output_dir` must be given")

  def test_a_folder_with_other_files_is_left_alone(self):
    self.create_tempfile(f"{self.folder}/thesis.txt", "years of work")

    for flags, message in (
        (["--overwrite"], "`output_dir` must hold a run.*thesis.txt"),
        (["--resume"], "`output_dir` must hold a run.*thesis.txt"),
        ([], "`output_dir` must be empty without --resume or --overwrite"),
    ):
      self._check(program.run(f"--output_dir={self.folder}", *flags), message)

    self.assertEqual(os.listdir(self.folder), ["thesis.txt"])

  def test_a_device_is_not_reused(self):
    os.makedirs(f"{self.folder}/run/checkpoints")
    os.symlink(os.devnull, f"{self.folder}/run/checkpoints/pretrain.npz")

    result = program.run("--dataset=digits", f"--reuse={self.folder}/run")

    self._check(result, "`reuse` must hold files and folders.*/pretrain.npz'")

  def test_a_run_does_not_reuse_what_it_overwrites(self):
    self.create_tempfile(f"{self.folder}/run/config.json", _config({}))
    self.create_tempfile(f"{self.folder}/run/checkpoints/pretrain.npz", "hours of training")
    os.symlink(f"{self.folder}/run", f"{self.folder}/link")

    result = program.run(
        "--dataset=digits", f"--output_dir={self.folder}/run", f"--reuse={self.folder}/link/",
        "--overwrite",
    )

    self._check(result, "`reuse` must be another folder than `output_dir`, got '.*/link/'")
    self.assertTrue(os.path.exists(f"{self.folder}/run/checkpoints/pretrain.npz"))

  @parameterized.named_parameters(
      ("damaged", '{"config"', "`output_dir` must hold a readable config.json"),
      ("without_data", None, "`output_dir` must hold a readable config.json.*'inputs'"),
      ("of_another_program", json.dumps(file_format.stamped({"config": {}})),
       "`output_dir` must hold a run of this program"),
      ("of_another_format", '{"experiment": "three_phase_emnist", "config": {}}',
       "`output_dir` must hold a readable config.json .*it is of format 1, "),
  )
  def test_a_run_that_is_none_of_this_program(self, text, message):
    if text is None:
      settings = config_lib.ThreePhaseConfig(dataset="idx", partition="iid", num_clients=8)
      text = _config(settings.to_json())
    self.create_tempfile(f"{self.folder}/config.json", text)

    result = program.run(
        *self._idx_flags(), "--num_clients=8", f"--output_dir={self.folder}", "--resume"
    )

    self._check(result, message)
    self.assertEqual(program.read_text(self.folder, "config.json"), text)

  def test_auto_without_the_data_that_it_chose(self):
    settings = config_lib.ThreePhaseConfig(**{**experiment_flags.OF_DIGITS, "num_clients": 8})
    text = _config(settings.to_json(), inputs=None)
    self.create_tempfile(f"{self.folder}/config.json", text)

    result = program.run(
        "--dataset=auto", "--num_clients=8", f"--output_dir={self.folder}", "--resume"
    )

    self.assertEqual(result.code, 2, result.stderr)
    self.assertRegex(result.stderr, "(?m)^error: `output_dir` must hold a readable config.json")

  @parameterized.named_parameters(("is_a_file", "", "Not a directory"),
                                  ("is_below_a_file", "/run", "file/run"))
  def test_a_folder_that(self, below, message):
    path = self.create_tempfile("file").full_path

    result = program.run("--dataset=digits", f"--output_dir={path}{below}")

    self._check(result, f"`output_dir` must be a folder.*{message}")


if __name__ == "__main__":
  absltest.main()

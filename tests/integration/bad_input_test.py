import json
import os
import sys

from absl.testing import parameterized

from clustering_basics import file_format
from fl_clustering.three_phase import config as config_lib
from tests.experiment_shell import run_folder
from tests.integration import three_phase_program as program
from tests.tasks import data_files


def _config(settings, **more):
  """Returns the text of a run's `config.json`."""
  document = {"experiment": "three_phase_emnist", "config": settings, **more}
  return json.dumps(file_format.stamped(document))


class BadInputTest(parameterized.TestCase):
  """One line that names the argument; code 2, before TensorFlow Federated is imported."""

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

  @parameterized.parameters(
      ("num_clients", "--num_clients=many"), ("seed", "--seed=-1"),
      ("hidden_units", "--dataset=digits", "--model=mlp", "--hidden_units=20,x"),
      ("examples_per_client", "--dataset=emnist", "--examples_per_client=20"),
      ("data_dir", "--dataset=idx"), ("data_dir", "--dataset=idx", "--data_dir=/no/such/folder"),
      ("reuse", "--dataset=digits", "--reuse=/no/such/folder"),
      ("clients_per_block", "--clients_per_block=5"),
      ("schema", "--dataset=digits", "--schema=schema.json"),
  )
  def test_flags(self, name, *flags):
    result = program.run(*flags, f"--output_dir={self.folder}/run")

    self._check(result, f"^error: (flag --{name}=|`{name}` )")
    self.assertFalse(os.path.exists(f"{self.folder}/run"))

  @parameterized.parameters(
      ("`data_dir`", "--dataset=idx", "--data_dir=/no/such/folder"), ("'kmeans'", "kmeans")
  )
  def test_a_process_prints_nothing_else(self, message, *flags):
    result = program.run_in_a_process(*flags, f"--output_dir={self.folder}/run")

    self._check_line(result, f"^error: .*{message}")
    self.assertEmpty(result.stdout)
    self.assertFalse(os.path.exists(f"{self.folder}/run"))

  def test_too_many_clients_for_the_data(self):
    flags = (*self._idx_flags(), "--num_clients=3000", f"--output_dir={self.folder}/run")
    self._check(program.run(*flags), "`num_clients`")
    self.assertFalse(os.path.exists(f"{self.folder}/run"))

  def test_a_path_that_is_not_utf_8(self):
    for flag in ("--output_dir", "--data_dir"):
      result = program.run(f"{flag}={self.folder}/" + os.fsdecode(b"caf\xe9"))
      self._check(result, f"^error: flag {flag}=.*UTF-8")
    self.assertEmpty(os.listdir(self.folder))

  def test_nothing_to_resume(self):
    self._check(program.run("--resume"), "`output_dir`")

  def test_a_device_is_not_reused(self):
    os.makedirs(f"{self.folder}/run/checkpoints")
    os.symlink(os.devnull, f"{self.folder}/run/checkpoints/pretrain.npz")

    result = program.run("--dataset=digits", f"--reuse={self.folder}/run")

    self._check(result, "`reuse` .*/pretrain.npz'")

  def test_a_run_does_not_reuse_what_it_overwrites(self):
    self.create_tempfile(f"{self.folder}/run/config.json", _config({}))
    self.create_tempfile(f"{self.folder}/run/checkpoints/pretrain.npz", "hours of training")
    os.symlink(f"{self.folder}/run", f"{self.folder}/link")

    result = program.run(
        "--dataset=digits", f"--output_dir={self.folder}/run", f"--reuse={self.folder}/link/",
        "--overwrite",
    )

    self._check(result, "`reuse` .*/link/'")
    self.assertTrue(os.path.exists(f"{self.folder}/run/checkpoints/pretrain.npz"))

  @parameterized.parameters(
      '{"config"', None, json.dumps(file_format.stamped({"config": {}})),
      '{"experiment": "three_phase_emnist", "config": {}}',
  )
  def test_a_run_that_is_none_of_this_program(self, text):
    if text is None:  # It does not say of which data.
      settings = config_lib.ThreePhaseConfig(dataset="idx", partition="iid", num_clients=8)
      text = _config(settings.to_json())
    self.create_tempfile(f"{self.folder}/config.json", text)

    result = program.run(
        *self._idx_flags(), "--num_clients=8", f"--output_dir={self.folder}", "--resume"
    )

    self._check(result, "^error: `output_dir`")
    self.assertEqual(run_folder.read(self.folder, "config.json"), text)

  @parameterized.parameters("", "/run")
  def test_a_folder_that_is_a_file_or_below_one(self, below):
    path = self.create_tempfile("file").full_path

    result = program.run("--dataset=digits", f"--output_dir={path}{below}")

    self._check(result, f"`output_dir` .*file{below}")

import os

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from bench import parity
from experiment_shell import launch
from tests.experiment_shell import in_process
from tests import nightly

_HEADER = "method,seed,accuracy,adjusted_rand_index\n"


def _run(*arguments):
  return in_process.run_main(parity.main, *arguments)


def _probabilities(vector, images):
  """Returns what the network of the module's docstring answers."""
  w1, b1, w2, b2 = np.split(vector.astype(np.float64), np.cumsum([784 * 200, 200, 2000]))
  hidden = np.maximum(images.reshape(-1, 784) / 255 @ w1.reshape(784, 200) + b1, 0)
  logits = hidden @ w2.reshape(200, 10) + b2
  return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


class ParityTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = os.path.join(self.create_tempdir().full_path, "parity")

  def _file(self, text):
    return self.create_tempfile(content=text).full_path

  @nightly.only
  def test_the_file_holds_the_clients_and_the_models_that_are_trained(self):
    # With such a rate nothing changes, so the accuracy is that of the models in the file.
    _run(
        f"--output_dir={self.folder}", "--seeds=1", "--rounds=2", "--methods=ifca",
        "--num_clients=8", "--learning_rate=1e-12",
    )

    given = np.load(os.path.join(self.folder, "seed_0.npz"))
    ours = parity.read(os.path.join(self.folder, "ours.csv"))
    self.assertEqual(np.bincount(given["group"]).tolist(), [2, 2, 2, 2])
    of_first, of_chosen = [], []
    for client in range(8):
      train, test = (
          (given["client"] == client) & (given["is_test"] == is_test) for is_test in (0, 1)
      )
      losses = [
          -np.log(_probabilities(m, given["x"][train])[np.arange(train.sum()), given["y"][train]])
          for m in given["models"]
      ]
      chosen = given["models"][np.argmin(np.mean(losses, axis=1))]
      for vector, found in ((given["first_model"], of_first), (chosen, of_chosen)):
        answers = _probabilities(vector, given["x"][test]).argmax(axis=1)
        found.append(np.mean(answers == given["y"][test]))
    self.assertNotAlmostEqual(np.mean(of_first), np.mean(of_chosen), places=2)
    self.assertAlmostEqual(ours["fedavg", 0][0], np.mean(of_first), places=6)
    self.assertAlmostEqual(ours["ifca", 0][0], np.mean(of_chosen), places=6)

  def test_both_sides_over_the_seeds_that_both_have(self):
    ours = {("ifca", 0): (0.9, 1.0), ("ifca", 1): (0.8, 0.5), ("fedavg", 0): (0.6, np.nan)}
    theirs = {("ifca", 1): (0.79, 0.6), ("ifca", 2): (0.1, 0.1), ("fedavg", 0): (0.61, np.nan)}

    _, ifca, fedavg = parity.compared(ours, theirs)

    self.assertEqual(ifca.split(), ["ifca", "1", "0.790", "0.800", "+1.0", "0.60", "0.50", "-0.10"])
    self.assertEqual(fedavg.split(), ["fedavg", "1", "0.610", "0.600", "-1.0", "-", "-", "-"])

  @parameterized.named_parameters(
      ("columns", "method,seed,accuracy\n", "must have the columns method, seed, accuracy, adj"),
      ("number", f"{_HEADER}ifca,0,x,\n", "must have numbers in line 2"),
      ("method", f"{_HEADER}ifca,7,0.5,\n", "must name methods and seeds .*, got 'ifca'"),
      ("nothing", _HEADER, "must have at least one row"),
  )
  def test_results_that_can_not_be_compared(self, theirs, message):
    os.makedirs(self.folder)
    with open(os.path.join(self.folder, "ours.csv"), "w", encoding="utf-8") as file:
      file.write(f"{_HEADER}ifca,0,0.5,1.0\n")

    with self.assertRaisesRegex(launch.InputError, f"`theirs` {message}"):
      _run(f"--output_dir={self.folder}", f"--theirs={self._file(theirs)}")

  @parameterized.named_parameters(
      ("no_folder", (), "`output_dir` must name a folder"),
      ("method", ("--output_dir=x", "--methods=kfed"), "`methods` must be one of "),
      ("rate", ("--output_dir=x", "--learning_rate=0"), "`learning_rate` must be "),
      ("rounds", ("--output_dir=x", "--theirs=y", "--rounds=3"), "`rounds` must be left out with"),
  )
  def test_bad_flags(self, arguments, message):
    with self.assertRaisesRegex(launch.InputError, message):
      _run(*arguments)

    self.assertFalse(os.path.exists("x"))

  def test_a_folder_is_not_written_over(self):
    os.makedirs(self.folder)

    with self.assertRaisesRegex(launch.InputError, "`output_dir` must be a new folder, got "):
      _run(f"--output_dir={self.folder}", "--methods=ifca")


if __name__ == "__main__":
  absltest.main()

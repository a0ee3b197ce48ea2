import contextlib
import os
import re
import shutil
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized

from experiment_shell import finished_run
from experiments.private_training import report
from experiments.private_training import results
from tests.experiments.private_training import sample_runs

_FIRST_LINES = 600  # Characters of a page's body.


def _text(run, name):
  """Returns a page without its markup."""
  with open(run.join(name), encoding="utf-8") as file:
    page = file.read()
  return re.sub("<[^>]*>", " ", page[page.index("<body>") :])


def _bytes(folder):
  found = {}
  for path, _, names in os.walk(folder):
    for name in names:
      with open(os.path.join(path, name), "rb") as file:
        found[os.path.join(path, name)] = file.read()
  return found


class ReportTest(parameterized.TestCase):

  def _write(self, draw=False, **changes):
    run = sample_runs.write(self.create_tempdir().full_path, **changes)
    with contextlib.ExitStack() as stack:
      if not draw:  # Figures take nearly all of the time.
        for name in ("_FIGURES", "_FIGURES_OF_SIMULATION"):
          stack.enter_context(mock.patch.object(report, name, ()))
      report.write_report(run)
    return run

  def _released(self, **changes):
    return _text(self._write(with_simulation=False, of_released=changes), "released/report.html")

  def test_what_was_released_is_drawn_from_its_folder_alone(self):
    run = self._write(draw=True)
    folder = run.join("released")
    before = _bytes(folder)
    for name in os.listdir(run.path):
      if name != "released":
        path = run.join(name)
        (shutil.rmtree if os.path.isdir(path) else os.remove)(path)
    os.remove(os.path.join(folder, "report.html"))
    shutil.rmtree(os.path.join(folder, "figures"))

    report.write_released(folder)

    self.assertEqual(_bytes(folder), before)
    self.assertEqual(os.listdir(run.path), ["released"])
    self.assertIn(os.path.join(folder, "figures", "rounds.png"), before)

  def test_what_was_released_holds_nothing_else(self):
    run = self._write(draw=True)
    page = _text(run, "released/report.html")

    for word in (*sample_runs.SECRETS, "fine-tuned", "IFCA", "simulation", "Rand"):
      self.assertNotIn(word, page)
    # Numbers of the simulation, in the digits that its page shows.
    simulated = {
        f"{row[name]:.3f}" for row in sample_runs.rows()
        for name in (results.ACCURACY, results.FINETUNED)
    }
    released = {f"{one['accuracy']:.3f}" for one in sample_runs.RELEASED["clusters"]}
    released.add(f"{sample_runs.RELEASED['all_clients']['accuracy']:.3f}")
    for number in simulated - released:
      self.assertNotIn(number, page)
    self.assertIn("fine-tuned", _text(run, "simulation/report.html"))

  def test_a_simulation_is_drawn_from_its_folder_alone(self):
    run = self._write(draw=True)
    folder = run.join("simulation")
    before = _bytes(folder)
    shutil.rmtree(run.join("released"))
    os.remove(run.join("summary.json"))
    shutil.rmtree(os.path.join(folder, "figures"))

    report.write_simulation(folder)

    self.assertEqual(_bytes(folder), before)

  def test_the_privacy_box(self):
    page = self._released()

    for words in (
        "(8, 1e-05)-differentially private for one client with all of its data",
        "zero_out_one_client",
        "replaced by others, and not left out, epsilon is 19.1 at delta 1e-05",
        "with 1% false alarms, finds at most 25.6% of the clients",
        "The server adds the noise to totals",
        "The noise was secure: exact discrete Gaussian.",
    ):
      self.assertIn(words, page)
    self.assertNotIn("NOT private", page)
    self.assertNotIn("protects little", page)

  @parameterized.named_parameters(
      ("all", None, "at least 1200 of the 1,200 clients"),
      ("some", 900, "at least 900 of the 1,200 clients"),
  )
  def test_shares_of_the_noise(self, min_clients, words):
    page = self._released(privacy={"trust": "none", "min_clients": min_clients})

    self.assertIn("Every client adds a share of the noise", page)
    self.assertIn(words, page)
    of_these = "The ledger states the noise of 900 shares; all 1,200 add up to more."
    self.assertEqual(of_these in page, min_clients == 900)

  def test_a_budget_that_protects_little_is_told(self):
    page = self._released(privacy={"warnings": ["`epsilon` should be at most 20"]})

    self.assertRegex(page, "The privacy budget protects little.*`epsilon` should be at most 20")

  def test_seeded_noise_is_not_private(self):
    page = self._released(privacy={"is_private": False, "noise": "seeded with 3, NOT private"})

    self.assertIn("NOT private: Private clusters", page[:_FIRST_LINES])
    self.assertIn("The noise was seeded with 3, NOT private.", page)
    self.assertIn("What secure noise would guarantee", page)
    self.assertNotIn("What is guaranteed", page)

  def test_says_that_the_planning_number_knows_nothing_of_label_skew(self):
    page = self._released()

    self.assertIn("The planning number, known before the run: 0.10.", page)
    self.assertIn("knows nothing of label skew", page)

  def test_lost_answers_are_named(self):
    self.assertNotIn("Answers were lost", self._released())
    page = self._released(
        lost=["round 12", "report"], all_clients=sample_runs.LOST,
        clusters=[{"cluster": 0, **sample_runs.LOST}],
    )

    self.assertIn("it waited for round 12 and report.", page)
    self.assertIn("The report was lost, so there is no accuracy.", page)

  def test_the_ledger_is_shown(self):
    page = self._released()

    self.assertIn("3 releases, mu 0.4732 of 1.67", page)
    self.assertRegex(page, r"round 2\s+1.021\s+3.53\s+0.2892\s+no")

  def test_a_simulation_says_first_that_it_is_not_private(self):
    page = _text(self._write(), "simulation/report.html")

    self.assertStartsWith(page.strip(), "NOT private: a simulation")
    self.assertEqual(page[:_FIRST_LINES].count("NOT private"), 2)

  def test_losses_stand_with_their_planning_number_and_the_caveat(self):
    worse = {("private_ifca", 8.0, 1): {results.FINETUNED: 0.5}}
    page = _text(self._write(epsilons=(8.0,), changes=worse), "simulation/report.html")

    self.assertIn("in 1 of 3 pairs of runs", page)
    table = page[page.index("All runs in which DP-FedAvg is more accurate") :]
    self.assertRegex(table, r"8\s+1\s+0.10\s+0.500\s+0.830\s+-33.0")
    self.assertIn("knows nothing of label skew", table)

  def test_no_losses_are_told_too(self):
    page = _text(self._write(epsilons=(8.0,)), "simulation/report.html")

    self.assertIn("in none of the 3 pairs of runs", page)
    self.assertNotIn("All runs in which", page)
    self.assertIn("Accuracy of private clusters, less that of IFCA without privacy: -0.2 points at "
                  "epsilon 8.", page)

  def test_without_other_methods_nothing_is_compared(self):
    page = _text(self._write(methods=("private_ifca",)), "simulation/report.html")

    self.assertIn("there is no comparison with it", page)
    self.assertNotIn("Against", page)

  def test_one_cluster_is_not_compared_with_itself(self):
    page = _text(self._write(methods=("dp_fedavg", "fedavg")), "simulation/report.html")

    self.assertIn("With one cluster, private clusters are DP-FedAvg: there is nothing", page)
    self.assertNotIn("was not run", page)

  def test_the_page_around_says_what_may_be_published(self):
    run = self._write()
    with open(run.join("report.html"), encoding="utf-8") as file:
      page = file.read()

    self.assertRegex(page, '<a href="released/report.html">.*</a> with all of its folder: may be')
    self.assertRegex(page, '<a href="simulation/report.html">.*</a> with all of its folder: NOT')
    for path in re.findall('href="(.*?)"', page):
      self.assertTrue(run.has(path))

  def test_without_a_simulation_there_is_no_folder_of_it(self):
    run = self._write(with_simulation=False)

    self.assertFalse(run.has("simulation"))
    self.assertNotIn("simulation", _text(run, "report.html"))

  def test_nobody_may_publish_seeded_noise(self):
    page = _text(self._write(of_released={"privacy": {"is_private": False}}), "report.html")

    self.assertNotIn("may be published", page[page.index("Summary") :])
    self.assertIn("NOT private, as its noise can be drawn again", page)

  def test_warnings_of_the_run_are_shown(self):
    self.enter_context(mock.patch.object(
        finished_run.FinishedRun, "warnings", (("Other <versions>", "of numpy"),)
    ))

    self.assertIn("Other &lt;versions&gt;", _text(self._write(), "report.html"))

  def test_result_text_is_that_of_the_summary(self):
    run = self._write()

    self.assertEqual(report.result_text(run), results.text(run.summary))


if __name__ == "__main__":
  absltest.main()

"""What is released follows from the noisy answers and public numbers, and from nothing else."""

import dataclasses
import os
import re

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
from scipy import stats

from experiment_shell import tidy_report
from experiments.private_clusters import release
from experiments.private_clusters import released
from fl_clustering.private_clusters import plan
from fl_clustering.private_clusters import training
from tests.experiments.private_clusters import sample_runs


class RowsTest(absltest.TestCase):

  def test_rounds_have_the_sizes_after_and_the_clip_norm_in_them(self):
    start = training.State.first(np.zeros(3), 2, 20, clip_norm=4.0)
    first, second = (
        dataclasses.replace(
            start, sizes=np.array([3.0, size]), clip_norm=norm, round_num=number, revived=revived
        ) for number, size, norm, revived in ((1, 5.0, 7.0, start.revived), (2, 6.0, 8.0, 1))
    )

    rows = released.round_rows([start, first, second])

    self.assertEqual([(row["round"], row["line"], row["value"]) for row in rows], [
        (1, "cluster 0", 3.0), (1, "cluster 1", 5.0), (1, "clip norm", 4.0),
        (2, "cluster 0", 3.0), (2, "cluster 1", 6.0), (2, "revival", 0.0), (2, "clip norm", 7.0),
    ])

  def test_a_test_for_a_client_finds_a_quarter_at_epsilon_8_and_more_if_data_are_replaced(self):
    rows = released.guarantee_rows(plan.PrivateClusters(4, 8.0, 1e-5), 1970, 1200)["results"]
    found = {row["metric"]: row["value"] for row in rows}
    # The power of the best test for a shift of a normal by mu, at a level of 1%.
    power = stats.norm.sf(stats.norm.isf(0.01) - found["mu"])
    self.assertAlmostEqual(found["detected"], power)
    self.assertAlmostEqual(power, 0.25, places=2)
    self.assertAlmostEqual(found["replaced_epsilon"], 19.1, places=1)


class PageTest(parameterized.TestCase):

  def _page(self, **changes):
    """Returns what is before the figures, and the whole page, both without their markup."""
    run = sample_runs.write_released(self.create_tempdir().full_path, **changes)
    tidy_report.report(release.EXPERIMENT, run)
    with open(run.join("report.html"), encoding="utf-8") as file:
      page = file.read()
    page = re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", page[page.index("<body>") :]))
    return page[: page.index("Figures")], page

  def test_has_the_guarantee_first_and_then_what_it_means_and_its_ledger(self):
    header, page = self._page()

    for words in ("epsilon 8 at delta 1e-05 for one client with all of its data", "epsilon 19.1"):
      self.assertIn(words, header)
    self.assertIn("were lost:", header)
    self.assertNotIn("were lost:", self._page(lost=())[0])
    for words in (
        "zero_out_one_client", "1% false alarms", "at most 25.6% of the clients",
        "It was secure: exact discrete Gaussian", "planning number 0.10",
        "round 2 1.021 3.53 0.2892 no", "all together – – 0.4 –",
        "3 rounds, of which each took part in 3",
    ):
      self.assertIn(words, page)

  @parameterized.parameters((None, "all"), (1000, "at least 1,000"))
  def test_shares_of_the_noise(self, min_clients, least):
    _, page = self._page(trust="none", min_clients=min_clients)
    self.assertIn(f"as long as {least} of the clients that a release asks", page)
    self.assertNotIn("The server adds the noise", page)

  def test_clusters_are_unknown_under_too_much_noise_and_absent_if_lost(self):
    more = "2,sd of clients,4.2\nall,clients,0.2\nall,sd of clients,8.4\n"
    _, page = self._page(clusters=sample_runs.CLUSTERS + more)

    for row in (
        "0 301.7 4.2 0.855 0.009", "1 2.1 4.2 unknown 0.210", "2 – 4.2 – –",
        "all 0.2 8.4 unknown –",
    ):
      self.assertIn(f" {row} ", page)
    self.assertNotIn("0.432", page)

  def test_is_drawn_from_its_folder_alone_and_always_the_same(self):
    run = sample_runs.write_released(self.create_tempdir().full_path)
    tidy_report.report(release.EXPERIMENT, run)
    names = ("report.html", "figures/rounds.png")
    before = [open(run.join(name), "rb").read() for name in names]
    for name in names:
      os.remove(run.join(name))
    tidy_report.report(release.EXPERIMENT, run)

    self.assertEqual([open(run.join(name), "rb").read() for name in names], before)
    self.assertEqual(os.listdir(os.path.dirname(run.path)), [os.path.basename(run.path)])
    first, *lines = tidy_report.text(release.EXPERIMENT, run).splitlines()
    self.assertIn("epsilon 8 at delta 1e-05 for one client", first)
    self.assertRegex("\n".join(lines), r"\n1 +2\.1 +4\.2 +unknown +0\.210$")

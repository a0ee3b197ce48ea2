import os
import re

from absl.testing import absltest
from absl.testing import parameterized

from experiments.private_training import released_page
from tests.experiments.private_training import sample_runs


class ReleasedPageTest(parameterized.TestCase):

  def _page(self, **changes):
    """Returns what is before the figures, and the whole page, both without their markup."""
    run = sample_runs.write_released(self.create_tempdir().full_path, **changes)
    released_page.write(run.path)
    with open(run.join("report.html"), encoding="utf-8") as file:
      page = file.read()
    page = re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", page[page.index("<body>") :]))
    return page[: page.index("Figures")], page

  def test_has_the_guarantee_first_and_then_what_it_means_and_its_ledger(self):
    header, page = self._page()

    for words in ("epsilon 8 at delta 1e-05 for one client with all of its data", "epsilon 19.1"):
      self.assertIn(words, header)
    for words in ("protects little", "lost:"):
      self.assertNotIn(words, header)
    for words in (
        "zero_out_one_client", "1% false alarms", "at most 25.6% of the clients",
        "The noise was secure: exact discrete Gaussian.", "planning number 0.10",
        "round 2 1.021 3.53 0.2892 no", "all together – – 0.47325 –",
    ):
      self.assertIn(words, page)

  @parameterized.parameters((None, 1200), (900, 900))
  def test_shares_of_the_noise(self, min_clients, least):
    _, page = self._page(trust="none", min_clients=min_clients)
    self.assertIn(f"at least {least} of the 1,200 clients", page)
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
    released_page.write(run.path)
    names = ("report.html", "figures/rounds.png")
    before = [open(run.join(name), "rb").read() for name in names]
    for name in names:
      os.remove(run.join(name))
    released_page.write(run.path)

    self.assertEqual([open(run.join(name), "rb").read() for name in names], before)
    self.assertEqual(os.listdir(os.path.dirname(run.path)), [os.path.basename(run.path)])
    first, second, *lines = released_page.text(run.path).splitlines()
    self.assertStartsWith(first, "planning number 0.10.")
    self.assertStartsWith(second, "epsilon 8 at delta 1e-05 for one client")
    self.assertRegex("\n".join(lines), r"\n1 +2\.1 +4\.2 +unknown +0\.210$")


if __name__ == "__main__":
  absltest.main()

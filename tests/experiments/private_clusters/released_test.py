"""What is released follows from the noisy answers and public numbers, and from nothing else."""

import dataclasses

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
from scipy import stats

from experiment_shell import tidy_experiment
from experiments.private_clusters import release
from experiments.private_clusters import released
from fl_clustering.private_clusters import fitting
from fl_clustering.private_clusters import plan
from fl_clustering.private_clusters import training
from tests.experiments.private_clusters import sample_runs


class RowsTest(absltest.TestCase):

  def test_a_report_has_four_numbers_of_every_cluster_and_of_all(self):
    columns = {
        "clients": [30, 12, 42], "sd of clients": [4, 5, 6], "accuracy": [0.5, np.nan, 0.25],
        "sd of accuracy": [0.1, 0.2, 0.3],
    }
    rows = released.report_rows(fitting.Report(*map(np.array, columns.values())))
    self.assertEqual([(row["cluster"], row["metric"], row["value"]) for row in rows], [
        (cluster, metric, None if np.isnan(values[place]) else values[place])
        for place, cluster in enumerate(("0", "1", "all")) for metric, values in columns.items()
    ])

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


class SummaryTest(parameterized.TestCase):

  def _frames(self, **changes):
    run = sample_runs.write_released(self.create_tempdir().full_path, **changes)
    return released.summarise(tidy_experiment.tidy(release.EXPERIMENT, run), run.document)

  def test_the_budget_what_it_means_and_its_ledger(self):
    frames = self._frames()
    (headline,) = frames["headline"].to_dict("records")
    self.assertEqual(headline, {
        "verdict": "lost", "epsilon": 8, "delta": 1e-5, "replaced_epsilon": 19.1
    })
    self.assertEqual(self._frames(lost=())["headline"]["verdict"].item(), "")
    texts = frames["guarantee"].set_index("of")["what"]
    self.assertContainsSubset(("1%", "25.6%"), texts["membership"].split())
    self.assertIn("zero_out_one_client", texts["neighbours"])
    self.assertIn("secure", texts["noise"])
    ledger = frames["ledger"].set_index("release")
    self.assertEqual(ledger.loc["round 2"].tolist(), [1.021, 3.53, 0.2892, "no"])
    self.assertEqual(ledger["mu"][released.TOTAL], 0.4)

  @parameterized.parameters(None, 1000)
  def test_shares_of_the_noise_hold_for_as_many_as_must_add_one(self, min_clients):
    of_server, of_clients = (
        frames["guarantee"].set_index("of")["what"]["trust"]
        for frames in (self._frames(), self._frames(trust="none", min_clients=min_clients))
    )
    self.assertNotEqual(of_clients, of_server)
    self.assertEqual("1,000" in of_clients, min_clients is not None)

  def test_clusters_are_unknown_under_too_much_noise_and_absent_if_lost(self):
    more = "2,sd of clients,4.2\nall,clients,0.2\nall,sd of clients,8.4\n"
    found = self._frames(clusters=sample_runs.CLUSTERS + more)["clusters"].set_index("cluster")
    self.assertEqual(found["accuracy"].fillna("").to_dict(), {
        "0": 0.8551, "1": "unknown", "2": "", "all": "unknown"
    })

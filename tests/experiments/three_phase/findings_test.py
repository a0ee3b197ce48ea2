from absl.testing import absltest
from absl.testing import parameterized

from experiments.three_phase import findings
from experiments.three_phase import finished_run
from tests.experiments.three_phase import sample_run


def _accuracy(**mean_accuracy):
  return {"pretrain": 0.6, **mean_accuracy}


class FindingsTest(parameterized.TestCase):

  def _run(self, **changes):
    run = sample_run.sample_run(**changes)
    return finished_run.read_run(sample_run.write(run, self.create_tempdir().full_path))

  @parameterized.named_parameters(
      ("grouping_wins", 0.8, 0.7, "Grouping the clients beats", "10.0 percentage points above"),
      ("control_wins", 0.7, 0.8, "No grouping beats", "10.0 percentage points below"),
      ("level", 0.7, 0.7004, "level with", "level .* with the FedAvg control of as many rounds"),
  )
  def test_verdict_follows_the_numbers(self, kmeans, fedavg, verdict, relation):
    run = self._run(
        groupings=("kmeans",),
        mean_accuracy=_accuracy(kmeans=kmeans, fedavg=fedavg, local=0.5),
    )

    self.assertIn(verdict, findings.verdict(run))
    self.assertRegex(findings.sentences(run)[0], relation)
    self.assertIn("20.0 percentage points above local training (0.500)" if kmeans == 0.7
                  else "30.0 percentage points above local", findings.sentences(run)[0])

  def test_names_the_best_grouping(self):
    run = self._run()

    self.assertIn("is K-means with 0.800", findings.sentences(run)[0])

  def test_names_all_groupings_that_are_equally_good(self):
    run = self._run(mean_accuracy=_accuracy(
        kmeans=0.8, dynamic_distance=0.8, fedavg=0.7, local=0.5
    ))

    self.assertIn("are K-means and dynamic distance with 0.800", findings.sentences(run)[0])

  @parameterized.named_parameters(
      ("best_of_all", 0.9, True), ("not_best", 0.65, False), ("as_good_as_the_best", 0.8, False)
  )
  def test_says_when_local_training_is_best(self, local, expected):
    run = self._run(mean_accuracy=_accuracy(
        kmeans=0.8, dynamic_distance=0.75, fedavg=0.7, local=local
    ))

    self.assertEqual("Best of all is local" in findings.sentences(run)[0], expected)

  def test_counts_clients_against_the_control(self):
    # In the sample every client is better with K-means by the same amount.
    self.assertIn("for 6, less for 0 and equal for 0", findings.sentences(self._run())[1])

  def test_gain_of_training_longer_is_the_control_s_over_phase_1(self):
    sentence = findings.sentences(self._run())[1]

    self.assertIn("was 0.600;", sentence)
    self.assertIn("0.700 (+10.0 percentage points)", sentence)

  def test_overlapping_clusters_are_said_to_train_more(self):
    run = self._run(mean_accuracy=_accuracy(
        kmeans=0.75, dynamic_distance=0.8, fedavg=0.7, local=0.5
    ))

    # Seven memberships of six clients.
    self.assertEndsWith(
        findings.verdict(run), "for as many rounds in this run, with 1.2 times the local training."
    )
    sentences = findings.sentences(run)
    self.assertIn("with overlapping clusters not all of that: they train more", sentences[1])
    self.assertEqual(
        sentences[2],
        "Equal rounds are not equal work here: a client trains once in each of its clusters. A "
        "round of phase 2 is for dynamic distance 7 local trainings, 1.2 times the 6 of both "
        "controls.",
    )

  def test_without_overlap_rounds_are_work(self):
    run = self._run(groupings=("kmeans",), clients_per_round=4)

    self.assertEndsWith(findings.verdict(run), "for as many rounds in this run.")
    sentences = findings.sentences(run)
    self.assertNotIn("overlapping", sentences[1])
    self.assertStartsWith(sentences[2], "All methods have equal rounds and equal work")
    self.assertIn("6 local trainings for each", sentences[2])
    self.assertIn("with all clients; 4 of them take part in a round", sentences[2])

  def test_global_models(self):
    sentence = findings.sentences(self._run())[3]

    self.assertIn("phase 1 0.500, the FedAvg control's model 0.700", sentence)
    self.assertIn("K-means 0.800, their accuracy-weighted mean (b) 0.700", sentence)
    self.assertIn("(c) on average 0.600", sentence)
    self.assertIn("from 0.800 to 0.810", sentence)

  def test_recovery_only_where_known(self):
    known, unknown = self._run(), self._run(groupings=("dynamic_distance",))

    self.assertTrue(any("K-means 0.951" in s for s in findings.sentences(known)))
    self.assertFalse(any("Rand" in s for s in findings.sentences(unknown)))

  def test_one_seed_is_said_to_be_one_seed(self):
    self.assertIn("one run with one seed (7)", findings.sentences(self._run())[-1])

  def test_without_groupings_there_is_no_claim_about_any(self):
    run = self._run(groupings=())

    self.assertEqual(findings.verdict(run), "This run has no grouping, only controls.")
    text = " ".join(findings.sentences(run))
    self.assertIn("0.700 by the FedAvg control of as many rounds and 0.650 by local", text)
    self.assertNotIn("grouping", text)

  def test_without_the_control_nothing_is_put_down_to_grouping(self):
    run = self._run(
        groupings=("kmeans",), mean_accuracy=_accuracy(kmeans=0.8, local=0.5)
    )

    self.assertIn("can't say", findings.verdict(run))
    self.assertNotIn("FedAvg", " ".join(findings.sentences(run)))

  def test_warnings(self):
    run = self._run(fallback_reason="no network", aggregator="clipped")

    text = [": ".join(warning) for warning in findings.warnings(run)]

    self.assertLen(text, 3)
    self.assertIn("no network", text[0])
    self.assertIn("dynamic distance: too many cliques", text[1])
    self.assertIn("--aggregator=clipped", text[2])

  def test_warnings_of_the_data_are_shown_once(self):
    run = self._run(
        groupings=("kmeans",),
        fallback_reason="no network",
        data_warnings=("Not EMNIST: no network.", "There are 30 writers."),
    )

    text = [": ".join(warning) for warning in findings.warnings(run)]

    self.assertLen(text, 2)
    self.assertIn("no network", text[0])
    self.assertIn("30 writers", text[1])

  def test_no_warning_without_a_reason(self):
    self.assertEmpty(findings.warnings(self._run(groupings=("kmeans",))))

  def test_privacy_notes_say_what_is_seen_and_what_is_covered(self):
    private = {
        "epsilon": 1.5, "delta": 1e-5, "neighboring_relation": "add_or_remove_one",
        "covers": "phase 1 only",
    }

    plain = " ".join(findings.privacy_notes(self._run()))
    dp = " ".join(findings.privacy_notes(self._run(privacy=private)))

    self.assertIn("every client's own model weights", plain)
    self.assertIn("Nothing in this run is differentially private", plain)
    self.assertIn("every client's own model weights", dp)
    self.assertIn("epsilon 1.5 at delta 1e-05", dp)
    self.assertIn("add or remove one", dp)
    self.assertIn("phase 1 only", dp)


if __name__ == "__main__":
  absltest.main()

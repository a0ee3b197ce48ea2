import contextlib
import functools
import json
import tempfile
from unittest import mock

from absl.testing import parameterized
import numpy as np

from experiment_shell import frames
from experiment_shell import tidy_experiment
from experiment_shell import tidy_report
from experiments.private_clusters import config as config_lib
from experiments.private_clusters import data
from experiments.private_clusters import release
from experiments.private_clusters import simulation
from tests.experiment_shell import run_folder
from tests.experiments.private_clusters import sample_runs


def _tidy(**changes):
  with tempfile.TemporaryDirectory() as folder:
    run = sample_runs.write_simulation(folder, **changes)
    return tidy_experiment.tidy(simulation.EXPERIMENT, run), run.document


def _frames(**changes):
  return simulation.EXPERIMENT.summarise(*_tidy(**changes))


_usual = functools.cache(_frames)
_FINETUNED = "DP-FedAvg: finetuned accuracy"


class SummaryTest(parameterized.TestCase):

  def test_methods_have_means_over_seeds(self):
    rows = _usual()["methods"].set_index("method")

    ours = rows.loc["private clusters"].set_index("epsilon").loc[2.0]
    self.assertEqual(ours["planning_number"], 0.41)
    self.assertAlmostEqual(ours["accuracy"], 0.8635 - 0.4 * 0.41**2)
    other = rows.loc["FedAvg, no privacy"]
    self.assertEqual(other[["epsilon", "planning_number", "ari"]].isna().sum(), 3)

  def test_comparisons_have_gains_with_intervals_for_all_of_them_together(self):
    rows = _usual()["comparisons"].set_index(["against", "epsilon"])

    row = rows.loc[(_FINETUNED, 2.0)]
    both = (
        [100 * sample_runs.score(mean, method, 2.0, seed) for seed in range(3)]
        for mean, method in ((0.8865, "private_ifca"), (0.8305, "dp_fedavg"))
    )
    expected = frames.compared(*both, num_comparisons=4)
    for name in ("gain", "low", "high"):
      self.assertAlmostEqual(row[name], expected[name])
    self.assertEqual((row["seeds"], row["lost"]), (3, 3))
    self.assertEqual(rows["verdict"].to_dict(), {
        (_FINETUNED, 8.0): "better", (_FINETUNED, 2.0): "unclear",
        ("IFCA, no privacy: accuracy", 8.0): "unclear",
        ("IFCA, no privacy: accuracy", 2.0): "worse",
    })

  def test_clusters_and_rounds_are_of_the_least_epsilon_and_its_first_seed(self):
    tidy, document = _tidy()
    for name in ("clusters", "rounds"):  # As if a cell had failed.
      rows = tidy[name]
      tidy[name] = rows[(rows["epsilon"] != 2) | (rows["seed"] != 0)]
    found = simulation.EXPERIMENT.summarise(tidy, document)

    keys = found["rounds"][["method", "epsilon", "seed"]].drop_duplicates()
    self.assertEqual(keys.to_numpy().tolist(), [["private clusters", 2.0, 1]])
    self.assertLen(found["clusters"], 1)

  def test_a_seed_without_a_partner_is_not_compared(self):
    tidy, document = _tidy()
    results = tidy["results"]
    tidy["results"] = results[(results["method"] != "ifca") | (results["seed"] != 1)]
    rows = simulation.EXPERIMENT.summarise(tidy, document)["comparisons"]

    self.assertEqual(
        rows.groupby("against")["seeds"].unique().map(list).to_dict(),
        {_FINETUNED: [3], "IFCA, no privacy: accuracy": [2]},
    )
    self.assertTrue(rows[rows["seeds"] < 3][["low", "high"]].isna().all(axis=None))

  @parameterized.named_parameters(
      ("better", {}, [2, 1, 1, 0]),
      ("worse", {"changes": {
          ("private_ifca", 8.0, seed, "finetuned_accuracy"): 0.5 + 0.001 * seed
          for seed in range(3)
      }}, [2, 0, 1, 1]),
      ("two_seeds", {"num_seeds": 2}, [2, 0, 2, 0]), ("one_cluster", {"num_clusters": 1}, []),
      ("only_ours", {"methods": ("private_ifca",)}, []),
      ("only_without_noise", {"methods": ("ifca", "fedavg")}, []),
  )
  def test_headline(self, changes, counts):
    headline = _frames(**changes)["headline"]
    columns = ["cases", "better", "unclear", "worse"]
    self.assertEqual(headline.reindex(columns=columns).to_numpy().ravel().tolist(), counts)

  @parameterized.parameters(((1.0, 0.5), True), ((2.0, 1.0), False), ((2.0,), False))
  def test_too_much_noise_is_the_headline_where_all_have_it(self, tried, is_noise):
    run = sample_runs.write_simulation(self.create_tempdir().full_path, epsilon=tried)
    tidy_report.report(simulation.EXPERIMENT, run)
    headline = json.loads(run_folder.read(run.path, "summary.json"))["headline"]
    self.assertEqual("too much to learn clusters" in headline, is_noise)
    self.assertEqual("0.82" in headline, is_noise)  # That of the largest epsilon.

  def test_seeds_follow_the_given_one(self):
    config = config_lib.PrivateClustersConfig(
        dataset="digits", num_clients=100, seed=5, num_seeds=2
    )
    self.assertEqual({cell["seed"] for cell in simulation.cells(config)}, {5, 6})
    run = tidy_experiment.Run(config, mock.Mock(), "")
    with (
        mock.patch.object(simulation.clients_lib, "opened"),
        mock.patch.object(simulation.release, "train", return_value=([mock.Mock()], None)) as train,
        mock.patch.object(simulation, "_scores", side_effect=KeyError("stop")) as scores,
        mock.patch.object(simulation.releases_lib, "Releases") as releases,
        self.assertRaisesRegex(KeyError, "stop"),
    ):
      simulation.EXPERIMENT.measure(run, method="ours", epsilon=8.0, seed=6)
    run.data.assert_called_with(6)
    self.assertEqual(train.call_args.args[2], 6)
    self.assertEqual(scores.call_args.args[0].seed, 6)
    self.assertEqual(releases.call_args.args[2], 6)

  def test_the_clients_of_a_seed_are_drawn_by_it(self):
    config = config_lib.PrivateClustersConfig(dataset="digits", num_clients=100, seed=5)
    with (
        mock.patch.object(data.task_registry, "load_task", side_effect=KeyError("stop")) as load,
        self.assertRaisesRegex(KeyError, "stop"),
    ):
      data.load(config, None, 6)
    self.assertEqual(load.call_args.args[0].seed, 6)

  def test_every_released_model_has_its_own_numbers(self):
    config = config_lib.PrivateClustersConfig(dataset="digits", num_clients=100)
    run = tidy_experiment.Run(config, mock.MagicMock(), self.create_tempdir().full_path)
    run.data.return_value.model.parameter_shapes = {"kernel": (3, 2), "bias": (2,)}
    vectors = np.arange(16.0).reshape(2, 8)
    with (
        mock.patch.object(release.clients_lib, "opened"),
        mock.patch.object(release, "train", return_value=([mock.Mock(vectors=vectors)], None)),
        mock.patch.object(release.released, "guarantee_rows", side_effect=KeyError("stop")),
        self.assertRaisesRegex(KeyError, "stop"),
    ):
      release.EXPERIMENT.measure(run)
    with np.load(f"{run.folder}/released/models.npz") as models:
      np.testing.assert_array_equal(models["kernel"], vectors[:, :6].reshape(2, 3, 2))
      np.testing.assert_array_equal(models["bias"], vectors[:, 6:])

  def test_a_release_is_drawn_by_the_seed(self):
    config = config_lib.PrivateClustersConfig(
        dataset="digits", num_clients=100, epsilon=(8.0,), seed=5
    )
    run = tidy_experiment.Run(config, mock.Mock(), self.create_tempdir().full_path)
    with (
        mock.patch.object(release.clients_lib, "opened"),
        mock.patch.object(release, "train", side_effect=KeyError("stop")) as train,
        self.assertRaisesRegex(KeyError, "stop"),
    ):
      release.EXPERIMENT.measure(run)
    run.data.assert_called_with(5)
    self.assertEqual(train.call_args.args[2], 5)

  def test_what_the_reader_must_not_overlook_is_told_of_every_epsilon(self):
    config = config_lib.PrivateClustersConfig(
        dataset="digits", num_clients=100, image_size=7, epsilon=(1e4, 8.0, 1.0)
    )
    with mock.patch.object(data.own_code, "digests", return_value={"model mine": "1"}):
      inputs = data.inputs(config, contextlib.ExitStack(), data_dir=None)
    self.assertEqual(inputs.identity["own_code"], {"model mine": "1"})
    warned = inputs.warnings
    too_much = [text for text in warned if "too much to learn clusters" in text]
    self.assertEqual([text.partition(":")[0] for text in too_much], ["epsilon 8", "epsilon 1"])
    little = [text for text in warned if text not in too_much]
    self.assertEqual([text.partition(":")[0] for text in little], ["epsilon 10000"])

import html
import re

from absl.testing import absltest
from absl.testing import parameterized

from experiments.three_phase import comparison
from experiments.three_phase import cost_text
from experiments.three_phase import detail_tables
from experiments.three_phase import method_names
from tests.experiments.three_phase import sample_run

_PRIVACY = {
    "epsilon": 1.5, "delta": 1e-5, "neighboring_relation": "add_or_remove_one",
    "covers": "phase 1 only",
}


def _cells(blocks, label):
  """Returns the texts of every row with this label, in the order of the tables."""
  rows = re.findall(f'<tr><th scope="row">{re.escape(label)}</th>(.*?)</tr>', " ".join(blocks))
  return [
      [re.sub("<.*?>", "", cell) for cell in re.findall("<td.*?>(.*?)</td>", row)] for row in rows
  ]


def _captions(blocks):
  found = re.findall('<p class="caption">(.*?)</p>', " ".join(blocks), re.DOTALL)
  return list(map(html.unescape, found))


class NumbersTest(parameterized.TestCase):

  @parameterized.parameters(
      (0, "0"), (999, "999"), (1000, "1 k"), (12_345, "12.3 k"), (999_600, "1 M"), (2.5e6, "2.5 M")
  )
  def test_steps(self, number, text):
    self.assertEqual(cost_text.steps_text(number), text)

  @parameterized.parameters((999, "999 B"), (15_426_208, "15.4 MB"), (1.2e9, "1.2 GB"))
  def test_bytes(self, number, text):
    self.assertEqual(cost_text.bytes_text(number), text)


class ComparisonRowsTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.summary = sample_run.summary(sample_run.sample_run())
    self.rows = {row.method: row for row in comparison.comparison_rows(self.summary)}

  def test_phase_1_first_methods_in_order_controls_last(self):
    self.assertEqual(
        list(self.rows),
        ["pretrain", "kmeans", "dynamic_distance", "local", "finetuned", "fedavg"],
    )

  def test_unknown_method_stands_among_the_methods(self):
    self.summary["methods"]["my_method"] = self.summary["methods"]["kmeans"]

    rows = comparison.comparison_rows(self.summary)

    self.assertEqual(rows[3].method, "my_method")
    self.assertEqual(rows[3].label, "my method")


class ComparisonTablesTest(absltest.TestCase):

  def _results(self, **changes):
    return sample_run.results(sample_run.sample_run(**changes), self.create_tempdir().full_path)

  def test_every_table_has_the_summary_s_numbers(self):
    results = self._results()
    kmeans = results.summary["methods"]["kmeans"]
    clients, blended = kmeans["clients"], kmeans["clients_blended"]["accuracy"]

    accuracy, gains, cost, models, groups = _cells(comparison.comparison_tables(results), "K-means")

    self.assertEqual(accuracy, [
        "2",
        f"{clients['accuracy']['mean']:.3f} ± {clients['accuracy']['sd']:.3f}",
        f"{clients['accuracy']['p10']:.3f}",
        f"{clients['accuracy']['max']:.3f}",
        f"{clients['share_at_target']:.0%}",
        f"{clients['recall']['mean']:.3f}",
        f"{clients['pooled_accuracy']:.3f}",
    ])
    self.assertEqual(
        gains, ["+10.0", "+7.0 to +13.0", "better", "+8.0", "+5.0 to +11.0", "better"]
    )
    # Five rounds of ten steps, 2 kB down and 1 kB up of six clients.
    self.assertEqual(cost, ["300", "1.00 times", "60 kB", "30 kB"])
    self.assertEqual(models, [
        f"{kmeans['global_mean']['accuracy']:.3f}",
        f"{kmeans['global_weighted']['accuracy']:.3f}",
        f"{kmeans['global_blended']['accuracy']:.3f}",
        f"{blended['mean']:.3f} ± {blended['sd']:.3f}",
    ])
    self.assertEqual(groups, ["0.951", "0.975"])

  def test_nothing_but_gains_told_from_chance_is_bold(self):
    for half_width, expected in ((0.025, ["+10.0", "+8.0", "+5.0", "+3.0", "-5.0"]), (0.5, [])):
      results = self._results(half_width=half_width, new_client_ids=("new",))
      page = " ".join([
          *comparison.comparison_tables(results), *detail_tables.new_client_tables(results)
      ])
      self.assertEqual(re.findall("<strong>(.*?)</strong>", page), expected)

  def test_absent_is_a_dash_and_phase_1_has_one_model(self):
    blocks = comparison.comparison_tables(self._results())

    accuracy, cost, models = _cells(blocks, "phase 1")  # Without a gain.
    self.assertEqual(accuracy[0], "–")
    self.assertEqual(cost, ["180", "0.60 times", "36 kB", "18 kB"])
    self.assertEqual(models, ["0.500", "–", "–", "–"])
    self.assertEqual(_cells(blocks, "local (control)")[1][-3:], ["–"] * 3)

  def test_no_table_of_true_groups_without_them(self):
    blocks = comparison.comparison_tables(self._results(true_groups=False))

    self.assertLen(_cells(blocks, "K-means"), 4)
    self.assertNotIn("Rand", " ".join(blocks))

  def test_captions_tell_the_number_of_test_examples(self):
    accuracy, _, _, models, _ = _captions(comparison.comparison_tables(self._results()))

    self.assertIn("6 clients on 60 test examples", accuracy)
    self.assertIn("1,000 examples (invented as well)", models)
    self.assertNotIn("all of them clients' own", models)

  def test_says_if_the_global_test_set_is_the_clients(self):
    results = self._results(tests_on_clients=True)
    blocks = comparison.comparison_tables(results)

    self.assertIn("all of them clients' own test data", _captions(blocks)[3])
    self.assertIn("The weights of (b) were chosen on the data", " ".join(blocks))
    self.assertIn(
        "all of them clients' own test data",
        _captions(detail_tables.global_model_tables(results))[0],
    )

  def test_every_caption_of_a_private_run_says_what_is_covered(self):
    results = self._results(privacy=_PRIVACY, new_client_ids=("new",))
    blocks = [
        *comparison.comparison_tables(results), *detail_tables.new_client_tables(results),
        *detail_tables.cluster_tables(results), *detail_tables.global_model_tables(results),
    ]

    captions = _captions(blocks)
    self.assertLen(captions, 10)
    for caption in captions:
      self.assertEndsWith(caption, "; epsilon 1.5 covers phase 1 only")
    self.assertNotIn("epsilon", " ".join(_captions(comparison.comparison_tables(self._results()))))

  def test_global_models_have_the_summary_s_numbers_and_recalls(self):
    results = self._results()
    blocks = detail_tables.global_model_tables(results)

    for letter, kind in (("(a)", "mean"), ("(b)", "weighted"), ("(c)", "blended")):
      model = results.summary["methods"]["kmeans"][f"global_{kind}"]
      (cells,) = _cells(blocks, f"K-means {letter}")
      self.assertEqual(
          cells[:3], [f"{model[name]:.3f}" for name in ("accuracy", "recall", "precision")]
      )
      # Each cluster's model has a recall of its own, see sample_run.py.
      self.assertEqual(cells[3:], ["0.300" if kind == "blended" else "0.400"] * 3)
    self.assertEqual(_cells(blocks, "FedAvg")[0][0], "0.700")

  def test_names_of_classes_stand_above_their_recall(self):
    names = ("<= 0", "> 0", "a & b")
    with_names = " ".join(detail_tables.global_model_tables(
        self._results(class_names=names, label_column="num")
    ))
    numbers = " ".join(detail_tables.global_model_tables(self._results()))

    for name in names:
      self.assertIn(f'<th scope="col">{html.escape(name)}</th>', with_names)
    self.assertIn("recall of class (column num)", with_names)
    self.assertIn('<th scope="col">2</th>', numbers)
    self.assertIn("recall of label", numbers)

  def test_many_named_classes_are_folded(self):
    names = tuple(f"class {i}" for i in range(11))
    _, recalls = detail_tables.global_model_tables(
        self._results(num_classes=11, class_names=names, label_column="num")
    )

    self.assertStartsWith(recalls, "<details>")
    self.assertIn('<th scope="col">class 10</th>', recalls)

  def test_tables_have_a_balanced_accuracy(self):
    images = " ".join(comparison.comparison_tables(self._results()))
    results = self._results(label_column="num", new_client_ids=("late",))
    rows = " ".join(comparison.comparison_tables(results))

    self.assertIn(">balanced accuracy<", rows)
    self.assertIn("Balanced accuracy: mean recall of a client's classes", html.unescape(rows))
    self.assertIn(">balanced accuracy<", " ".join(detail_tables.new_client_tables(results)))
    self.assertNotIn("alanced accuracy", images)
    self.assertIn(">recall, mean<", images)

  def test_clients_of_the_saved_clusters(self):
    results = self._results(label_column="num")
    client, accuracy = results.clients[2], results.client_accuracy("kmeans")["client_0002"]

    table = detail_tables.saved_clusters_table(results)

    self.assertIn("The clients in the clusters of K-means", _captions([table])[0])
    self.assertEqual(_cells([table], "client_0002"), [[
        "0", str(client["num_train"]), "10", f"{accuracy:.3f}", f"{accuracy - 0.01:.3f}",
    ]])

  def test_new_clients_have_their_accuracy_and_clusters(self):
    results = self._results(new_client_ids=("late", "later"))

    blocks = detail_tables.new_client_tables(results)

    self.assertIn("2 clients that came after the training, on 20 test", _captions(blocks)[0])
    clients = results.summary["methods"]["kmeans"]["new_clients"]
    self.assertEqual(
        _cells(blocks, "K-means")[0][0],
        f"{clients['accuracy']['mean']:.3f} ± {clients['accuracy']['sd']:.3f}",
    )
    # Phase 1, two methods in two clusters each, three controls.
    self.assertEqual(_cells(blocks, "later"), [
        ["0.560", "0, 1: 0.760", "0, 1: 0.710", "0.610", "0.680", "0.660"],
    ])

  def test_no_tables_without_new_clients(self):
    self.assertEmpty(detail_tables.new_client_tables(self._results()))

  def test_many_new_clients_are_folded(self):
    few = detail_tables.new_client_tables(self._results(new_client_ids=tuple("abcdefghij")))
    many = detail_tables.new_client_tables(self._results(new_client_ids=tuple("abcdefghijk")))

    self.assertNotIn("<details>", " ".join(few))
    self.assertIn("Each of the 11 new clients", " ".join(many))

  def test_of_thousands_the_first_hundred_are_shown(self):
    ids = tuple(f"new{i:04d}" for i in range(1_234))
    (_, each) = detail_tables.new_client_tables(self._results(new_client_ids=ids))
    self.assertIn("The first 100 of 1,234 new clients", each)
    self.assertIn(
        "the first 100 of 1,234 new clients, all of which are in client_metrics.csv", each
    )
    self.assertEqual(each.count("<tr>"), 101)
    self.assertIn("new0099", each)
    self.assertNotIn("new0100", each)

  def test_of_many_clusters_the_first_hundred_are_shown(self):
    ids = [f"c{i}" for i in range(150)]
    clusters = {"clusters": [[i] for i in ids], "overlapping": False, "warning": None}
    results = self._results(num_clients=150, client_ids=tuple(ids), groupings=("kmeans",),
                            assignments={"kmeans": clusters})
    (table,) = detail_tables.cluster_tables(results)
    self.assertIn("K-means: 150 clusters", table)
    self.assertIn("the first 100 of 150 clusters, all of which are in assignments.json", table)
    self.assertEqual(table.count("<tr>"), 101)


class ComparisonTextTest(absltest.TestCase):

  def test_has_a_line_per_method_with_the_summary_s_numbers(self):
    summary = sample_run.summary(sample_run.sample_run())

    lines = comparison.comparison_text(summary).splitlines()

    kmeans, over_finetuned = (line for line in lines if line.startswith("K-means"))
    accuracy = summary["methods"]["kmeans"]["clients"]["accuracy"]
    self.assertEqual(kmeans.split(), [
        "K-means", "2", f"{accuracy['mean']:.3f}", f"{accuracy['sd']:.3f}",
        "+10.0", "+7.0", "to", "+13.0", "better", "300", "90", "kB", "0.951",
    ])
    self.assertEqual(
        over_finetuned.split(), ["K-means", "+8.0", "+5.0", "to", "+11.0", "better"]
    )
    (phase_1,) = (line for line in lines if line.startswith("phase 1"))
    self.assertEqual(phase_1.split()[2], "-")
    self.assertEqual(phase_1.split()[-5:], ["-", "180", "54", "kB", "-"])

  def test_columns_appear_where_they_apply(self):
    heading = comparison.comparison_text(
        sample_run.summary(sample_run.sample_run(true_groups=False))
    ).splitlines()[1].split()
    more = comparison.comparison_text(
        sample_run.summary(sample_run.sample_run(new_client_ids=("new",)))
    ).splitlines()[1].split()

    self.assertNotIn("ARI", heading)
    self.assertNotIn("new", heading)
    self.assertIn("ARI", more)
    self.assertIn("new", more)

  def test_a_private_run_says_what_is_covered(self):
    run = sample_run.sample_run(privacy=_PRIVACY)
    private = comparison.comparison_text(sample_run.summary(run))

    self.assertEndsWith(private, "\nepsilon 1.5 covers phase 1 only.")
    self.assertNotIn(
        "epsilon", comparison.comparison_text(sample_run.summary(sample_run.sample_run()))
    )

  def test_fits_a_terminal_and_is_plain_ascii(self):
    accuracy = dict.fromkeys(
        ("pretrain", "kmeans", "dynamic_distance", *method_names.CONTROLS), 0.123
    )
    accuracy["fedavg"] = 0.9
    text = comparison.comparison_text(sample_run.summary(sample_run.sample_run(
        num_clients=3383, mean_accuracy=accuracy, new_client_ids=("new",)
    )))

    self.assertLessEqual(max(map(len, text.splitlines())), 112)
    self.assertTrue(text.isascii())

  def test_columns_are_aligned(self):
    lines = comparison.comparison_text(
        sample_run.summary(sample_run.sample_run())
    ).splitlines()
    group_line, heading_line, *rows = lines[:8]

    # A column's heading and its numbers end at the same place.
    end_of_mean = heading_line.index("mean") + len("mean")
    for row in rows:
      self.assertRegex(row[:end_of_mean], r" 0\.\d{3}$")
    self.assertEqual(group_line.index("accuracy"), heading_line.index("mean"))


if __name__ == "__main__":
  absltest.main()

"""What is generated of the code: it is complete, and stands on the page that says so."""

import csv
import glob
import os
import re
from unittest import mock

from absl.testing import absltest
import numpy as np
from scipy import stats

from dp_clustering import clustering
from experiments import registry as experiment_registry
from experiments.study import config as study_config
from fl_clustering.kmeans import kmeans_config
from fl_clustering.methods import registry as method_registry
from fl_clustering.tasks import models
from fl_clustering.tasks import registry
from tests.docs import pages
from tools import reference


def _headings(text, level):
  return re.findall(rf"^{'#' * level} (\S+)", text, re.M)


class ReferenceTest(absltest.TestCase):

  def test_pages_have_each_part_once(self):
    found = [
        name for path in pages.paths()
        for name in re.findall(r"^<!-- generated: (.*) -->$", pages.read(path), re.M)
    ]
    self.assertCountEqual(found, reference.GENERATED)

  def test_a_part_takes_the_place_of_its_line(self):
    page = reference.complete("before\n<!-- generated: presets -->\nafter")
    self.assertStartsWith(page, "before\n## ")
    self.assertEndsWith(page, "\nafter")

  def test_every_program_has_its_flags(self):
    modules = [
        path for path in glob.glob("experiments/*.py") if "\nif __name__ ==" in pages.read(path)
    ]
    modules += [os.path.dirname(path) + ".py" for path in glob.glob("experiments/*/__main__.py")]
    named = [program for program in reference.PROGRAMS if program.startswith("experiments:")]
    self.assertCountEqual(named, [path[:-len(".py")].replace("/", ":") for path in modules])

    with mock.patch.object(reference, "flags_of", "flags of {}\n".format):
      text = reference.GENERATED["flags"]()
    for program in reference.PROGRAMS:
      self.assertIn(f"## {program}\n\n```text\nflags of {program}\n```\n", text)
    # Also those that a module of several programs defines, and none that a program refuses.
    flags = reference.flags_of("experiments:three_phase_emnist")
    for name in ("--cfl_ratio:", "--[no]resume:"):
      self.assertIn(name, flags)
    self.assertNotIn("--cfl_ratio:", reference.flags_of("experiments:federated_kmeans"))

  def test_every_preset_stands_with_its_program(self):
    text = reference.GENERATED["presets"]()
    by_program = {part.split("\n")[0]: _headings(part, 3) for part in text.split("\n## ")}
    by_program["dp_benchmark"] = by_program.pop("## dp_benchmark")
    self.assertCountEqual(by_program, reference.PROGRAMS_OF_PRESETS.values())
    for program, names in by_program.items():
      self.assertCountEqual(names, reference.presets(program))
    paths = glob.glob("experiments/presets/*.flags")
    there = [os.path.basename(path)[:-len(".flags")] for path in paths]
    self.assertCountEqual(_headings(text, 3), there)
    self.assertIn("### study_tuned_hospitals\n\nAs study_tuned, on heart disease", text)
    self.assertIn("\n--dataset=files\n", text)

  def test_every_experiment_has_its_files(self):
    text = reference.GENERATED["output_files"]()
    self.assertCountEqual(_headings(text, 2), experiment_registry.MODULES)
    self.assertIn("| `curves.csv` | ", text)

  def test_figures_of_private_clusters_are_those_of_their_table(self):
    with open("docs/private_clusters.csv", encoding="utf-8") as file:
      rows = list(csv.DictReader(file))
    page = pages.read("docs/private_clusters.md")

    def of(method, epsilon, metric):
      keys = method, epsilon, metric
      return np.array([
          float(row["value"]) for row in rows
          if (row["method"], row["epsilon"], row["metric"]) == keys
      ])

    def text(method, epsilon):
      both = (of(method, epsilon, name).mean() for name in ("accuracy", "finetuned_accuracy"))
      return "{:.3f} ({:.3f})".format(*both).replace("0.", ".")

    for epsilon in ("8.0", "4.0"):
      (noise,) = set(of("private_ifca", epsilon, "planning_number"))
      loss = 100 * (of("ifca", "inf", "accuracy") - of("private_ifca", epsilon, "accuracy"))
      half = stats.t.ppf(0.975, len(loss) - 1) * np.std(loss, ddof=1) / len(loss) ** 0.5
      cells_ = (
          f"{float(epsilon):g}", f"{noise:.2f}"[1:], text("private_ifca", epsilon),
          f"{of('private_ifca', epsilon, 'ari').mean():.2f}".removeprefix("0"),
          text("ifca", "inf"), f"{loss.mean():.1f} ± {half:.1f}", text("dp_fedavg", epsilon),
      )
      self.assertRegex(page, rf"\n\| (MNIST, rotated, Dirichlet\(\.3\)|the same) \| "
                       rf"{re.escape(' | '.join(cells_))} \|\n")

  def test_first_run_is_that_of_the_readme(self):
    text = reference.GENERATED["first_run"]()
    self.assertIn("```text\n", text)
    (picture,) = re.findall(r"!\[.*\]\((.*)\)", text)
    self.assertTrue(os.path.exists(f"docs/{picture}"), picture)

  def test_every_data_set_and_partition_has_its_row(self):
    rows = re.findall(r"^\| `(\w+)`", pages.read("docs/data.md"), re.M)
    names = {*registry.DATASETS, *registry.PARTITION_NAMES} - {registry.NATURAL}
    self.assertContainsSubset(names, rows)

  def test_every_row_of_a_registry_is_on_a_page(self):
    texts = [pages.read(path) for path in pages.paths() if path != "docs/CHANGELOG.md"]
    code = " ".join(one for text in texts for one in re.findall(r"```.*?```|`[^`]+`", text, re.S))
    for rows in (
        method_registry.METHODS, method_registry.PERSONAL, method_registry.CONTROLS, models.MODELS,
        registry.DATASETS, registry.PARTITION_NAMES, study_config.SETTINGS,
        kmeans_config.ALGORITHMS, clustering.METHODS,
    ):
      words = {name: rf"(?<![\w.]){re.escape(name)}(?![\w.])" for name in rows}
      self.assertEmpty([name for name, word in words.items() if not re.search(word, code)])

  def test_classes_and_modules_of_the_api_exist(self):
    names = re.findall("^::: (.*)$", pages.read("docs/api.md"), re.M)
    self.assertNotEmpty(names)
    for name in names:
      path = name.replace(".", "/")
      if not os.path.exists(f"{path}.py"):
        module, _, member = name.rpartition(".")
        text = pages.read(f"{module.replace('.', '/')}.py")
        self.assertRegex(text, rf"(?m)^(class|def) {member}\b")

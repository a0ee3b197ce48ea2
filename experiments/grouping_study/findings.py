"""What a study found, in sentences."""

from typing import Iterable, Iterator

from experiment_shell import report_sections
from experiment_shell import scores
from experiments.grouping_study import intervals
from experiments.grouping_study import results as results_lib
from experiments.three_phase import method_names

Verdicts = dict[str, intervals.Interval]  # By method.

_FEW_REPETITIONS = 10


def _labels(methods: Iterable[str]) -> str:
  return report_sections.listed([method_names.method_name(method) for method in methods])


def _verdicts(
    results: results_lib.Results, setting: str, reference: str
) -> tuple[Verdicts, Verdicts]:
  """Returns the gains of the chosen methods that are better than a reference, and of the worse."""
  better: Verdicts = {}
  worse: Verdicts = {}
  for method in results.chosen_methods:
    gain = results.gain(setting, method, reference)
    if gain is not None and gain.leaves_out_zero:
      (better if gain.mean > 0 else worse)[method] = gain
  return better, worse


def verdict(results: results_lib.Results) -> str:
  """Returns one sentence: in which settings grouping clients helps."""
  if not results.chosen_methods:
    return "No method was chosen, so the study compares the controls alone."
  if results.num_repetitions < intervals.LEAST_COUNT:
    return (
        f"With fewer than {intervals.LEAST_COUNT} repetitions, no difference can be told from "
        "chance."
    )
  helps = [s for s in results.settings if _verdicts(results, s, method_names.FEDAVG)[0]]
  beats = [s for s in results.settings if _verdicts(results, s, method_names.FINETUNED)[0]]
  if not helps:
    return (
        "In no setting can a gain of grouping the clients over training everyone together "
        "(FedAvg) be told from chance."
    )
  both = [setting for setting in helps if setting in beats]
  judged = [s for s in helps if len(results.values(s, method_names.FINETUNED))]
  if not judged:
    more = ""
  elif not both:
    where = "there" if judged == helps else f"in {report_sections.listed(judged)}"
    more = f"; no method also beats the fine-tuned models {where}"
  elif both == helps and len(helps) > 1:
    more = "; in each of them a method also beats the fine-tuned models"
  else:
    more = f"; in {report_sections.listed(both)} a method also beats the fine-tuned models"
  return (
      "Grouping the clients beats training everyone together (FedAvg) in "
      f"{report_sections.listed(helps)}{more}."
  )


def of_setting(results: results_lib.Results, setting: str) -> str:
  """Returns one or two sentences: which methods help in a setting, and which is best."""
  better, worse = _verdicts(results, setting, method_names.FEDAVG)
  parts = []
  if better:
    best = max(better, key=lambda method: results.mean(setting, method, "accuracy") or 0.0)
    parts.append(
        f"More accurate than FedAvg: {_labels(better)}. The most accurate of them on average is "
        f"{method_names.method_name(best)}, with a gain of "
        f"{scores.points(better[best].mean)} points ({results_lib.ends_text(better[best])})."
    )
  elif len(results.values(setting, method_names.FEDAVG)):
    parts.append("No method is more accurate than FedAvg beyond chance.")
  else:
    parts.append("FedAvg failed, so no gain over it is known.")
  if worse:
    parts.append(f"Less accurate than FedAvg: {_labels(worse)}.")
  return " ".join(
      [*parts, *_against_finetuned(results, setting), *_found_sentences(results, setting)]
  )


def _against_finetuned(results: results_lib.Results, setting: str) -> Iterator[str]:
  better, worse = _verdicts(results, setting, method_names.FINETUNED)
  if better:
    yield f"More accurate than the fine-tuned models: {_labels(better)}."
  elif results.chosen_methods and len(worse) == len(results.chosen_methods):
    yield "Every method is less accurate than the fine-tuned models."


def _counts_sentence(results: results_lib.Results) -> str:
  return (
      f"The intervals of all {results.num_comparisons} differences, from FedAvg and from the "
      f"fine-tuned models in every setting, hold together at {intervals.LEVEL:.0%} "
      "(Bonferroni). They decide which gains the sentences tell of, the heat maps colour and the "
      "tables print in bold. If no method differed from any other, at most "
      f"{1 - intervals.LEVEL:.0%} of such studies would find a difference at all, as far as gains "
      "are spread normally over the repetitions."
  )


def _found_sentences(results: results_lib.Results, setting: str) -> Iterator[str]:
  """Yields in how many repetitions a method finds the groups, where it does not in all or none."""
  counts = {m: results.num_found(setting, m) for m in results.chosen_methods}
  sometimes = [m for m, (found, count) in counts.items() if 0 < found < count]
  if sometimes:
    listed = report_sections.listed([
        f"{method_names.method_name(m)} in {counts[m][0]} of {counts[m][1]}" for m in sometimes
    ])
    yield (
        f"Groups are found in some repetitions only (ARI at least {results_lib.FOUND}): {listed}."
    )


def _drawn(results: results_lib.Results) -> str:
  """Returns what each seed draws, in words: whatever the data don't give."""
  run = results.config.run
  if run.schema is not None:
    of_data = ["the clients' test rows"] if run.schema.split is None else []
  elif run.dataset == "emnist":
    of_data = ["the clients"]
  else:
    of_data = ["the split over the clients", "their test data"]
  return report_sections.listed([*of_data, "the first model", "the order of training"])


def _about_sentence(results: results_lib.Results) -> str:
  if results.config.num_folds is None:
    return (
        f"The intervals are Student's t over the seeds. Each seed draws {_drawn(results)}; the "
        "data set is the same. So they are about other seeds with this data set."
    )
  return (
      f"Every client's data are in {results.config.num_folds} folds, and each fold is the test "
      "data once. Folds share most of their training data, so plain t intervals over folds would "
      "be too short. These are corrected for it (Nadeau and Bengio 2003; Bouckaert and Frank "
      "2004)."
  )


def notes(results: results_lib.Results) -> list[str]:
  """Returns what the reader needs to judge the verdict, as paragraphs."""
  return [
      f"{_about_sentence(results)} Differences are of the same seed"
      f"{'' if results.config.num_folds is None else ' and fold'}, which share the clients, "
      "their data and phase 1.",
      "A method is compared with FedAvg of as many rounds. If it has more client steps in a run, "
      "it is compared with FedAvg matched, which goes on until it has as many as the method with "
      f"the most. {_counts_sentence(results)}",
  ]


def warnings(results: results_lib.Results) -> list[tuple[str, str]]:
  """Returns what the reader must not overlook, as (title, text) pairs."""
  found = list(results.run.warnings)
  if intervals.LEAST_COUNT <= results.num_repetitions < _FEW_REPETITIONS:
    found.append((
        "Few repetitions",
        f"With {results.num_repetitions} repetitions, only large differences can be told from "
        "chance, and a method that finds the groups by luck may wrongly seem better or worse.",
    ))
  if results.failures:
    failed = {row["method"] for row in results.failures}
    in_some = failed & {row["method"] for row in results.rows if not row["problem"]}
    text = ""
    if in_some:
      text = f"{_labels(sorted(in_some))} failed in some runs; their means are over the others. "
    if failed != in_some:
      text += f"{_labels(sorted(failed - in_some))} failed in all runs. "
    found.append((
        f"{len(results.failures):,} of {len(results.rows):,} cells failed",
        f"{text}The list is below.",
    ))
  return found

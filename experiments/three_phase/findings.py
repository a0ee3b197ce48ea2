"""What a three-phase run found, in sentences: the verdict, and what bears on it."""

import os
import pathlib
from typing import Iterator, Sequence

from experiment_shell import html_page
from experiment_shell import report_sections
from experiment_shell import scores
from experiments.three_phase import comparison
from experiments.three_phase import method_names
from experiments.three_phase import method_tables
from experiments.three_phase import results as results_lib
from fl_clustering.three_phase import gains
from fl_clustering.three_phase import judging
from fl_clustering.three_phase import matched_control

# The page that says between what clients grouping pays, and where it doesn't.
_EVIDENCE = "docs/replication.md"
_PROJECT = pathlib.Path(__file__).resolve().parents[2]

# What a method shows the server beyond the weights after phase 1.
_SEES_MORE = {
    "ifca": "For IFCA it also sees which model fits each client best.",
    "cfl": "For CFL it also sees every client's update in every round.",
    "fesem": "For FeSEM it also sees every client's own weights in every round.",
    "pacfl": "For PACFL it also sees directions of every client's raw data: the first one of a "
    "label can look like the client's average example of that label.",
    "clove": "For CLoVE it also sees every client's loss under every model.",
    "flux": "For FLUX it also sees means and standard deviations of what the global model makes of "
    "every client's examples, over all and over each label.",
    "mr_mtl": "For MR-MTL it also sees every client's own model in every round.",
    "fedrep": "For FedRep it also sees, in every round, the layers before the last of every "
    "client's own model.",
}


def _mean_score(results: results_lib.Results, method: str) -> float:
  """Returns the clients' mean of the metric by which methods are compared."""
  key = judging.METRICS[results_lib.metric(results.summary)]
  return results.summary["methods"][method]["clients"][key]["mean"]


def _steps(results: results_lib.Results, method: str) -> int:
  return results.summary["methods"][method]["cost"]["client_steps"]


def _verdicts_in_words(
    results: results_lib.Results, methods: Sequence[str], than: str, key: str = "gain"
) -> str:
  """Returns for which methods the accuracy is higher, lower or unclear, in words.

  Args:
    methods: The methods judged, at least one.
    than: Words for what they are compared with.
    key: Of that gain in a method's summary.
  """
  named: dict[str, list[str]] = {verdict: [] for verdict in comparison.VERDICTS}
  for method in methods:
    verdict_on_gain = results.summary["methods"][method][key]["verdict"]
    named[verdict_on_gain].append(method_names.method_name(method))
  verbs = {verdict: "is" if len(names) == 1 else "are" for verdict, names in named.items()}
  relations = {gains.BETTER: "more accurate", gains.WORSE: "less accurate"}
  either = "more or less accurate"
  if not results_lib.is_by_accuracy(results.summary):
    label = results_lib.metric_label(results.summary)
    relations = {gains.BETTER: f"better in {label}", gains.WORSE: f"worse in {label}"}
    either = f"better or worse in {label}"
  parts: list[str] = []
  for one, relation in relations.items():
    if named[one]:
      compared = f" than {than}" if not parts else ""
      names = report_sections.listed(named[one])
      parts.append(f"{names} {verbs[one]} {relation}{compared}")
  if named[gains.UNCLEAR]:
    unclear = report_sections.listed(named[gains.UNCLEAR])
    parts.append(
        f"for {unclear}, this run can't tell" if parts else
        f"this run can't tell whether {unclear} {verbs[gains.UNCLEAR]} {either} than "
        f"{than}"
    )
  return "; ".join(parts)


def verdict(results: results_lib.Results) -> str:
  """Returns which methods are better or worse than the FedAvg control, and than fine-tuning."""
  methods = results_lib.chosen_methods(results.summary)
  if not methods:
    sentence = "This run has no methods, only controls"
  else:
    sentence = _verdicts_in_words(
        results, methods, "training everyone together for as many rounds (FedAvg)"
    )
    sentence = report_sections.capitalized(sentence)
  if methods and method_names.FINETUNED in results.summary["methods"]:
    over_finetuned = _verdicts_in_words(
        results, methods, "fine-tuning at every client", "gain_over_finetuned"
    )
    sentence += f". {report_sections.capitalized(over_finetuned)}"
  covered = method_tables.privacy_text(results.summary)
  return f"{sentence} ({covered})." if covered else f"{sentence}."


def _basis_sentences(results: results_lib.Results) -> Iterator[str]:
  """Returns what the verdict rests on, and what it is about."""
  summary = results.summary
  basis = summary["comparison"]
  num_comparisons, repeats = basis["num_comparisons"], basis["control_repeats"]
  yield (
      f"This rests on {summary['num_test_examples']['clients']:,} test examples of "
      f"{results_lib.clients_text(results.num_clients)}."
  )
  yield from _metric_sentence(results)
  if results.num_clients == 1:
    yield "With one client there is no interval."
    return
  together = "" if num_comparisons == 1 else (
      f", for all {num_comparisons} comparisons with FedAvg and with fine-tuning together"
  )
  yield f"It is said with intervals at {basis['level']:.0%}{together}."
  where = f"these data, this partition and this phase 1 (one seed, {summary['seed']})"
  if repeats:
    of_methods = basis["method_repeats"]
    is_judged = of_methods and results_lib.chosen_methods(summary)
    again = f", and so was every method, start included ({of_methods:,})" if is_judged else ""
    yield (
        "The intervals include the chance in training: for that, FedAvg was trained again (times: "
        f"{repeats:,}){again}. {'The other controls are' if is_judged else 'Everything else is'} "
        f"taken to vary as much as FedAvg. The intervals are about {where}; what other seeds would "
        "say is not known."
    )
    found = comparison.detectable_text(results.summary)
    if found:
      yield f"{report_sections.capitalized(found)}."
  else:
    yield (
        "The intervals leave out the chance in training, as FedAvg was not trained again "
        f"(--control_repeats=0). So they are about these trained models only, on {where}."
    )


def _metric_sentence(results: results_lib.Results) -> Iterator[str]:
  """Yields by which metric methods are compared, and why, unless it is the accuracy."""
  if results_lib.is_by_accuracy(results.summary):
    return
  yield (
      "Methods are compared by the clients' balanced accuracy, since the rarest class has less "
      "than half of its share among equally frequent classes: whoever never predicts it is accurate."
  )


def _controls_sentence(results: results_lib.Results) -> str | None:
  """Returns what is known of the other controls, None without any."""
  methods = results.summary["methods"]
  controls = [c for c in method_names.CONTROLS if c in methods and c != method_names.FEDAVG]
  if not controls:
    return None
  return f"Of the controls, {_verdicts_in_words(results, controls, 'FedAvg')}."


def _work_sentence(results: results_lib.Results) -> str | None:
  """Returns what more work explains, None where nothing trains more than FedAvg."""
  fedavg = _steps(results, method_names.FEDAVG)
  more = [
      method for method in results_lib.ordered_methods(results.summary)
      if method != method_names.FEDAVG_MATCHED
      and _steps(results, method) > (1 + matched_control.TOLERANCE) * fedavg
  ]
  if not more:
    return None
  times = ", ".join(
      f"{method_names.method_name(method)} {_steps(results, method) / fedavg:.1f} times"
      for method in more
  )
  sentence = f"Some methods have more client steps than FedAvg: {times}."
  if method_names.FEDAVG_MATCHED not in results.summary["methods"]:
    return sentence
  found = ", ".join(
      f"{method_names.method_name(method)} {scores.score_text(_mean_score(results, method))}"
      for method in (*more, method_names.FEDAVG_MATCHED)
  )
  return (
      f"{sentence} Part of their gain may come from that. FedAvg matched goes on until it has as "
      f"many steps as the method with the most. Mean {results_lib.metric_label(results.summary)}: "
      f"{found}."
  )


def _clients_sentence(results: results_lib.Results) -> str | None:
  """Returns for how many clients each method is better or worse, None without methods."""
  chosen = results_lib.chosen_methods(results.summary)
  if not chosen:
    return None
  together = results.client_accuracy(method_names.FEDAVG)
  counts = []
  for method in chosen:
    own = results.client_accuracy(method)
    higher = sum(own[c] > together[c] for c in together)
    lower = sum(own[c] < together[c] for c in together)
    counts.append(f"{method_names.method_name(method)} {higher:,} and {lower:,}")
  return (
      "Clients with a higher and with a lower accuracy than under FedAvg: "
      f"{'; '.join(counts)}."
  )


def _balance_sentence(results: results_lib.Results) -> str | None:
  """Returns what accuracy is reached without any feature of a table, None if not known."""
  if not results.has_tables:
    return None
  return (
      f"A client's most frequent class has {results.mean_majority_share:.0%} of its training rows, "
      "on average over the clients. A model that always predicts it has about this accuracy; the "
      "balanced accuracy gives no credit for it."
  )


def _participation_sentence(results: results_lib.Results) -> str | None:
  """Returns how many clients take part in a round, None if all do."""
  chosen = results.settings["clients_per_round"]
  if chosen is None:
    return None
  return (
      f"In each round {chosen:,} of the {results.num_clients:,} clients take part, the same ones "
      "for every method."
  )


def _global_test_sentence(results: results_lib.Results) -> str | None:
  """Returns what is wrong with the global test set, None if nothing is."""
  if not results.tests_on_clients:
    return None
  sentence = "The global test set is not apart: all of it is clients' own test data."
  if results.weighs_by_validation:
    return sentence
  return (
      f"{sentence} The weights of the global model (b) are best accuracies on these data, so its "
      "accuracy is too high."
  )


def _groups_paragraph(results: results_lib.Results) -> html_page.Html | None:
  """Returns which methods found the true groups, and where grouping does not pay."""
  methods = results_lib.chosen_methods(results.summary)
  if results.true_groups is None or not methods:
    return None
  found = {
      method_names.method_name(method): results.summary["methods"][method]["adjusted_rand_index"]
      for method in methods
      if results.summary["methods"][method].get("adjusted_rand_index") is not None
  }
  agreement = (
      "How well the clusters agree with the true groups (adjusted Rand index: 1 is in full, 0 as "
      f"by chance): {', '.join(f'{name} {score:.2f}' for name, score in found.items())}."
  )
  link, folder = html_page.code(_EVIDENCE), pathlib.Path(results.finished.path).resolve()
  # A page elsewhere refers to nothing outside, and an installed package comes without the pages.
  if folder.is_relative_to(_PROJECT) and (_PROJECT / _EVIDENCE).exists():
    link = html_page.link(os.path.relpath(_PROJECT / _EVIDENCE, folder), link)
  return html_page.joined(
      *([agreement] if found else []),
      "These clients differ in kind. Where clients differ only in their shares of the labels, or "
      "in how much data they have, grouping gains little or nothing:", html_page.Html(f"{link}."),
  )


def notes(results: results_lib.Results) -> list[str]:
  """Returns what the reader needs to judge the verdict, as paragraphs of text or markup."""
  groups = (
      _basis_sentences(results),
      (_controls_sentence(results),),
      (_work_sentence(results),),
      (_clients_sentence(results), _participation_sentence(results)),
      (_balance_sentence(results),),
      (_global_test_sentence(results),),
  )
  paragraphs = [" ".join(filter(None, sentences)) for sentences in groups]
  paragraphs.insert(2, _groups_paragraph(results) or "")
  return list(filter(None, paragraphs))


def warnings(results: results_lib.Results) -> list[tuple[str, str]]:
  """Returns what the reader must not overlook, as (title, text) pairs."""
  found = list(results.finished.warnings)
  dataset = results.dataset
  if dataset["fallback_reason"]:
    found.append((
        f"The data set is {dataset['name']}, and not federated EMNIST",
        f"--dataset={dataset['requested']} fell back to {dataset['name']}: "
        f"{dataset['fallback_reason']}",
    ))
  for text in dataset["warnings"]:
    # The fallback is among the data's warnings too.
    if not dataset["fallback_reason"] or dataset["fallback_reason"] not in text:
      found.append(("The data", text))
  for name, assignment in results.assignments.items():
    if assignment.warning:
      found.append((method_names.method_label(name), assignment.warning))
  aggregator = results.settings["aggregator"]
  if aggregator != "mean":
    found.append((
        f"Only phase 1 uses --aggregator={aggregator}",
        "Phase 2 and the controls average without it, so the aggregator is one reason why they "
        "differ from phase 1.",
    ))
  return found


def privacy_notes(results: results_lib.Results) -> list[str]:
  """Returns what the server sees and what is private, as paragraphs."""
  seen = (
      "When phase 1 ends, the server sees every client's own model weights in the clear. "
      "Weights can reveal a client's data."
  )
  if results.finished.has("client_weights.npz"):
    seen += " The file client_weights.npz holds them."
  sees_more = (_SEES_MORE.get(name) for name in results_lib.ordered_methods(results.summary))
  seen = " ".join([seen, *dict.fromkeys(filter(None, sees_more))])
  privacy = results.summary.get("privacy")
  if privacy is None:
    return [seen, "Nothing in this run is differentially private."]
  relation = privacy["neighboring_relation"].replace("_", " ")
  return [
      seen,
      f"Differential privacy: epsilon {privacy['epsilon']:.3g} at delta "
      f"{privacy['delta']:.3g} (neighbouring data sets: {relation}). It covers "
      f"{privacy['covers']}.",
  ]

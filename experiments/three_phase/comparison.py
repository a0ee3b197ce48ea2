"""The comparison of methods: its columns, its table for the terminal, its HTML tables."""

from typing import Any, Mapping

from experiment_shell import html_page
from experiment_shell import scores
from experiments.three_phase import cost_text
from experiments.three_phase import method_names
from experiments.three_phase import method_tables
from experiments.three_phase import results as results_lib
from fl_clustering.three_phase import gains

Column = method_tables.Column

VERDICTS = {gains.BETTER: "better", gains.WORSE: "worse", gains.UNCLEAR: "can't tell"}


def gain_unit(summary: Mapping[str, Any]) -> str:
  """Returns what gains are measured in."""
  by_accuracy = results_lib.is_by_accuracy(summary)
  return "points" if by_accuracy else f"points of {results_lib.metric_label(summary)}"


def _mean_sd(distribution: Mapping[str, float]) -> str:
  """Returns the mean and the standard deviation over clients as text."""
  return f"{scores.score_text(distribution['mean'])} ± {scores.score_text(distribution['sd'])}"


def of_clients(part: str, balanced: bool = False) -> tuple[Column, ...]:
  """Returns the columns of clients' accuracy.

  Args:
    part: The part of a method's summary that holds it.
    balanced: Whether the mean recall, which is the balanced accuracy, is called so.
  """
  recall = "balanced accuracy" if balanced else "recall, mean"
  return (
      Column((part, "accuracy"), "accuracy, mean ± sd", _mean_sd),
      Column((part, "accuracy", "p10"), "10th perc.", scores.score_text),
      Column((part, "accuracy", "max"), "best client", scores.score_text),
      Column((part, "share_at_target"), "share at target", "{:.0%}".format),
      Column((part, "recall", "mean"), recall, scores.score_text),
      Column((part, "pooled_accuracy"), "pooled accuracy", scores.score_text),
  )


MEAN_ACCURACY = Column(("clients", "accuracy", "mean"), "mean", scores.score_text)
AT_TARGET = Column(("clients", "share_at_target"), "at target", "{:.0%}".format)
_NUM_CLUSTERS = Column(("num_clusters",), "clusters", "{:,}".format)
def _gain_columns(key: str) -> tuple[Column, Column, Column]:
  """Returns the columns of a gain, which a method's summary holds under a key."""
  return (
      Column(
          (key,), "gain", lambda gain: scores.points(gain["mean"]),
          lambda gain: gain["verdict"] != gains.UNCLEAR,
      ),
      Column((key,), "interval", lambda gain: scores.interval_text(gain["low"], gain["high"])),
      Column((key, "verdict"), "verdict", VERDICTS.__getitem__),
  )


_GAIN_COLUMNS = _gain_columns("gain")
_OVER_FINETUNED = _gain_columns("gain_over_finetuned")
GAIN, _, VERDICT = _GAIN_COLUMNS
# Models of phase 3 on the global test set, and blended ones on clients' data.
_OF_GLOBAL = tuple(
    Column((f"global_{kind}", "accuracy"), text, scores.score_text)
    for kind, text in (
        ("mean", "(a) mean"), ("weighted", "(b) weighted"), ("blended", "(c) blended")
    )
)
_BLENDED = Column(("clients_blended", "accuracy"), "(c) blended, mean ± sd", _mean_sd)
_STEPS = Column(("cost", "client_steps"), "client steps", cost_text.steps_text)
_BYTES = (
    Column(("cost", "bytes_down"), "bytes to the clients", cost_text.bytes_text),
    Column(("cost", "bytes_up"), "bytes from the clients", cost_text.bytes_text),
)
_TRUE_GROUPS = (
    Column(("adjusted_rand_index",), "adjusted Rand index", scores.score_text),
    Column(("purity",), "purity", scores.score_text),
)

_COST_TEXT_KEY = (
    "steps: client steps of SGD; bytes: to and from the clients; both include phase 1 where it is "
    "used"
)


def _all_bytes_text(cost: Mapping[str, int]) -> str:
  return cost_text.bytes_text(cost["bytes_down"] + cost["bytes_up"])


def _text_groups(summary: Mapping[str, Any]) -> tuple[method_tables.Group, ...]:
  """Returns the terminal's columns, which have shorter headings."""
  balanced = Column(("clients", "recall", "mean"), "balanced", scores.score_text)
  return (
      ("", (Column(("num_clusters",), "K", "{:,}".format),)),
      ("accuracy", (
          MEAN_ACCURACY,
          *([] if results_lib.is_by_accuracy(summary) else [balanced]),
          Column(("clients", "accuracy", "sd"), "sd", scores.score_text),
          Column(("new_clients", "accuracy", "mean"), "new", scores.score_text),
      )),
      (f"gain over FedAvg, {gain_unit(summary)}", _GAIN_COLUMNS),
      ("cost", (
          Column(("cost", "client_steps"), "steps", cost_text.steps_text),
          Column(("cost",), "bytes", _all_bytes_text),
      )),
      ("groups", (Column(("adjusted_rand_index",), "ARI", scores.score_text),)),
  )


def _text_key(summary: Mapping[str, Any]) -> list[str]:
  key = ["accuracy: on the clients' own test data; sd: over the clients"]
  if "new_clients" in summary["pretrain"]:
    key.append("new: clients that came after the training")
  return [*key, _COST_TEXT_KEY]


def comparison_rows(summary: Mapping[str, Any], baseline: bool = False) -> list[method_tables.Row]:
  """Returns the rows of phase 1 and of every method.

  Phase 1 has one global model.  It is listed where the others have the mean (a) of their
  models.

  Args:
    baseline: Whether the last row is that of whoever uses no feature, if that is known.
  """
  pretrain = summary["pretrain"]
  parts = {
      method_names.PRETRAIN: {**pretrain, "global_mean": pretrain["global"]},
      **{name: summary["methods"][name] for name in results_lib.ordered_methods(summary)},
  }
  rows = [
      method_tables.Row(method, method_names.method_label(method), part)
      for method, part in parts.items()
  ]
  if baseline and "baseline" in summary:
    rows.append(method_tables.Row(results_lib.BASELINE, "majority class", summary["baseline"]))
  return rows


def comparison_text(summary: Mapping[str, Any]) -> str:
  """Returns the comparison as ASCII text for a terminal, without a final newline.

  With the names of today's methods it is about 100 columns wide.
  """
  rows = comparison_rows(summary, baseline=True)
  tables = [method_tables.text_of(rows, _text_groups(summary))]
  compared = [row for row in rows if method_tables.applies(_OVER_FINETUNED[0], [row])]
  if compared:
    group = f"gain over fine-tuning, {gain_unit(summary)}", _OVER_FINETUNED
    tables.append(method_tables.text_of(compared, [group]))
  basis = summary["comparison"]
  key = [
      f"interval: at {basis['level']:.0%} for all {basis['num_comparisons']} comparisons "
      "together; can't tell: it includes zero, or is unknown",
      *filter(None, [detectable_text(summary)]),
      *_text_key(summary),
  ]
  if "privacy" in summary:
    key.append(f"{method_tables.privacy_text(summary)}.")
  return "\n\n".join([*tables, "\n".join(key)])


def detectable_text(summary: Mapping[str, Any]) -> str:
  """Returns which gains of the methods the run is likely to tell from chance; "" if unknown."""
  if not summary["comparison"]["control_repeats"]:
    return ""
  found = [
      summary["methods"][name]["gain"]["detectable"]
      for name in results_lib.chosen_methods(summary)
  ]
  unit = gain_unit(summary)
  known = [scores.points(gain).lstrip("+") for gain in sorted(filter(None, found))]
  if not known:
    return ""
  ends = f"{known[0]} {unit}"
  if known[0] != known[-1]:
    ends = f"{known[0]} to {known[-1]} {unit}, depending on the method,"
  return f"a gain of {ends} would be told from chance four times in five"


def global_test_text(results: results_lib.Results) -> str:
  """Returns what the global test set is, for a caption."""
  num_examples = results.summary["num_test_examples"]["global"]
  text = f"the global test set, {num_examples:,} examples ({results.dataset['global_test_source']})"
  return f"{text}, all of them clients' own test data" if results.tests_on_clients else text


def _controls_text(summary: Mapping[str, Any]) -> str:
  """Returns what the controls are, in words."""
  sentences = {
      method_names.LOCAL: "every client trains alone from the beginning, for as many rounds as "
      "both phases have.",
      method_names.FINETUNED: "every client goes on alone after phase 1.",
      "ditto": "every client's own model is pulled to one that all train together.",
      "fedrep": "all train the layers before the last, which is each client's own.",
      "apfl": "every client mixes its own model with one that all train together.",
      "mr_mtl": "every client's own model is pulled to the mean of all.",
      method_names.FEDAVG: "everyone trains together, for as many rounds as the methods.",
      method_names.FEDAVG_MATCHED: "FedAvg goes on until it has at least as many client steps as "
      "the method with the most.",
  }
  return " ".join(
      f"{method_names.method_name(name)}: {sentence}"
      for name, sentence in sentences.items()
      if name in summary["methods"]
  )


def _gain_key(results: results_lib.Results) -> str:
  num_comparisons = results.summary["comparison"]["num_comparisons"]
  return (
      f"Gain: mean over the clients, in percentage points; its intervals hold for all "
      f"{num_comparisons} comparisons together. Can't tell: the interval includes "
      "zero, or is unknown. No interval says which method is the best of all; the highest value "
      "may be highest by chance."
  )



def _accuracy_key(results: results_lib.Results) -> html_page.Html:
  key = (
      "All clients weigh alike, but in the pooled accuracy all their test examples do. sd: "
      "standard deviation over the clients. 10th perc.: a tenth of the clients is below it. "
      "Share at target: clients with an accuracy of at least "
      f"{results.settings['target_accuracy']:g}. "
  )
  if results.has_tables:
    key += (
        "Balanced accuracy: mean recall of a client's classes, so that rare ones weigh as much "
        "as frequent ones; then the mean over the clients. "
    )
  return html_page.paragraph(
      key,
      f"{_controls_text(results.summary)} {scores.ABSENT}: does not apply.",
      quiet=True,
  )


_COST_KEY = (
    "Client steps: steps of SGD of all clients together. Clients that train alone keep their "
    "models, so nothing is sent."
)
_GLOBAL_TESTS_ON_CLIENTS = (
    " The weights of (b) were chosen on the data that it is tested on here, so its accuracy "
    "is too high."
)


def _global_key(results: results_lib.Results) -> str:
  weight = (
      "the accuracy of each cluster on its clients' validation data" if results.weighs_by_validation
      else "the best accuracy that each cluster reached on its clients' test data"
  )
  biased = results.tests_on_clients and not results.weighs_by_validation
  return (
      f"(a): mean of all cluster models. (b): mean weighted by {weight}. (c): each cluster's model "
      "averaged with (a); its accuracy is the mean over the clusters (over 100 of "
      "them, evenly spaced, where there are more). Phase 1 has one model, shown under (a)."
      + (_GLOBAL_TESTS_ON_CLIENTS if biased else "")
  )


def comparison_tables(results: results_lib.Results) -> list[html_page.Html]:
  """Returns the comparison of all methods, as blocks of an HTML page."""
  summary = results.summary
  rows = comparison_rows(summary, baseline=True)
  methods_table = method_tables.methods_table
  level, num_examples = summary["comparison"]["level"], summary["num_test_examples"]["clients"]
  fedavg_steps = summary["methods"][method_names.FEDAVG]["cost"]["client_steps"]
  relative_steps = Column(
      _STEPS.path, "steps of FedAvg", lambda steps: f"{steps / fedavg_steps:.2f} times"
  )
  blocks = [
      methods_table(
          rows,
          [
              ("", [_NUM_CLUSTERS]),
              ("clients' own test data", of_clients("clients", results.has_tables)),
          ],
          f"Accuracy after phase 2, of {results_lib.clients_text(summary['num_clients'])} on "
          f"{num_examples:,} test examples of their own",
          summary,
      ),
      _accuracy_key(results),
      methods_table(
          rows, [("over FedAvg", _GAIN_COLUMNS), ("over fine-tuning", _OVER_FINETUNED)],
          f"Gains in {gain_unit(summary)} with {level:.0%} intervals, bold where these leave out "
          "zero",
          summary,
      ),
      html_page.paragraph(_gain_key(results), quiet=True),
      methods_table(
          rows, [("computing", (_STEPS, relative_steps)), ("communication", _BYTES)],
          "What the clients had to do, phase 1 included where a method builds on it", summary,
      ),
      html_page.paragraph(_COST_KEY, quiet=True),
      methods_table(
          rows, [("global test set", _OF_GLOBAL), ("clients' own test data", [_BLENDED])],
          f"Models of phase 3: accuracy on {global_test_text(results)}, and of the blended "
          "models on the clients' own test data",
          summary,
      ),
      html_page.paragraph(_global_key(results), quiet=True),
  ]
  if any(method_tables.applies(column, rows) for column in _TRUE_GROUPS):
    blocks.append(methods_table(
        rows, [("", _TRUE_GROUPS)],
        "Do the clusters agree with the true groups? (adjusted Rand index: 1 exactly, 0 as by "
        "chance; purity: share of clients whose group is their cluster's most frequent one)",
        summary,
    ))
  return blocks

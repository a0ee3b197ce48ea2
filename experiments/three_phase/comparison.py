"""The comparison of methods: its columns, its table for the terminal, its HTML tables."""

from typing import Any, Callable, Mapping, Sequence

from experiment_shell import html_page
from experiment_shell import scores
from experiments.three_phase import method_tables
from experiments.three_phase import results as results_lib
from fl_clustering.three_phase import gains

Column = method_tables.Column

VERDICTS = {gains.BETTER: "better", gains.WORSE: "worse", gains.UNCLEAR: "can't tell"}


def _signed(value: float) -> str:
  """Returns a difference with its sign and three digits or more."""
  return f"{value:+,.0f}" if abs(value) >= 999.5 else f"{value:+.3g}"


def gain_form(summary: Mapping[str, Any]) -> Callable[[float], str]:
  """Returns how gains are written: in percentage points if the metric is a share."""
  return scores.points if results_lib.metric(summary).bound == 1 else _signed


def gain_unit(summary: Mapping[str, Any]) -> str:
  """Returns what gains are measured in."""
  metric = results_lib.metric(summary)
  if metric.bound != 1:
    return metric.label
  return "points" if metric.label == "accuracy" else f"points of {metric.label}"


def _mean_where_defined(distribution: Mapping[str, float]) -> str:
  return f"{distribution['mean']:.3f} ({distribution['num_clients']})"


def _of_numbers(part: str) -> tuple[Column, ...]:
  """Returns the columns of clients' errors in a regression, besides those of the RMSE."""
  number_text = results_lib.number_text
  return (
      Column((part, "mae", "mean"), "MAE, mean", number_text),
      Column((part, "r2"), "R2, mean", _mean_where_defined),
      Column((part, "pooled_rmse"), "pooled RMSE", number_text),
      Column((part, "pooled_r2"), "pooled R2", scores.score_text),
  )


def of_clients(
    part: str, summary: Mapping[str, Any], balanced: bool = False
) -> tuple[Column, ...]:
  """Returns the columns of clients' accuracy, or of their errors in a regression.

  Args:
    part: The part of a method's summary that holds it.
    balanced: Whether the mean recall, which is the balanced accuracy, is called so.
  """
  scale = results_lib.scale(summary)

  def of_scale(percentile: str, best: str) -> tuple[Column, ...]:
    return (
        Column((part, scale.key), f"{scale.name}, mean ± sd", scale.mean_sd),
        Column((part, scale.key, percentile), f"{percentile[1:]}th perc.", scale.text),
        Column((part, scale.key, best), "best client", scale.text),
    )

  if results_lib.is_regression(summary):
    return (*of_scale("p90", "min"), *_of_numbers(part))
  recall = "balanced accuracy" if balanced else "recall, mean"
  return (
      *of_scale("p10", "max"),
      Column((part, "share_at_target"), "share at target", "{:.0%}".format),
      Column((part, "recall", "mean"), recall, scores.score_text),
      Column((part, "pooled_accuracy"), "pooled accuracy", scores.score_text),
  )


def mean_column(summary: Mapping[str, Any], part: str = "clients", heading: str = "mean") -> Column:
  """Returns the column of clients' mean accuracy, or RMSE in a regression."""
  scale = results_lib.scale(summary)
  return Column((part, scale.key, "mean"), heading, scale.text)


AT_TARGET = Column(("clients", "share_at_target"), "at target", "{:.0%}".format)
_NUM_CLUSTERS = Column(("num_clusters",), "clusters", "{:,}".format)
VERDICT = Column(("gain", "verdict"), "verdict", VERDICTS.__getitem__)


def gain_columns(summary: Mapping[str, Any]) -> tuple[Column, Column, Column]:
  """Returns the columns of the gain, its interval and the verdict."""
  form = gain_form(summary)

  def interval_text(gain: Mapping[str, float | None]) -> str:
    return scores.interval_text(gain["low"], gain["high"], form)

  of_mean = Column(
      ("gain",), "gain", lambda gain: form(gain["mean"]),
      lambda gain: gain["verdict"] != gains.UNCLEAR,
  )
  return of_mean, Column(("gain",), "interval", interval_text), VERDICT


def _of_phase_3(scale: results_lib.Scale) -> tuple[tuple[Column, ...], Column]:
  """Returns the columns of models on the global test set, and of blended ones on clients' data."""
  kinds = {"mean": "(a) mean", "weighted": "(b) weighted", "blended": "(c) blended"}
  return (
      tuple(
          Column((f"global_{kind}", scale.key), text, scale.text) for kind, text in kinds.items()
      ),
      Column(("clients_blended", scale.key), "(c) blended, mean ± sd", scale.mean_sd),
  )


_STEPS = Column(("cost", "client_steps"), "client steps", method_tables.steps_text)
_BYTES = (
    Column(("cost", "bytes_down"), "bytes to the clients", method_tables.bytes_text),
    Column(("cost", "bytes_up"), "bytes from the clients", method_tables.bytes_text),
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
  return method_tables.bytes_text(cost["bytes_down"] + cost["bytes_up"])


def _text_groups(summary: Mapping[str, Any]) -> tuple[method_tables.Group, ...]:
  """Returns the terminal's columns, which have shorter headings."""
  scale = results_lib.scale(summary)
  balanced = Column(("clients", "recall", "mean"), "balanced", scores.score_text)
  is_balanced = results_lib.metric(summary).key == "recall"
  return (
      ("", (Column(("num_clusters",), "K", "{:,}".format),)),
      (scale.name, (
          mean_column(summary),
          *([balanced] if is_balanced else []),
          Column(("clients", scale.key, "sd"), "sd", scale.text),
          mean_column(summary, "new_clients", "new"),
      )),
      (_gain_heading(summary), gain_columns(summary)),
      ("cost", (
          Column(("cost", "client_steps"), "steps", method_tables.steps_text),
          Column(("cost",), "bytes", _all_bytes_text),
      )),
      ("groups", (Column(("adjusted_rand_index",), "ARI", scores.score_text),)),
  )


def _gain_heading(summary: Mapping[str, Any]) -> str:
  metric = results_lib.metric(summary)
  if metric.label == "accuracy":
    return "gain over FedAvg, points"
  return f"gain in {metric.label}{', points' if metric.bound == 1 else ''}"


def _text_key(summary: Mapping[str, Any]) -> list[str]:
  name, metric = results_lib.scale(summary).name, results_lib.metric(summary)
  key = [f"{name}: on the clients' own test data; sd: over the clients"]
  if metric.label != "accuracy":
    positive = ", positive where less than it" if metric.is_loss else ""
    key.insert(0, f"gain: over FedAvg{positive}")
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
      results_lib.PRETRAIN: {**pretrain, "global_mean": pretrain["global"]},
      **{name: summary["methods"][name] for name in results_lib.ordered_methods(summary)},
  }
  rows = [
      method_tables.Row(method, results_lib.method_label(method), part)
      for method, part in parts.items()
  ]
  if baseline and "baseline" in summary:
    label = results_lib.baseline_label(summary)
    rows.append(method_tables.Row(results_lib.BASELINE, label, summary["baseline"]))
  return rows


def comparison_text(summary: Mapping[str, Any]) -> str:
  """Returns the comparison as ASCII text for a terminal, without a final newline.

  With the names of today's methods it is about 100 columns wide.
  """
  rows = comparison_rows(summary, baseline=True)
  table = method_tables.text_of(rows, _text_groups(summary))
  basis = summary["comparison"]
  key = [
      f"interval: at {basis['level']:.0%} for all {basis['num_comparisons']} comparisons "
      "together; can't tell: it includes zero, or is unknown",
      *filter(None, [detectable_text(summary)]),
      *_text_key(summary),
  ]
  if "privacy" in summary:
    key.append(f"{method_tables.privacy_text(summary)}.")
  return "\n".join([table, "", *key, *_further_text(summary, rows)])


def _further_text(
    summary: Mapping[str, Any], rows: Sequence[method_tables.Row]
) -> list[str]:
  """Returns further metrics of a regression for a terminal, as blocks of lines."""
  if not results_lib.is_regression(summary):
    return []
  return [
      method_tables.text_of(rows, (("", _of_numbers("clients")),)), "",
      "means over the clients, in brackets over how many where it may not be all; pooled: over "
      "all test rows together",
  ]


def detectable_text(summary: Mapping[str, Any]) -> str:
  """Returns which gains of the methods the run is likely to tell from chance; "" if unknown."""
  if not summary["comparison"]["control_repeats"]:
    return ""
  found = [
      summary["methods"][name]["gain"].get("detectable")  # Runs of earlier versions have none.
      for name in results_lib.chosen_methods(summary)
  ]
  form, unit = gain_form(summary), gain_unit(summary)
  known = [form(gain).lstrip("+") for gain in sorted(filter(None, found))]
  if not known:
    return ""
  unit = unit if unit.startswith("points") else f"in {unit}"
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
      results_lib.LOCAL: "every client trains alone from the beginning, for as many rounds as "
      "both phases have.",
      results_lib.FINETUNED: "every client goes on alone after phase 1.",
      "ditto": "every client's own model is pulled to one that all train together.",
      "fedrep": "all train the layers before the last, which is each client's own.",
      "apfl": "every client mixes its own model with one that all train together.",
      "mr_mtl": "every client's own model is pulled to the mean of all.",
      results_lib.FEDAVG: "everyone trains together, for as many rounds as the methods.",
      results_lib.FEDAVG_MATCHED: "FedAvg goes on until it has at least as many client steps as "
      "the method with the most.",
  }
  return " ".join(
      f"{results_lib.method_name(name)}: {sentence}"
      for name, sentence in sentences.items()
      if name in summary["methods"]
  )


def _gain_key(results: results_lib.Results) -> str:
  metric, num_comparisons = (
      results_lib.metric(results.summary), results.summary["comparison"]["num_comparisons"]
  )
  unit = "in percentage points" if metric.bound == 1 else (
      f"in {metric.label}, positive where that is lower than under FedAvg"
  )
  by = "" if metric.label == "accuracy" or metric.bound != 1 else f" of {metric.label}"
  return (
      f"Gain: mean over the clients, {unit}{by}; its intervals hold for all {num_comparisons} "
      "comparisons together. Can't tell: the interval includes zero, or is unknown. No interval "
      "says which method is the best of all; the highest value may be highest by chance."
  )


_NUMBERS_KEY = (
    "RMSE: root mean squared error; MAE: mean absolute error, both in the label's units. R2: 1 "
    "minus the squared errors over those of the mean of a client's test labels; in brackets the "
    "number of clients where it is defined. All clients weigh alike, but in the pooled metrics all "
    "their test examples do. 90th perc.: a tenth of the clients is above it. "
)


def _accuracy_key(results: results_lib.Results) -> html_page.Html:
  key = _NUMBERS_KEY
  if not results.is_regression:
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
      f"{key}{_gain_key(results)}",
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
  if results.is_regression:
    weight = weight.replace("the best accuracy", "1 over the least squared error").replace(
        "the accuracy", "1 over the squared error"
    )
  return (
      f"(a): mean of all cluster models. (b): mean weighted by {weight}. (c): each cluster's model "
      f"averaged with (a); its {results.scale.name} is the mean over the clusters (over 100 of "
      "them, evenly spaced, where there are more). Phase 1 has one model, shown under (a)."
      + (_GLOBAL_TESTS_ON_CLIENTS if biased else "")
  )


def comparison_tables(results: results_lib.Results) -> list[html_page.Html]:
  """Returns the comparison of all methods, as blocks of an HTML page."""
  summary = results.summary
  rows = comparison_rows(summary, baseline=True)
  scale, methods_table = results.scale, method_tables.methods_table
  of_global, blended = _of_phase_3(scale)
  level, num_examples = summary["comparison"]["level"], summary["num_test_examples"]["clients"]
  fedavg_steps = summary["methods"][results_lib.FEDAVG]["cost"]["client_steps"]
  relative_steps = Column(
      _STEPS.path, "steps of FedAvg", lambda steps: f"{steps / fedavg_steps:.2f} times"
  )
  blocks = [
      methods_table(
          rows,
          [
              ("", [_NUM_CLUSTERS]),
              ("clients' own test data", of_clients("clients", summary, results.has_tables)),
              (
                  f"over FedAvg, {gain_unit(summary)}, {level:.0%} interval",
                  gain_columns(summary),
              ),
          ],
          f"{scale.title} after phase 2, of {results_lib.clients_text(summary['num_clients'])} on "
          f"{num_examples:,} test examples of their own, and gain over FedAvg, bold where its "
          "interval leaves out zero",
          summary,
      ),
      _accuracy_key(results),
      methods_table(
          rows, [("computing", (_STEPS, relative_steps)), ("communication", _BYTES)],
          "What the clients had to do, phase 1 included where a method builds on it", summary,
      ),
      html_page.paragraph(_COST_KEY, quiet=True),
      methods_table(
          rows, [("global test set", of_global), ("clients' own test data", [blended])],
          f"Models of phase 3: {scale.name} on {global_test_text(results)}, and of the blended "
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

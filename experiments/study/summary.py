"""What a study found: gains by setting and method with their intervals, accuracies, costs.

Seeds draw the model to start from, the order of training and what the data don't give, such as the
split over the clients, so an interval over seeds is about other seeds with the same data.
"""

from typing import Any, Iterator, Mapping

import pandas as pd

from clustering_basics import intervals
from experiment_shell import frames as frames_lib
from experiment_shell import tidy_experiment
from experiments.study import config as config_lib
from experiments.study import tuning
from experiments.three_phase_emnist import report
from fl_clustering.methods import registry as method_registry
from fl_clustering.three_phase import matched_control

ROUNDS, PROBLEMS = "rounds", "problems"
FEDAVG, FINETUNED = method_registry.FEDAVG, method_registry.FINETUNED
# What methods are compared with: the name of the frame of their gains over it, and what it is.
REFERENCES = {
    FEDAVG: ("over_fedavg", "FedAvg of equal work"),
    FINETUNED: ("over_finetuned", "fine-tuning at every client"),
}
# From this adjusted Rand index on, a method has found the true groups.
FOUND = 0.95
GROUPS_FOUND, GROUPS_MISSED, NOT_SCORED = "groups found", "not found", "not scored"
_ENDS = {tuning.LOWEST: "<", tuning.HIGHEST: ">"}
_REPETITION = ["seed", "fold"]
GLOBAL_MODELS = (
    "global_accuracy", "global_recall", "global_weighted_accuracy", "global_weighted_recall",
    "blended_accuracy",
)


def methods(config: Mapping[str, Any]) -> list[str]:
  """Returns all methods and controls in the order of the tables."""
  return method_registry.ordered([
      method_registry.PRETRAIN, *config["methods"], *method_registry.CONTROLS, *config["personal"],
      method_registry.FEDAVG_MATCHED,
  ])


def cells(results: pd.DataFrame) -> pd.DataFrame:
  """Returns a row for every setting, seed, fold and method that did not fail."""
  metrics = dict.fromkeys([*results["metric"].unique(), "ari"])  # Or nobody knows any groups.
  return frames_lib.wide(results, ["setting", *_REPETITION, "method"], metrics)


def _by_method(of_setting: pd.DataFrame, metric: str, config: Mapping[str, Any]) -> pd.DataFrame:
  """Returns a row for every repetition, with a column for every method."""
  found = frames_lib.wide(
      of_setting, _REPETITION, methods(config), column="method", value=metric
  )
  return found.set_index(_REPETITION)


def _compared(
    found: pd.DataFrame, config: Mapping[str, Any]
) -> Iterator[tuple[str, str, str, pd.DataFrame]]:
  """Yields setting, method, reference, and the accuracies of `own` and `other` by repetition.

  Where a method has more client steps than FedAvg, it is compared with the control that has as many
  as the method with the most; without that control it is not compared.
  """
  for setting, of_setting in found.groupby("setting", sort=False):
    accuracy, steps = (_by_method(of_setting, one, config) for one in ("accuracy", "steps"))
    for reference in REFERENCES:
      for method in methods(config):
        if method in (reference, method_registry.PRETRAIN, method_registry.FEDAVG_MATCHED):
          continue
        other = accuracy[reference]
        if reference == FEDAVG:
          has_more = steps[method] > (1 + matched_control.TOLERANCE) * steps[FEDAVG]
          other = other.where(~has_more, accuracy[method_registry.FEDAVG_MATCHED])
        yield setting, method, reference, pd.DataFrame(
            {"own": accuracy[method], "other": other}
        ).dropna()


def gains(found: pd.DataFrame, config: Mapping[str, Any]) -> pd.DataFrame:
  """Returns the mean gain over both references of every method in every setting, in points.

  The intervals of all gains of the study hold at once.  So whatever is said of those that leave out
  zero, of one or of a choice of them, holds too.
  """
  compared = list(_compared(found, config))
  # That of the references from each other is one, seen from both sides.
  pairs = {(setting, frozenset((method, other))) for setting, method, other, _ in compared}
  rows = []
  for setting, method, reference, both in compared:
    rows.append({
        "setting": setting, "method": method, "reference": reference, "repetitions": len(both),
        # No share differs by more than 1.
        **frames_lib.compared(
            both["own"].tolist(), both["other"].tolist(), len(pairs),
            num_folds=config["num_folds"], scale=100, limits=(-100, 100),
        ),
    })
  return pd.DataFrame(rows)


def _in_order(rows: pd.DataFrame, config: Mapping[str, Any]) -> pd.DataFrame:
  """Returns rows by setting, and by method in each."""
  return frames_lib.in_order(rows, setting=config["settings"], method=methods(config))


def scores(found: pd.DataFrame, config: Mapping[str, Any]) -> pd.DataFrame:
  """Returns means over the repetitions of every method in every setting.

  Beside the means of all metrics these are `repetitions`; `sd`, `low` and `high` of the accuracy;
  `ari_sd`; and `found`, in how many repetitions the true groups are found.
  """
  groups = found.groupby(["setting", "method"])
  means = groups.mean(numeric_only=True).drop(columns=_REPETITION)
  ends = [
      intervals.of_values(values.tolist(), num_folds=config["num_folds"])
      for _, values in groups["accuracy"]
  ]
  # Where clients are in several clusters, there is no index, and the groups are not found.
  are_known = means["ari"].notna().groupby("setting").transform("any")
  is_chosen = means.index.get_level_values("method").isin(config["methods"])
  low, high = pd.DataFrame(ends, columns=["low", "high"], index=means.index).T.to_numpy()
  return _in_order(means.assign(**{
      "repetitions": groups.size(), "sd": groups["accuracy"].std(),
      "low": low.clip(min=0), "high": high.clip(max=1), "ari_sd": groups["ari"].std(),
      "found": groups["ari"].agg(lambda values: (values >= FOUND).sum()).where(
          are_known & is_chosen
      ),
  }).reset_index(), config)


def _by_setting(
    rows: pd.DataFrame, texts: list[str], config: Mapping[str, Any]
) -> pd.DataFrame:
  """Returns a row of texts for every method, with a column for every setting."""
  shown = frames_lib.wide(
      rows.assign(text=texts), ["method"], rows["setting"].unique(), column="setting", value="text"
  )
  return frames_lib.in_order(shown, method=methods(config))


def _by_repetition(found: pd.DataFrame, config: Mapping[str, Any]) -> pd.DataFrame:
  """Returns the gains over FedAvg of every repetition, and whether the groups were found."""
  parts = []
  for setting, method, reference, both in _compared(found, config):
    if reference == FEDAVG:
      own = found[(found["setting"] == setting) & (found["method"] == method)]
      index = own.set_index(_REPETITION)["ari"].reindex(both.index)
      parts.append(pd.DataFrame({
          "setting": setting, "method": method, "gain": 100 * (both["own"] - both["other"]),
          "groups": [
              NOT_SCORED if one != one else GROUPS_FOUND if one >= FOUND else GROUPS_MISSED
              for one in index
          ],
      }).reset_index())
  return pd.concat(parts)


def _accuracy_by_cost(rounds: pd.DataFrame, config: Mapping[str, Any]) -> pd.DataFrame:
  """Returns means over the repetitions after every round, once by bytes and once by client steps.

  Rounds that only some repetitions have, such as the last ones of a matched control, are left out.
  """
  keys = ["setting", "method", "round"]
  found = frames_lib.wide(
      rounds[rounds["method"] != method_registry.FEDAVG_MATCHED], [*keys, *_REPETITION]
  ).groupby(keys)
  means, counts = found.mean(), found.size()
  means = means[counts == counts.groupby(["setting", "method"]).transform("max")].reset_index()
  means = means[means["steps"] > 0]  # Nobody has trained the other models.
  return pd.concat([
      own.assign(panel=f"{setting}: {cost}", mean=own["accuracy"], cost=own[cost])
      for setting, own in _in_order(means, config).groupby("setting", sort=False)
      for cost in ("bytes", "steps")
  ])[["panel", "method", "round", "cost", "mean"]]


def headline(all_gains: pd.DataFrame, config: Mapping[str, Any]) -> pd.DataFrame:
  """Returns in which settings a method that groups clients is better than the references."""
  own = all_gains[all_gains["method"].isin(config["methods"])]
  better = own[own["verdict"] == intervals.BETTER]
  over_fedavg = better.loc[better["reference"] == FEDAVG, "setting"].unique()
  references = better.groupby(["setting", "method"], sort=False)["reference"].nunique()
  both = references[references == len(REFERENCES)].index.unique("setting")
  verdict = "both" if len(both) else "fedavg" if len(over_fedavg) else "none"
  row = {
      "verdict": verdict, "settings": ", ".join(over_fedavg), "both": ", ".join(both),
      "repetitions": own["repetitions"].max(),
  }
  return pd.DataFrame([row] if len(own) else [])


def _of_tuning(
    tidy: Mapping[str, pd.DataFrame], config: Mapping[str, Any]
) -> frames_lib.Frames:
  """Returns what was tuned, and what was chosen; frames without rows where nothing was."""
  if tuning.CHOSEN not in tidy:
    return dict.fromkeys(
        ("candidates", "chosen_by_setting", "choice_on_test"), pd.DataFrame()
    )
  found = tidy[tuning.CHOSEN]
  taken = found[found["chosen"] == 1]
  return {
      "candidates": found,
      "chosen_by_setting": _by_setting(taken, [
          candidate + _ENDS.get(end, " ")
          for candidate, end in zip(taken[tuning.CANDIDATE], taken["end"])
      ], config),
      "choice_on_test": pd.DataFrame(tuning.on_test(tidy[tuning.TUNING], found)),
  }


def summarise(
    tidy: Mapping[str, pd.DataFrame], document: Mapping[str, Any]
) -> frames_lib.Frames:
  """Returns the frames of the report."""
  config = document["config"]
  found = cells(tidy[tidy_experiment.RESULTS])
  of_methods, all_gains = scores(found, config), gains(found, config)
  problems = tidy[PROBLEMS].drop(columns=["metric", "value"])
  is_reported = problems["seed"] < config["seed"] + config["num_seeds"]
  frames = {
      "methods": of_methods, "problems": problems[is_reported],
      "problems_in_tuning": problems[~is_reported], **_of_tuning(tidy, config),
  }
  for reference, (name, _) in REFERENCES.items():
    rows = all_gains[all_gains["reference"] == reference].drop(columns="reference")
    frames[name] = rows.dropna(subset="gain")
    frames[f"{name}_by_setting"] = _by_setting(rows, [
        "" if gain != gain else f"{gain:+.1f}{'*' if verdict != intervals.UNCLEAR else ' '}"
        for gain, verdict in zip(rows["gain"], rows["verdict"])
    ], config)
  frames["accuracy_by_setting"] = _by_setting(
      of_methods, [f"{mean:.3f}" for mean in of_methods["accuracy"]], config
  )
  frames["by_repetition"] = _by_repetition(found, config)
  frames = frames_lib.labelled(
      frames, {name: method_registry.title(name) for name in methods(config)}
  )
  # Every panel has a row for every method.
  frames["by_repetition"] = frames["by_repetition"].astype({"method": pd.CategoricalDtype(
      frames["by_repetition"]["method"].unique()
  )})
  return {
      **frames,
      "headline": headline(all_gains, config),
      "settings": pd.DataFrame([
          {"setting": name, "clients have": config_lib.SETTINGS[name].about}
          for name in config["settings"]
      ]),
      "accuracy_by_cost": _accuracy_by_cost(tidy[ROUNDS], config),
      "cells": (
          tuning.with_candidates(found, tidy[tuning.CHOSEN]) if tuning.CHOSEN in tidy else found
      ).convert_dtypes(),
  }


HEADLINES = {
    "both": "Grouping the clients beats training everyone together (FedAvg of equal work) in: "
    "{settings}. It also beats fine-tuning at every client in: {both}.",
    "fedavg": "Grouping the clients beats training everyone together (FedAvg of equal work) in: "
    "{settings}. In no such setting can it be told to beat fine-tuning at every client.",
    "none": "In no setting can a gain of grouping the clients over training everyone together "
    "(FedAvg of equal work) be told from chance; repetitions: {repetitions}.",
}

TABLES = (
    tidy_experiment.Table(
        "problems", "Methods that failed",
        "They diverged or lacked memory; their means are over the other repetitions.",
        is_text=True, printed=True,
    ),
    tidy_experiment.Table(
        "problems_in_tuning", "Candidates that failed",
        "They diverged or lacked memory with a tuning seed, so they are not taken.", is_text=True,
    ),
    tidy_experiment.Table(
        "settings", "Settings", "What differs between the clients.", is_text=True,
    ),
    tidy_experiment.Table(
        "chosen_by_setting",
        "The candidate of every method (< the lowest, > the highest of all: try further ones)",
        "The one with the highest mean accuracy on validation rows, with seeds that count for "
        "nothing else. Every method has as many candidates; to one without the tuned option, they "
        "are alike. Without one: none has a result with every tuning seed.",
        printed=True,
    ),
    tidy_experiment.Table(
        "choice_on_test", "How often the candidate is the best on test rows, too",
        "With the tuning seeds' own test rows, which played no part. Lost: how much more accurate "
        "the best one is there, in percentage points, mean and most. It is as noisy as few seeds "
        "are.",
        {
            "setting": "{}", "choices": "{}", "best on test": "{}", "lost": "{:.2f}",
            "most lost": "{:.2f}",
        },
        is_text=True, printed=True,
    ),
    *(
        tidy_experiment.Table(
            f"{name}_by_setting",
            f"Gain over {reference}, in percentage points (*: told from chance)",
            "Of the clients' mean accuracy. With a star: the interval of the gain leaves out zero. "
            "A method with a gain over FedAvg and a loss over fine-tuning helps less than "
            "fine-tuning the common model does.",
            folded=True, printed=True,
        )
        for name, reference in REFERENCES.values()
    ),
    tidy_experiment.Table(
        "accuracy_by_setting", "The clients' mean accuracy", "Mean over the repetitions.",
        folded=True, printed=True,
    ),
    *(
        tidy_experiment.Table(
            name, f"Gains over {reference}, with intervals",
            "In percentage points. Better and worse: the interval leaves out zero.",
            {"method": "{}", **frames_lib.gain_columns()}, by="setting", folded=True,
        )
        for name, reference in REFERENCES.values()
    ),
    tidy_experiment.Table(
        "methods", "Accuracies, with intervals",
        "The clients' mean accuracy: mean and standard deviation over the repetitions, and the "
        "interval of the mean, which holds for itself.",
        {
            "method": "{}", "repetitions": "{}", "accuracy": "{:.3f}", "sd": "{:.3f}",
            "low": "{:.3f}", "high": "{:.3f}",
        },
        by="setting", folded=True,
    ),
    tidy_experiment.Table(
        "candidates", "All candidates",
        "Mean and standard error of the accuracy on validation rows, over the runs with the tuning "
        "seeds; how many runs failed; and the rounds, steps of SGD and bytes of all these runs.",
        {
            "method": "{}", tuning.CANDIDATE: "{}", "mean": "{:.3f}", "se": "{:.3f}", "runs": "{}",
            tuning.FAILED: "{}", "chosen": "{}", "end": "{}", tuning.NUM_ROUNDS: "{:,.0f}",
            "steps": "{:,.0f}", "bytes": report.bytes_text,
        },
        by="setting", folded=True,
    ),
    tidy_experiment.Table(
        "methods", "Clusters and costs",
        "ARI: mean adjusted Rand index to the true groups, where there are any. Found: in so many "
        f"repetitions it is {FOUND:g} or more. Steps of SGD of all clients, and bytes to and from "
        "them.",
        {
            "method": "{}", "ari": "{:.2f}", "ari_sd": "{:.2f}", "found": "{:.0f}",
            "clusters": "{:.1f}", "steps": "{:,.0f}", "bytes": report.bytes_text,
        },
        by="setting", folded=True,
    ),
    tidy_experiment.Table(
        "methods", "Global models",
        "The mean and the weighted mean of the clusters' models, on the global test set; and the "
        "clusters' models blended with their mean, on the clients' test data.",
        {"method": "{}", **dict.fromkeys(GLOBAL_MODELS, "{:.3f}")},
        by="setting", folded=True,
    ),
)

READING = (
    "A gain is the mean difference between two methods of the same repetition: the same seed and "
    "fold, which share the clients, their data and, where no option is tuned, phase 1. FedAvg of "
    "equal work has as many rounds; for a method with more client steps it is FedAvg matched, "
    "which goes on until it has as many as the method with the most.",
    f"{frames_lib.READING_OF_GAINS} These gains are over FedAvg and over fine-tuning in every "
    "setting (Bonferroni). If no method differed from any other, at most 5% of such studies would "
    "find a difference at all, as far as gains are spread normally over the repetitions.",
    "With fewer than ten repetitions only large differences can be told from chance, and a method "
    "that finds the groups by luck in some of them may wrongly seem better or worse.",
    "Over seeds, intervals are Student's t. A seed draws the first model, the order of training and "
    "what the data don't give, such as the split over the clients; the data set is the same, so "
    "intervals are about other seeds with this data set. Folds of one seed share most of their "
    "training data, so with folds intervals are longer (Nadeau and Bengio 2003; Bouckaert and Frank "
    "2004).",
    "Controls group nobody: local trains every client alone, fine-tuned starts from the model of "
    "phase 1, and FedAvg trains everyone together.",
)

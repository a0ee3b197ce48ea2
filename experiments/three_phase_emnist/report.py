"""The texts of a run's report: its headline, its tables, and how to read it."""

from typing import Sequence

from experiment_shell import frames
from experiment_shell import tidy_experiment

HEADLINES = {
    "none": "This run has no methods that group clients, only controls.",
    "": "The highest mean accuracy of a method that groups clients is {accuracy:.3f}, by {method}. "
    "{comparisons}",
}


def _in_units(value: float, units: Sequence[str]) -> str:
  """Returns a number of three digits, and the unit with which it is `value`."""
  position = 0
  while value >= 999.5 and position < len(units) - 1:
    value /= 1000
    position += 1
  return f"{value:.3g}{units[position]}"


def steps_text(value: float) -> str:
  """Returns a number of steps in a few characters, such as `12.3 k`."""
  return _in_units(value, ("", " k", " M", " G", " T"))


def bytes_text(value: float) -> str:
  """Returns a number of bytes in a few characters, such as `1.2 GB`."""
  return _in_units(value, (" B", " kB", " MB", " GB", " TB", " PB"))


_SCORE = "{:.3f}"
_DETAILS = {
    "accuracy_p10": _SCORE, "share_at_target": "{:.0%}", "recall": _SCORE,
    "pooled_accuracy": _SCORE,
}
_OF_NEW = {"accuracy": _SCORE, "accuracy_sd": _SCORE, **_DETAILS}
_GLOBAL = ("global_accuracy", "global_weighted_accuracy", "global_blended_accuracy")
TABLES = (
    tidy_experiment.Table(
        "warnings", "What methods warn of", "", {"method": "{}", "warning": "{}"}, is_text=True,
    ),
    tidy_experiment.Table(
        "methods", "Accuracy on the clients' own test data, groups and cost",
        "Accuracy: mean over the clients, which all weigh alike, with the standard deviation over "
        "them. New: of clients that came after the training. Ari: adjusted Rand index, the "
        "agreement with the true groups, 1 exactly, 0 as by chance. Steps: steps of SGD of all "
        "clients together; bytes: what was sent to and from them; phase 1 is included where a "
        "method builds on it.",
        {
            "method": "{}", "clusters": "{:.0f}", "accuracy": _SCORE, "accuracy_sd": _SCORE,
            "new_accuracy": _SCORE, "ari": _SCORE, "steps": steps_text, "bytes": bytes_text,
        },
        printed=True,
    ),
    tidy_experiment.Table(
        "all_gains", "Gains in points, with 95% intervals for all comparisons together",
        "Gain: mean over the clients, in percentage points. Better and worse: the interval, from "
        "low to high, leaves out zero. Detectable: the least true gain that would be told from "
        "chance in four of five runs.",
        {"method": "{}", **frames.gain_columns(), "detectable": "{:.1f}"},
        by="over", printed=True,
    ),
    tidy_experiment.Table(
        "accuracies", "Accuracies of the clients, in detail",
        "On their own test data. P10: a tenth of the clients is below it. Share at target: of the "
        "clients, with at least the target accuracy. Recall: mean recall of a client's classes. "
        "Pooled: all test examples weigh alike. Higher and lower: clients with a higher and with a "
        "lower accuracy than under FedAvg.",
        {"method": "{}", **_DETAILS, "higher": "{:.0f}", "lower": "{:.0f}"}, folded=True,
    ),
    tidy_experiment.Table(
        "costs", "What the clients had to do",
        "Steps of SGD of all clients together, also in multiples of those of FedAvg, and what was "
        "sent to the clients (down) and from them (up). Phase 1 is included where a method builds "
        "on it. Clients that train alone keep their models, so nothing is sent. Where a method has "
        "more steps than FedAvg, a part of its gain may come from that: FedAvg matched goes on "
        "until it has as many as the method with the most.",
        {"method": "{}", "steps": "{:,.0f}", "of FedAvg": "{:.2f}", "bytes_down": "{:,.0f}",
         "bytes_up": "{:,.0f}"},
        folded=True,
    ),
    tidy_experiment.Table(
        "new_clients", "Clients that came after the training",
        "Accuracy on their own test data, as for the other clients.",
        {"method": "{}", **{f"new_{name}": form for name, form in _OF_NEW.items()}}, folded=True,
    ),
    tidy_experiment.Table(
        "clusters", "Clusters",
        "Best accuracy: on the pooled test data of the cluster's clients, in any round. True "
        "groups: how many clients of each are in it. A client may be in several clusters of "
        "dynamic distance. Of many clusters, the first 100; curves.csv and clients.csv have all.",
        {
            "cluster": "{:.0f}", "clients": "{:,}", "best_accuracy": _SCORE,
            "training examples": "{:,.0f}", "true groups": "{}", "who": "{}",
        },
        by="method", is_text=True, folded=True,
    ),
    tidy_experiment.Table(
        "saved", "The method whose models are saved in the folder model",
        "Of the methods that group clients, it has the best mean on the clients' validation rows, "
        "or on their test rows where there are no others, which may be chance. Without such "
        "methods it is FedAvg.",
    ),
    tidy_experiment.Table(
        "global_models", "Global models: accuracy on the global test set",
        "Global (a): mean of all cluster models; of phase 1, its model. Weighted (b): mean "
        "weighted by the accuracy of each cluster on its clients' validation data, or by the best "
        "one that it reached on their test data where there are no others or the weights are those "
        "of the article; where the global test set is clients' own test data, (b) is too high. "
        "Blended (c): each cluster's model averaged with (a), at the clients; global blended: the "
        "mean over the clusters, or over 100 of them. results.csv has recall and precision, too.",
        {"method": "{}", **dict.fromkeys((*_GLOBAL, "blended_accuracy"), _SCORE)}, folded=True,
    ),
    tidy_experiment.Table(
        "group_recovery", "Which settings find the true groups",
        "Every representation and several numbers of local epochs. Used: 1 for what this run used. "
        "Purity: the share of clients whose group is their cluster's most frequent one.",
        {
            "representation": "{}", "epochs": "{}", "used": "{}", "ari": _SCORE, "purity": _SCORE,
        },
        by="method", folded=True,
    ),
    tidy_experiment.Table(
        "num_clusters", "Scores of the numbers of clusters",
        "Gaps between eigenvalues; chosen: 1 for the number of the largest. True groups and test "
        "data play no part.",
        {"num_clusters": "{}", "score": _SCORE, "chosen": "{}"}, folded=True,
    ),
    tidy_experiment.Table(
        "server_sees", "What the server sees",
        "Beside the models that it averages. The first row holds for all methods, the others come "
        "on top of it. Nothing in this run is differentially private. client_weights.npz holds the "
        "weights of the first row.",
        is_text=True, folded=True,
    ),
)
READING = (
    "An interval holds for all comparisons with FedAvg and with fine-tuning together, with "
    "probability 95%. Unclear: it has zero in it, or there is none, as with one client. With "
    "repeats of the training (control_repeats, method_repeats) it includes the chance in training; "
    "controls other than FedAvg are taken to vary as FedAvg does. Without, it is about these "
    "trained models only. It is about these data, this partition and this phase 1, of one seed: "
    "what other seeds would say is not known; a study tells.",
    "No interval says which method is the best of all: the highest value may be highest by chance.",
    "Controls. Local: every client trains alone from the beginning, for as many rounds as both "
    "phases have. Fine-tuned: every client goes on alone after phase 1. FedAvg: everyone trains "
    "together, for as many rounds as the methods. Ditto: every client's own model is pulled to one "
    "that all train together. FedRep: all train the layers before the last, which is each client's "
    "own. APFL: every client mixes its own model with one that all train together. MR-MTL: every "
    "client's own model is pulled to the mean of all.",
    "Methods are compared by accuracy. A model that never predicts a rare class is accurate, too: "
    "its recall is low.",
    "Where clients differ only in their shares of the labels, or in how much data they have, "
    "grouping gains little or nothing. Where fewer clients than all take part in a round, they are "
    "the same ones for every method.",
)

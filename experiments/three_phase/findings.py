"""What a run's numbers say, in words: the report's summary and its warnings.

Every sentence is computed from the run's files and claims no more than they
carry: one run has one seed, and only the difference from the control that trains
everyone together for as many rounds can be put down to a grouping, or to the local
training that overlapping clusters cost on top.
"""

import os

from experiments.three_phase import comparison


def _mean_accuracy(method_summary):
  return comparison.look_up(method_summary, ("clients", "accuracy", "mean"))


def _points(difference):
  """Returns a difference of shares in percentage points, as it is shown."""
  return round(100 * difference, 1)


def _relation(value, other):
  """Returns how `value` stands to `other`, in words."""
  points = _points(value - other)
  if points == 0:
    return "level (to a tenth of a percentage point) with"
  return f"{abs(points):.1f} percentage points {'above' if points > 0 else 'below'}"


def _best_grouping(run):
  """Returns the grouping with the highest mean client accuracy, or None."""
  methods = run.summary["methods"]
  groupings = [method for method in methods if method not in comparison.CONTROLS]
  return max(groupings, key=lambda method: _mean_accuracy(methods[method]), default=None)


def _known(*pairs):
  """Returns the pairs whose value is there."""
  return [(name, value) for name, value in pairs if value is not None]


def _overlap(run):
  """Returns the groupings whose clients train more than once a round."""
  return [g.name for g in run.groupings if run.num_memberships(g.name) > run.num_clients]


def _times_the_work(run, grouping):
  """Returns how many times the control's local trainings a grouping makes in a round."""
  return run.num_memberships(grouping) / run.num_clients


def verdict(run):
  """Returns one sentence: whether a grouping beats the FedAvg control, and at what cost."""
  methods = run.summary["methods"]
  best = _best_grouping(run)
  control = _mean_accuracy(methods.get(comparison.FEDAVG))
  if best is None:
    return "This run has no grouping, only controls."
  if control is None:
    return "This run has no FedAvg control of as many rounds: it can't say whether a grouping pays."
  points = _points(_mean_accuracy(methods[best]) - control)
  if points < 0:
    return "No grouping beats training everyone together for as many rounds in this run."
  relation = (
      "Grouping the clients beats" if points > 0 else "The best grouping is level with"
  )
  work = (
      f", with {_times_the_work(run, best):.1f} times the local training" if best in _overlap(run)
      else ""
  )
  return f"{relation} training everyone together for as many rounds in this run{work}."


def _clients_sentence(run):
  """Returns how the best grouping stands to the controls."""
  methods = run.summary["methods"]
  best = _best_grouping(run)
  controls = _known(
      ("the FedAvg control of as many rounds", _mean_accuracy(methods.get(comparison.FEDAVG))),
      ("local training", _mean_accuracy(methods.get(comparison.LOCAL))),
  )
  if best is None:
    values = " and ".join(f"{value:.3f} by {name}" for name, value in controls)
    return f"The clients' mean accuracy is {values}."
  accuracy = _mean_accuracy(methods[best])
  relations = " and ".join(
      f"{_relation(accuracy, value)} {name} ({value:.3f})" for name, value in controls
  )
  equals = [
      comparison.method_label(method) for method in methods
      if method not in comparison.CONTROLS
      and f"{_mean_accuracy(methods[method]):.3f}" == f"{accuracy:.3f}"
  ]
  subject = "groupings" if len(equals) > 1 else "grouping"
  verb = "are" if len(equals) > 1 else "is"
  sentence = (
      f"The {subject} with the highest mean client accuracy {verb} {' and '.join(equals)} "
      f"with {accuracy:.3f}" + (f": {relations}." if relations else ".")
  )
  local = _mean_accuracy(methods.get(comparison.LOCAL))
  if local is not None and all(
      _points(local - _mean_accuracy(methods[m])) > 0
      for m in methods if m != comparison.LOCAL
  ):
    sentence += " Best of all is local training, every client alone."
  return sentence


def _longer_training_sentence(run):
  """Returns what training longer alone brings, and the count of clients."""
  control = _mean_accuracy(run.summary["methods"].get(comparison.FEDAVG))
  if control is None:
    return None
  pretrain = _mean_accuracy(run.summary["pretrain"])
  sentence = (
      f"After phase 1 the clients' mean accuracy was {pretrain:.3f}; training everyone together "
      f"through phase 2 as well made it {control:.3f} ({_points(control - pretrain):+.1f} "
      "percentage points)."
  )
  best = _best_grouping(run)
  if best is None:
    return sentence
  sentence += (
      " Only what differs from that control can be put down to a grouping, and with overlapping "
      "clusters not all of that: they train more."
      if _overlap(run) else " Only what differs from that control can be put down to a grouping."
  )
  grouped = run.client_accuracy.get(("cluster", best), {})
  together = run.client_accuracy.get(("cluster", comparison.FEDAVG), {})
  differences = [grouped[c] - together[c] for c in grouped if c in together]
  if differences:
    better = sum(difference > 0 for difference in differences)
    worse = sum(difference < 0 for difference in differences)
    sentence += (
        f" Client by client, {comparison.method_label(best)} is more accurate than the control "
        f"for {better:,}, less for {worse:,} and equal for "
        f"{len(differences) - better - worse:,}."
    )
  return sentence


def _work_sentence(run):
  """Returns how much the methods train in a round; None where there is one method."""
  if not run.groupings:
    return None
  overlapping = _overlap(run)
  control = f"the {run.num_clients:,} of both controls"
  if overlapping:
    trainings = " and ".join(
        f"{comparison.method_label(name)} {run.num_memberships(name):,} local trainings, "
        f"{_times_the_work(run, name):.1f} times {control}"
        for name in overlapping
    )
    sentence = (
        "Equal rounds are not equal work here: a client trains once in each of its clusters. A "
        f"round of phase 2 is for {trainings}."
    )
  else:
    sentence = (
        "All methods have equal rounds and equal work: no client is in two clusters, and a round "
        f"of phase 2 is {run.num_clients:,} local trainings for each method."
    )
  if run.settings["clients_per_round"] is not None:
    sentence += (
        f" That is with all clients; {run.settings['clients_per_round']:,} of them take part in "
        "a round, the same for every method."
    )
  return sentence


def _global_sentence(run):
  """Returns how the global models of phase 3 compare."""
  methods = run.summary["methods"]
  best = _best_grouping(run)

  def accuracy(part, kind):
    return comparison.look_up(part, (kind, "accuracy"))

  models = _known(
      ("the model of phase 1", accuracy(run.summary["pretrain"], "global")),
      ("the FedAvg control's model", accuracy(methods.get(comparison.FEDAVG), "global_mean")),
  )
  if best is not None:
    label = comparison.method_label(best)
    models += _known(
        (f"the mean (a) of the cluster models of {label}",
         accuracy(methods[best], "global_mean")),
        ("their accuracy-weighted mean (b)", accuracy(methods[best], "global_weighted")),
        ("the blended models (c) on average", accuracy(methods[best], "global_blended")),
    )
  sentence = "Accuracy on the global test set: " + ", ".join(
      f"{name} {value:.3f}" for name, value in models
  ) + "."
  blended = comparison.look_up(
      methods.get(best), ("clients_blended", "accuracy", "mean")
  )
  if blended is not None:
    before = _mean_accuracy(methods[best])
    sentence += (
        f" Blending moves the mean accuracy on the clients' own test data from {before:.3f} "
        f"to {blended:.3f}."
    )
  return sentence


def _recovery_sentence(run):
  """Returns how well the true groups were found; None where they are unknown."""
  methods = run.summary["methods"]
  scores = [
      f"{comparison.method_label(m)} {methods[m]['adjusted_rand_index']:.3f}"
      for m in methods if "adjusted_rand_index" in methods[m]
  ]
  if not scores:
    return None
  return (
      "The true groups of the clients are known; the adjusted Rand index (1: found exactly, "
      f"0: no better than chance) is {', '.join(scores)}."
  )


def sentences(run):
  """Returns the summary's sentences after the verdict."""
  seed = run.summary["seed"]
  candidates = (
      _clients_sentence(run),
      _longer_training_sentence(run),
      _work_sentence(run),
      _global_sentence(run),
      _recovery_sentence(run),
      f"These are the numbers of one run with one seed ({seed}); how far another seed would "
      "move them can't be seen from it.",
  )
  return [sentence for sentence in candidates if sentence is not None]


def warnings(run):
  """Returns what the reader must not overlook, as (title, text) pairs."""
  found = []
  dataset = run.dataset
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
  for grouping in run.groupings:
    if grouping.warning:
      found.append((comparison.method_label(grouping.name), grouping.warning))
  aggregator = run.settings["aggregator"]
  if aggregator != "mean":
    found.append((
        f"Only phase 1 uses --aggregator={aggregator}",
        "The clusters and both controls start from the clients' own weights and average "
        "without it: a part of what they differ from phase 1 is the aggregator's.",
    ))
  return found


def privacy_notes(run):
  """Returns what the server gets to see, and what is private, as paragraphs."""
  notes = [
      "The method lets the server see every client's own model weights, in the clear, when it "
      "groups the clients. Weights can give away a client's data."
  ]
  if os.path.exists(os.path.join(run.output_dir, "client_weights.npz")):
    notes[0] += " The file client_weights.npz holds them."
  privacy = run.summary.get("privacy")
  if privacy is None:
    notes.append("Nothing in this run is differentially private.")
  else:
    relation = privacy["neighboring_relation"].replace("_", " ")
    notes.append(
        f"Differential privacy: epsilon {privacy['epsilon']:.3g} at delta "
        f"{privacy['delta']:.3g} (neighbouring data sets: {relation}). It covers "
        f"{privacy['covers']}."
    )
  return notes

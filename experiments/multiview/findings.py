"""What the experiment shows, in sentences; every number is one of the tables'."""

from experiments.multiview import cells
from experiments.multiview import simulated_dha

# Below this a difference of means says nothing.
_NOTHING = 0.005


def _compared(ours, other, what):
  difference = ours.mean - other.mean
  if abs(difference) < _NOTHING:
    return f"level with {what} ({other.mean:.3f})"
  word = "above" if difference > 0 else "below"
  return f"{abs(difference):.3f} {word} {what} ({other.mean:.3f})"


def verdict(name, results):
  """Returns one sentence on a data set with known classes; None without."""
  scores = [results.score("equal", partition, "ari") for partition in results.partitions]
  if any(score is None for score in scores):
    return None
  reached = " and ".join(
      f"{score.mean:.3f} ({partition})" for score, partition in zip(scores, results.partitions)
  )
  last = results.partitions[-1]
  ours = scores[-1]
  others = [
      _compared(ours, results.score("concatenated", last, "ari"),
                "k-means on all points and views at one place"),
      _compared(ours, results.score("single_view", last, "ari"),
                f"the best single view, {results.best_view()}"),
      _compared(ours, results.score("local_only", last, "ari"), "every client alone"),
      _compared(ours, results.score("mvkm", last, "ari"), "the paper's view weights"),
  ]
  return (
      f"{name}: federated with equal weights reaches ARI {reached}; with {last} clients that "
      f"is {', '.join(others[:-1])} and {others[-1]}."
  )


def weights_sentence(name, results, view_names):
  """Returns what the paper's weights prefer on a data set; None without known classes."""
  best = results.best_view()
  if best is None:
    return None
  weights = results.view_weights("mvkm", results.partitions[-1])
  favourite = max(range(len(weights)), key=lambda index: weights[index].mean)
  view = view_names[favourite]
  alone = results.single_view(view, "nmi").mean
  if view == best:
    return (
        f"{name}: the paper's rule gives most weight ({weights[favourite].mean:.2f}) to {view}, "
        f"which is also the best view alone (NMI {alone:.2f})."
    )
  return (
      f"{name}: the paper's rule gives most weight ({weights[favourite].mean:.2f}) to {view} "
      f"(NMI {alone:.2f} alone) and not to the best view, {best} "
      f"(NMI {results.single_view(best, 'nmi').mean:.2f}): it rewards what is easy to "
      "compress, not what shows the classes."
  )


def demonstration_sentences(results):
  """Returns what the tutorial's data show."""
  seed = simulated_dha.SOURCE_SEED
  printed = results.outcome("printed", cells.AS_GIVEN, seed)
  central = results.score("central_kmeans", cells.AS_GIVEN, "ari")
  ours = results.score("equal", cells.AS_GIVEN, "ari")
  by_size = results.outcome("printed_local_by_size", cells.AS_GIVEN, seed)
  one_view, both_views = (
      results.outcome(row, cells.AS_GIVEN, seed).ari
      for row in ("printed_local_one_view", "printed_local")
  )
  claimed = {name: ari for name, (_, ari) in simulated_dha.CLAIMS.items()}
  nmi, ari = simulated_dha.CLAIMS["Fed-MVKM"]
  return [
      f"The tutorial claims NMI {nmi} and ARI {ari} for Fed-MVKM; its printed program gives "
      f"{printed.nmi:.3f} and {printed.ari:.3f} with its seed. Plain k-means on the pooled "
      f"points gives ARI {central.mean:.3f}, where the tutorial prints "
      f"{claimed['central k-means']}: the clusters are so far apart that these data can't "
      "tell a good method from a bad one. Ours gives "
      f"{ours.mean:.3f}, which for the same reason proves nothing.",
      "The tutorial's gain over local models is that of an unweighted mean over three sites of "
      f"which one has 25 points; weighted by size, the same local models reach ARI "
      f"{by_size.ari:.3f}, which is {'above' if by_size.ari > printed.ari else 'not above'} the "
      f"printed program. Locally, it gives ARI {one_view:.3f} with the colour view alone and "
      f"{both_views:.3f} with both, where the tutorial prints {claimed['local, one view']} and "
      f"{claimed['local, both views']}.",
      "The printed program is not federated: a site draws new centers in every round and never "
      "uses those it is sent, and centers of unrelated clusters are averaged by their index. "
      "Its Laplace noise has no bounded sensitivity and no accounting: it is no differential "
      "privacy.",
  ]


def privacy_notes():
  """Returns what the server sees in our rounds."""
  return [
      "A round sends sums over the client's points for every cluster and view; one federated "
      "round is exactly one iteration over all points. The sums alone have to reach the "
      "server, which is what secure aggregation can do; this program does not include it.",
      "Before the first round each client sends the means of its own clusters of two points or "
      "more, with their numbers, which the server sees client by client. A mean of two points "
      "is weak protection.",
      "Calibrated noise on the sums, with a stated (epsilon, delta) per point, is an option of "
      "the method; it is off in this experiment.",
  ]

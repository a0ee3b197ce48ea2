"""What the benchmark's numbers say, in words; no sentence claims more than they carry."""

from experiments.private import clusterers
from experiments.private import peer_losses

_FEW_RUNS = 5


def _label(method):
  return clusterers.METHODS[method]


def _capitalized(method):
  label = _label(method)
  return label[0].upper() + label[1:]


def _cells(finished):
  return [(dataset, k) for dataset in finished.datasets for k in finished.settings["k_to_try"]]


def _wins(finished):
  """Returns in how many cells (data set, k) each private method has the least loss."""
  wins = dict.fromkeys(finished.private_methods, 0)
  for dataset, k in _cells(finished):
    losses = {
        method: finished.mean_loss(dataset, method, k) for method in finished.private_methods
    }
    wins[min(losses, key=losses.get)] += 1
  return wins


def _best_method(finished):
  """Returns the private method that has the least loss most often; None without any."""
  if not finished.private_methods:
    return None
  wins = _wins(finished)
  return max(wins, key=wins.get)


def _ratios(finished, method, other):
  return [
      finished.mean_loss(dataset, method, k) / finished.mean_loss(dataset, other, k)
      for dataset, k in _cells(finished)
  ]


def _times(ratios):
  """Returns a range of ratios in words."""
  low, high = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
  return f"{low} times" if low == high else f"{low} to {high} times"


def verdict(finished):
  """Returns one sentence: which private method has the least loss, and how often."""
  best = _best_method(finished)
  if best is None:
    return "No private method was run."
  label, num_cells = _capitalized(best), len(_cells(finished))
  if len(finished.private_methods) == 1:
    return f"{label} is the only private method that was run."
  wins = _wins(finished)[best]
  if wins == num_cells:
    return (
        f"{label} has the smallest mean loss of the {len(finished.private_methods)} private "
        "methods on every data set and for every k."
    )
  return (
      f"{label} has the smallest mean loss of the {len(finished.private_methods)} private methods "
      f"in {wins} of {num_cells} cases (data set and k)."
  )


def sentences(finished):
  """Returns what else the numbers say, most important first."""
  best = _best_method(finished)
  found = []
  if best is not None and clusterers.NOT_PRIVATE in finished.methods:
    ratios = _ratios(finished, best, clusterers.NOT_PRIVATE)
    found.append(
        f"What privacy costs: {_label(best)} has {_times(ratios)} the loss of k-means without "
        "privacy."
    )
  others = [
      f"{_times(_ratios(finished, best, method))} that of {_label(method)}"
      for method in finished.private_methods if method != best
  ]
  if others:
    found.append(f"Its loss is {' and '.join(others)}.")
  comparisons = finished.peer_comparisons()
  if comparisons:
    ratios = [comparison.ratio for comparison in comparisons]
    reached = sum(comparison.is_reached for comparison in comparisons)
    found.append(
        f"{_capitalized('refine')} has {_times(ratios)} the loss of {peer_losses.PEER}, and "
        f"reaches {reached} of {len(comparisons)} targets."
    )
  return found


def warnings(finished):
  """Returns (title, text) of what the reader must not overlook."""
  found = [(f"{name} is left out", f"{reason}.") for name, reason in finished.skipped.items()]
  runs = finished.settings["runs"]
  if runs < _FEW_RUNS:
    found.append((
        "Few runs",
        f"Every mean is over {runs} {'run' if runs == 1 else 'runs'}: small differences and the "
        "bands say little. The source's benchmarks had 20.",
    ))
  return found


def notes(finished):
  """Returns what the comparison does and does not show, in sentences."""
  found = [
      "Nothing in this folder is private: losses are computed exactly, and the noise is seeded, "
      "so that the benchmark can be repeated.",
      "Data sets other than the synthetic one are centred by their mean and divided by their "
      "largest norm, which is not private either; the methods take the resulting radius of 1 "
      "as public.",
      "scikit-learn's k-means is the best of ten starts. It knows no privacy and shows what is "
      "there to be reached.",
  ]
  if "diffprivlib" in finished.methods:
    found.append(
        "IBM diffprivlib is compared at the same epsilon with delta = 0, which is stricter than "
        "what the other methods promise. The bound on coordinates that it asks for is the exact "
        "one of the data."
    )
  found.append(
      "dp-clustering-icml17 (Balcan et al., ICML 2017), which the source's benchmarks have too, "
      "is left out: it is for pure epsilon, with delta = 0."
  )
  return found

"""The sentences of a report: what the losses show, and what to know when reading them."""

from __future__ import annotations

import statistics

from experiment_shell import report_sections
from experiments.private import methods
from experiments.private import results as results_lib

_FEW_RUNS = 5


def _capitalized(method: str) -> str:
  return report_sections.capitalized(methods.LABELS[method])


def _cases(results: results_lib.Results) -> list[tuple[str, int]]:
  return [(dataset, k) for dataset in results.datasets for k in results.settings["k_to_try"]]


def _wins(results: results_lib.Results) -> dict[str, int]:
  """Returns how often (over data sets and k) each method has the smallest private loss.

  The federated forms of a method compete only where no central method was run.
  """
  wins = dict.fromkeys(results.central_methods or results.private_methods, 0)
  for dataset, k in _cases(results) if wins else ():
    wins[min(wins, key=lambda method: results.loss(dataset, method, k))] += 1
  return wins


def verdict(results: results_lib.Results) -> str:
  """Returns one sentence: which private method has the smallest loss, and how often."""
  wins = _wins(results)
  if not wins:
    return "No private method was run."
  best = max(wins, key=lambda method: wins[method])
  kind = "central private" if results.central_methods else "private"
  if len(wins) == 1:
    return f"{_capitalized(best)} is the only {kind} method that was run."
  num_cases = len(_cases(results))
  if wins[best] == num_cases:
    where = "on every data set and for every k"
  else:
    where = f"in {wins[best]} of {num_cases} cases (data set and k)"
  return (
      f"{_capitalized(best)} has the smallest mean loss of the {len(wins)} {kind} methods "
      f"{where}."
  )


def price(results: results_lib.Results) -> str | None:
  """Returns one sentence: what privacy costs the best method; None if it can't be said."""
  wins = _wins(results)
  if not wins or methods.NOT_PRIVATE not in results.methods:
    return None
  best = max(wins, key=lambda method: wins[method])
  ratios = [
      results.loss(dataset, best, k) / results.loss(dataset, methods.NOT_PRIVATE, k)
      for dataset, k in _cases(results)
  ]
  low, high = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
  times = low if low == high else f"{low} to {high}"
  return (
      f"The cost of privacy: {methods.LABELS[best]} has {times} times the loss of k-means "
      "without privacy."
  )


def lost_cases(
    results: results_lib.Results,
) -> list[tuple[str, int, float, str, float, float]]:
  """Returns the private cases in which another central method has a smaller mean loss than ours.

  Each is (data set, k, epsilon, best method, its loss, our loss).
  """
  found = []
  for case in results.private_cases if results_lib.COMPARED in results.methods else ():
    dataset, k, epsilon = case
    losses = {m: results.loss(dataset, m, k, epsilon) for m in results.central_methods}
    best = min(losses, key=lambda m: losses[m])
    if losses[best] < losses[results_lib.COMPARED]:
      found.append((*case, best, losses[best], losses[results_lib.COMPARED]))
  return found


def new_data(results: results_lib.Results) -> str | None:
  """Returns one sentence: how often our method is the best on new data; None without any."""
  if results_lib.COMPARED not in results.methods or len(results.central_methods) < 2:
    return None
  cases = [case for case in results.private_cases if results.datasets[case[0]]["is_new"]]
  if not cases:
    return None
  num_won = len(set(cases) - {case[:3] for case in lost_cases(results)})
  num_datasets = len({dataset for dataset, _, _ in cases})
  return (
      f"On the {num_datasets} data {'set' if num_datasets == 1 else 'sets'} never used to choose "
      "its constants, "
      f"{methods.LABELS[results_lib.COMPARED]} has the smallest mean loss of these methods in "
      f"{num_won} of {len(cases)} cases (data set, k and epsilon)."
  )


def federation(results: results_lib.Results) -> list[str]:
  """Returns sentences: what the federated forms lose against the central one."""
  if results_lib.COMPARED not in results.methods:
    return []
  sentences = []
  for method in results.methods:
    if method in methods.FEDERATED:
      ratios = [
          results.loss(dataset, method, k, epsilon)
          / results.loss(dataset, results_lib.COMPARED, k, epsilon)
          for dataset, k, epsilon in results.private_cases
      ]
      sentences.append(
          f"{_capitalized(method)}: {min(ratios):.2f} to {max(ratios):.2f} times the mean loss of "
          f"central {methods.LABELS[results_lib.COMPARED]}, {statistics.median(ratios):.3f} in the "
          "median."
      )
  return sentences


def warnings(results: results_lib.Results) -> list[tuple[str, str]]:
  """Returns (title, text) of what the reader must not overlook."""
  found = [(f"{name} is left out", f"{reason}.") for name, reason in results.skipped.items()]
  runs = results.settings["runs"]
  if runs < _FEW_RUNS:
    found.append((
        "Few runs",
        f"Every mean is over {runs} {'run' if runs == 1 else 'runs'}: small differences and the "
        "percentiles say little. The source's benchmarks had 20.",
    ))
  return found


def notes(results: results_lib.Results) -> list[str]:
  """Returns what the comparison shows and what is private, in sentences."""
  found = [
      "Nothing in this folder is private: losses are computed exactly, and the noise is "
      "seeded, for benchmarks only.",
      "All data sets but the synthetic ones are centered at their mean and divided by their "
      "largest norm, which is not private either. The methods treat the resulting radius of 1 "
      "as public.",
      "scikit-learn's k-means is the best of ten starts. It has no privacy and shows what could "
      "be reached.",
  ]
  if "diffprivlib" in results.methods:
    found.append(
        "IBM diffprivlib runs at the same epsilon with delta = 0, which is stricter than what "
        "the other methods promise. It needs a bound on the coordinates and gets the exact one "
        "of the data. In version 0.6.6, it exchanges the parts of its budget for counts and for "
        "coordinates, so that in d > 4 dimensions it spends more than its epsilon: 1.4 times as "
        "much in 16, 2.7 times in 100. The comparison favors it there."
    )
  if any(name in methods.FEDERATED for name in results.methods):
    found.append(
        "The federated methods are split and refine on secure sums over the clients. "
        "Where privacy is for a point, they find the same centers as the central form with the "
        "same noise, bit for bit; here every run has its own noise. Data without clients are "
        "split at random."
    )
  if any(one["unit_points"] > 1 for one in results.datasets.values()):
    found.append(
        "Where privacy is for a client, the central methods get the epsilon of one point at "
        "which all points of a client together have the stated epsilon. Their noise grows with "
        "the number of points. The federated methods bound the sums of a client as a whole, and "
        "their noise grows with its root."
    )
  found.append(
      "dp-clustering-icml17 (Balcan et al., ICML 2017), which Google's benchmarks include, "
      "is left out: it is for pure epsilon, with delta = 0."
  )
  return found

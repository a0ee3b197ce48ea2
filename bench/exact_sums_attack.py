"""Names rows from the exact totals of fits: what secure sums alone don't hide.

  bazel run bench:exact_sums_attack -- --csv=attack.csv

The fits are real ones, of scikit-learn's data with standardised columns; all other settings are the
defaults.  What the server asks and the totals that it gets are recorded, and `rows_from_sums` names
rows from these and the scaling, which is the server's.  A fit for several K
is one for each, and the attack has the questions of all.  Of a client attacked by itself, it has
the client's own totals, as without a secure sum.  Afterwards the named rows are compared with the
real ones: a row is right if it is one of them, on the grid of the fit, which has 2^25 steps to its
radius.  The ceiling is how many rows are linear combinations of the sums.
"""

import collections
import dataclasses
import time
from typing import Any, Sequence
from unittest import mock

from absl import flags
import numpy as np
from sklearn import datasets

from bench import rows_from_sums
from clustering_basics import atomic_file
from clustering_basics import validate
from dp_clustering import sum_query
from experiment_shell import launch
from experiment_shell import output_folder
from experiment_shell import path_flag
from fl_clustering import kmeans as kmeans_lib
from fl_clustering import multiview as multiview_lib
from fl_clustering.points import secure_sums

_SEEDS = flags.DEFINE_integer(
    "seeds", 3, "Runs of every fit, of other seeds and splits over the clients.", lower_bound=1)
_ONLY = flags.DEFINE_string(
    "only", "", "Attacks only fits whose names contain this text. Default: all.")
path_flag.define_output("csv", "File for the table, as CSV. Default: no file.")

_LOADERS = {
    "wine": lambda: datasets.load_wine().data,
    "wine / 7": lambda: datasets.load_wine().data / 7,  # Of many decimals.
    "breast cancer": lambda: datasets.load_breast_cancer().data,
}
_HEADER = ("fit", "seed", "named", "right", "false", "ceiling", "of")


@dataclasses.dataclass(frozen=True)
class _Case:
  """A fit that is attacked.

  Attributes:
    data: A key of `_LOADERS`.
    num_clusters: All that are tried.
    view_widths: The views' numbers of columns; empty for k-means.
    num_attacked: Of the clients, so many are attacked one by one; zero for all together.
  """

  data: str
  num_clusters: Sequence[int]
  num_clients: int
  view_widths: tuple[int, ...] = ()
  num_attacked: int = 0

  @property
  def name(self) -> str:
    widths = " + ".join(map(str, self.view_widths))
    kind = f"multi-view, {self.data} as {widths} columns" if widths else f"k-means, {self.data}"
    first, last = self.num_clusters[0], self.num_clusters[-1]
    k = f"K {first}" if first == last else f"K {first} to {last}"
    if not self.num_attacked:
      return f"{kind}, {k}, {self.num_clients} clients"
    return f"{kind}, {k}, {self.num_attacked} of {self.num_clients} clients, one by one"


_CASES = (
    _Case("wine", [3], 10, view_widths=(6, 7)),
    _Case("breast cancer", [2], 10, view_widths=(10, 20)),
    _Case("wine", [3], 10),
    _Case("wine", range(2, 9), 3),
    _Case("breast cancer", [2], 10),
    _Case("breast cancer", range(2, 11), 10),
    _Case("wine", [3], 10, num_attacked=5),
    _Case("wine / 7", [3], 10),
)


@dataclasses.dataclass(frozen=True, eq=False)
class _Record:
  """One question, and its totals at those who are attacked.

  Attributes:
    scaling: To the coordinates of the question.
    totals: Of all clients together, or by client.
  """

  scaling: secure_sums.Scaling
  query: sum_query.SumQuery
  totals: dict[str, np.ndarray]


def _recording(records: list[_Record], attacked: Sequence[str]) -> Any:
  """Returns a context in which `FederatedPoints` records what it is asked without `privacy`.

  Args:
    attacked: Clients whose own totals are recorded; those of all together if there is none.
  """
  totals_of = secure_sums.FederatedPoints.totals

  def totals(points: Any, query: sum_query.SumQuery) -> np.ndarray:
    total = totals_of(points, query)
    by_client = {}
    for client_id in attacked:
      own = dataclasses.replace(points.clients, by_id={client_id: points.clients.by_id[client_id]})
      by_client[client_id] = totals_of(dataclasses.replace(points, clients=own), query)
    records.append(_Record(points.clients.scaling, query, by_client or {"": total}))
    return total

  return mock.patch.object(secure_sums.FederatedPoints, "totals", totals)


def _fit(case: _Case, clients: dict[str, np.ndarray], seed: int) -> None:
  for k in case.num_clusters:
    if case.view_widths:
      ends = np.cumsum(case.view_widths)[:-1]
      views = {client_id: np.split(own, ends, axis=1) for client_id, own in clients.items()}
      multiview_lib.FederatedMultiViewKMeans(
          k, compute_labels=False, random_state=seed
      ).fit(views)
    else:
      kmeans_lib.FederatedKMeans(
          k, standardize=True, compute_labels=False, random_state=seed
      ).fit(clients)


def _on_one_grid(records: Sequence[_Record]) -> list[_Record]:
  """Returns the records in the coordinates of most."""
  groups = collections.defaultdict(list)
  for record in records:
    groups[record.scaling.shift.tobytes(), record.scaling.factor.tobytes()].append(record)
  return max(groups.values(), key=len)


def _num_right(named: np.ndarray, rows: np.ndarray) -> int:
  """Returns how many of the named rows are among rows (n, d), each of which counts once."""
  real = collections.Counter(map(tuple, rows.tolist()))
  return (collections.Counter(map(tuple, named.tolist())) & real).total()


def _attack(case: _Case, seed: int) -> tuple[int, int, int, int]:
  """Returns how many rows are named, how many of these are right, the ceiling, and all rows."""
  rows = np.random.default_rng(seed).permutation(_LOADERS[case.data]())
  shares = np.array_split(rows, case.num_clients)
  clients = {f"client {index}": share for index, share in enumerate(shares)}
  attacked = list(clients)[: case.num_attacked]
  records: list[_Record] = []
  with _recording(records, attacked):
    _fit(case, clients, seed)
  records = _on_one_grid(records)
  scaling = records[0].scaling
  counts = np.zeros(4, int)
  for client_id in attacked or [""]:
    questions = [
        rows_from_sums.Question(record.query, record.totals[client_id]) for record in records
    ]
    named = rows_from_sums.named_rows(questions, scaling)
    real = np.rint(scaling.apply(clients[client_id] if attacked else rows)).astype(np.int64)
    ceiling = rows_from_sums.are_determined(questions, real).sum()
    counts += [len(named), _num_right(named, real), ceiling, len(real)]
  return tuple(counts.tolist())


def main() -> None:
  with launch.input_errors():
    cases = [case for case in _CASES if _ONLY.value in case.name]
    if not cases:
      raise validate.error("only", "be a part of a fit's name", _ONLY.value)
  results = []
  print(f"{'':61} {'seed':>4} {'named':>5} {'right':>5} {'false':>5} "
        f"{'ceiling':>7} {'of':>4} {'s':>6}")
  for case in cases:
    for seed in range(_SEEDS.value):
      start = time.perf_counter()
      named, right, ceiling, num_rows = _attack(case, seed)
      seconds = time.perf_counter() - start
      print(f"{case.name:61} {seed:4} {named:5} {right:5} {named - right:5} {ceiling:7} "
            f"{num_rows:4} {seconds:6.1f}", flush=True)
      results.append([case.name, seed, named, right, named - right, ceiling, num_rows])
      if flags.FLAGS.csv is not None:
        atomic_file.write_text(flags.FLAGS.csv, output_folder.csv_text(_HEADER, results))


if __name__ == "__main__":
  launch.run(main)

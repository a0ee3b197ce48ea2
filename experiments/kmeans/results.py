"""What the measurements come to, by data and method."""

from experiment_shell import scores
from experiments.kmeans import methods


class Results:
  """The study's rows, read by what they are about."""

  def __init__(self, rows):
    self._rows = {(row["data"], row["method"], row["seed"]): row for row in rows}
    self.seeds = sorted({row["seed"] for row in rows})

  def has(self, data, method):
    return any((data, method, seed) in self._rows for seed in self.seeds)

  def _values(self, data, method, read):
    found = [self._rows.get((data, method, seed)) for seed in self.seeds]
    return [read(row) for row in found if row is not None]

  def score(self, data, method, name):
    """Returns the `Spread` of a measured value over the seeds, or None."""
    return scores.summarize(self._values(data, method, lambda row: row[name]))

  def excess(self, data, method):
    """Returns the `Spread` of inertia / central inertia - 1 in percent, or None."""
    return scores.summarize(self.excesses(data, method))

  def excesses(self, data, method):
    """Returns inertia / central inertia - 1 in percent, seed by seed."""
    return self._values(
        data, method,
        lambda row: 100 * (
            row["inertia"] / self._rows[data, methods.CENTRAL, row["seed"]]["inertia"] - 1
        ),
    )

  def ari_by_round(self, data, method):
    """Returns a `Spread` per round, up to the last of any seed; fits that ended stay."""
    # A single number was read back as one.
    paths = [
        [float(text) for text in str(value).split()]
        for value in self._values(data, method, lambda row: row["ari_by_round"])
        if value is not None
    ]
    longest = max(map(len, paths), default=0)
    return [
        scores.summarize([path[min(index, len(path) - 1)] for path in paths])
        for index in range(longest)
    ]

  def summary(self):
    """Returns all scores as numbers: by data and method."""
    found = {}
    for data, method in dict.fromkeys((data, method) for data, method, _ in self._rows):
      scores = {
          name: self.score(data, method, name)
          for name in ("ari", "client_ari", "inertia", "silhouette", "simplified_silhouette")
      }
      scores["inertia_excess_percent"] = self.excess(data, method)
      found.setdefault(data, {})[method] = {
          name: {"mean": s.mean, "sd": s.sd, "seeds": s.count}
          for name, s in scores.items() if s is not None
      }
    return found

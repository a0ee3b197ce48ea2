"""A number that was measured with several seeds: its mean, and how far it spreads."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Spread:
  """What the values come to.

  Attributes:
    mean: Their mean.
    sd: Their standard deviation, n - 1 in the denominator; zero for one value.
    low: Their 25th percentile.
    high: Their 75th percentile.
    count: How many they are.
  """

  mean: float
  sd: float
  low: float
  high: float
  count: int

  def text(self, form=".3f"):
    """Returns mean and standard deviation as they are shown; the mean alone if it is one."""
    mean = format(self.mean, form)
    return f"{mean} ± {format(self.sd, form)}" if self.count > 1 else mean


def spread(values):
  """Returns the `Spread` of the values that are not None; None if there are none."""
  values = [value for value in values if value is not None]
  if not values:
    return None
  return Spread(
      mean=float(np.mean(values)),
      sd=float(np.std(values, ddof=1)) if len(values) > 1 else 0.0,
      low=float(np.percentile(values, 25)),
      high=float(np.percentile(values, 75)),
      count=len(values),
  )

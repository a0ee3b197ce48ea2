"""Whether a method is better than the control, as an interval.

A difference between two trained models has two sources of chance.  The clients and their
test data are a sample: with few examples each, the mean difference varies with them.  And
training is random: the same method trained again, with the clients' examples in another
order, gives another model.  Trained together for a few rounds, two models of one and the
same method often differ by more than the clients' sample explains.  So the interval adds up
the variances of the sample, of the control's training and of the method's.  The last two come
from repeating both (`repeats.py`).  They are not pooled: a method may vary several times as much
as the control, which few repeats can't rule out.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Sequence

import numpy as np

from clustering_basics import intervals

# Equal differences come out this close to each other, relative to what is compared.
_ROUNDING = 1e-9


@dataclasses.dataclass(frozen=True)
class Gain:
  """How much more accurate a method is than the control.

  Attributes:
    mean: The mean over the clients of their difference, positive where the method is better.
    low: Lower end of its interval; NaN where there is no telling.
    high: Upper end of its interval; NaN where there is no telling.
    detectable: The least true difference that such an interval leaves out zero for in four of
      five runs; NaN where there is no telling.
  """

  mean: float
  low: float
  high: float
  detectable: float


def gain(
    differences: np.ndarray, control: Sequence[float], method: Sequence[float],
    num_comparisons: int,
) -> Gain:
  """Returns the `Gain` of a method.

  Args:
    differences: Per client by how much it fares better under the method than under the control, of
      shape (N,).  If they are all the same and not zero, as few test examples make it happen, there
      is no telling how much they vary.
    control: The clients' mean accuracy under the control, trained several times; with fewer than
      two values, the interval is about the two models that were trained, not about their methods.
    method: The same under the method; with fewer than two values it is taken to vary as much as
      the control.
    num_comparisons: How many methods are compared with the control.  The intervals of all
      of them hold at once with probability `intervals.LEVEL`.
  """
  mean, num_clients = float(np.mean(differences)), len(differences)
  rounding = _ROUNDING * max(map(abs, [*control, *method]), default=1.0)
  differ = np.ptp(differences) > rounding
  if num_clients < 2 or (not differ and abs(mean) > rounding):
    return Gain(mean, math.nan, math.nan, math.nan)
  parts = [(np.var(differences, ddof=1) / num_clients, num_clients - 1)]
  if len(control) > 1:
    # Both models were drawn once.
    of_control, degrees = np.var(control, ddof=1), len(control) - 1
    if len(method) > 1:
      parts += [(of_control, degrees), (np.var(method, ddof=1), len(method) - 1)]
    else:
      parts.append((2 * of_control, degrees))
  low, high = intervals.interval(mean, parts, num_comparisons)
  if np.isnan(low):  # There is no difference, nor any chance.
    return Gain(mean, mean, mean, 0.0)
  detectable = intervals.detectable(parts, num_comparisons)
  return Gain(mean, max(low, -1.0), min(high, 1.0), detectable)

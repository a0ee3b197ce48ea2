"""Audits the private releases: do they leak more than epsilon? Are bugs found?

  bazel run experiments/benchmarks:privacy_audit -- --num_runs=20000

Every mechanism runs many times on two data sets that differ in one point.  What the
outputs tell about the point gives a lower bound on the mechanism's epsilon (see
`epsilon_lower_bound`).  The bound of a real mechanism must not exceed the epsilon it
claims, that of a planted bug must; otherwise the program ends with code 1.

The default delta is larger than one would choose for people.  The events that tell
most about a mechanism are about as frequent as delta: at 1e-6, there is nothing to
count.  The audited code is the same.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

from absl import flags
import numpy as np
import tqdm

from clustering_basics import validate
from dp_clustering import noise
from experiments.benchmarks import audited_mechanisms
from experiments.benchmarks import epsilon_lower_bound

_NUM_RUNS = flags.DEFINE_integer(
    "num_runs", 20_000, "Runs of every mechanism on each of the two data sets.",
    lower_bound=2)
_EPSILON = flags.DEFINE_float("epsilon", 1.0, "The epsilon that is claimed.")
_DELTA = flags.DEFINE_float("delta", 0.01, "The delta that is claimed.")
_ERROR_RATE = flags.DEFINE_float(
    "error_rate", 1e-4, "Probability, at most, that a correct mechanism is accused.")
_SEED = flags.DEFINE_integer(
    "seed", None, "Seed of the noise, which makes the audit repeatable. Default: secure noise, as "
    "in real use, which is slower.", lower_bound=0)


def _audit(name, case, budget, source):
  """Returns the `EpsilonLowerBound` of a case."""
  with tqdm.tqdm(total=2 * _NUM_RUNS.value, desc=name, leave=False, disable=None) as bar:
    scores = []
    for run in (case.run_without, case.run_with):
      scores.append(np.empty(_NUM_RUNS.value))
      for i in range(_NUM_RUNS.value):
        scores[-1][i] = run(source, budget)
        bar.update()
  return epsilon_lower_bound.epsilon_lower_bound(
      *scores, budget.delta, _ERROR_RATE.value)


def main():
  with launch.input_errors():
    validate.between(0, 1, error_rate=_ERROR_RATE.value)
    validate.between(0, 1, delta=_DELTA.value)
    validate.positive(epsilon=_EPSILON.value)
  budget = audited_mechanisms.Budget(_EPSILON.value, _DELTA.value)
  source = noise.build_noise_source(budget.epsilon, _SEED.value)
  print(f"claimed: epsilon {budget.epsilon:g} at delta {budget.delta:g}; noise "
        f"{source.description}; {_NUM_RUNS.value} runs on each of two data sets, half of "
        f"them to choose the event; confidence {1 - _ERROR_RATE.value:.9g}")
  leaking, overlooked = [], []
  for name, case in audited_mechanisms.CASES.items():
    found = _audit(name, case, budget, source)
    print(f"{name:33} epsilon >= {found.epsilon:.3f}  "
          f"({'planted bug' if case.has_bug else 'real'}; {found.event}: "
          f"{found.more_often} against {found.less_often} of {found.num_runs})", flush=True)
    if found.epsilon > budget.epsilon and not case.has_bug:
      leaking.append(name)
    if found.epsilon <= budget.epsilon and case.has_bug:
      overlooked.append(name)
  if leaking:
    raise launch.RunFailed(f"more is leaked than claimed: {'; '.join(leaking)}.")
  if overlooked:
    raise launch.RunFailed(
        f"planted bugs not found, which takes more runs: {'; '.join(overlooked)}.")


if __name__ == "__main__":
  launch.run(main)

"""Audits the private releases: do they leak more than epsilon? Are bugs found?

  bazel run bench:privacy_audit
  bazel run bench:privacy_audit -- --num_audits=20 --seed=1
  bazel run bench:privacy_audit -- --only="federated fit"

Every mechanism, from a single count to a whole call or a whole fit of a federation, runs many
times on two data sets.  They differ in one point, or in all points of one client where that is
what is protected.  An audit looks at the runs in two ways.  How well the outputs tell the data sets
apart gives a lower bound on the mechanism's epsilon (`epsilon_lower_bound`), which must not exceed
the claim.  And the noise itself must be as large as stated and independent everywhere
(`noise_residuals`), which the bound takes for granted.  No audit may accuse a real mechanism, and
95% of the audits have to accuse a planted bug.  Otherwise the program ends with code 1.

The default delta is far larger than one would choose for people.  The events that tell
most about a mechanism are about as frequent as delta: at 1e-6, there is nothing to
count.  At 0.3, a few thousand runs find noise that is 0.8 of what it should be.  The audited
code is the same.
"""

from typing import Any, Callable, Mapping

from absl import flags
import numpy as np
import tqdm

from bench import audited_mechanisms
from bench import epsilon_lower_bound
from bench import noise_residuals
from clustering_basics import validate
from dp_clustering import clustering_params
from dp_clustering import noise
from experiment_shell import launch

_NUM_RUNS = flags.DEFINE_integer(
    "num_runs", 8_000, "Runs of every mechanism on each of the two data sets, in each audit.",
    lower_bound=4)
_NUM_AUDITS = flags.DEFINE_integer(
    "num_audits", 1, "Audits of every mechanism, to count how often bugs are found.",
    lower_bound=1)
_ONLY = flags.DEFINE_string(
    "only", "", "Audits only mechanisms whose names contain this text. Default: all.")
_EPSILON = flags.DEFINE_float("epsilon", 1.0, "The epsilon that is claimed.")
_DELTA = flags.DEFINE_float("delta", 0.3, "The delta that is claimed.")
_ERROR_RATE = flags.DEFINE_float(
    "error_rate", 1e-4,
    "Probability, at most, that an audit accuses a correct mechanism in one of the two ways: by "
    "its bound on epsilon, or by the residuals of its noise.")
_SEED = flags.DEFINE_integer(
    "seed", None, "Seed of the noise, which makes the audit repeatable. Default: secure noise, as "
    "in real use, which is slower.", lower_bound=0)

# Share of the audits in which a planted bug has to be found.
_LEAST_POWER = 0.95


def _audit(
    name: str,
    case: Any,
    budget: clustering_params.DifferentialPrivacyParam,
    source: noise.Source,
) -> tuple[epsilon_lower_bound.EpsilonLowerBound, noise_residuals.Suspicion]:
  scores, residuals = np.empty((2, _NUM_RUNS.value)), []
  with tqdm.tqdm(total=scores.size, desc=name, leave=False, disable=None) as bar:
    for side, of_side in enumerate(scores):
      for i in range(_NUM_RUNS.value):
        of_side[i], of_run = case.run(bool(side), source, budget)
        residuals.append(of_run)
        bar.update()
  bound = epsilon_lower_bound.epsilon_lower_bound(
      scores[0], scores[1], budget.delta, _ERROR_RATE.value)
  return bound, noise_residuals.most_suspicious(residuals)


def _accusations(
    name: str,
    case: Any,
    kind: str,
    budget: clustering_params.DifferentialPrivacyParam,
    source: noise.Source,
) -> float:
  """Audits a case, prints what was found, and returns the share of audits that accuse it."""
  found = [_audit(name, case, budget, source) for _ in range(_NUM_AUDITS.value)]
  is_above = [bound.epsilon > budget.epsilon for bound, _ in found]
  is_wrong = [suspicion.p_value < _ERROR_RATE.value for _, suspicion in found]
  middle = sorted((bound for bound, _ in found), key=lambda bound: bound.epsilon)[len(found) // 2]
  worst = min((suspicion for _, suspicion in found), key=lambda suspicion: suspicion.p_value)
  print(f"{name:48} epsilon >= {middle.epsilon:.3f}  ({kind}; {middle.event}: "
        f"{middle.more_often} against {middle.less_often} of {middle.num_runs}; above "
        f"the claim in {sum(is_above)} of {len(found)}); noise not as stated in {sum(is_wrong)} of "
        f"{len(found)} (least p {worst.p_value:.2g}, {worst.what})", flush=True)
  return sum(map(any, zip(is_above, is_wrong))) / len(found)


def _chosen(cases: Mapping[str, Callable[[], Any]]) -> dict[str, Callable[[], Any]]:
  return {name: build for name, build in cases.items() if _ONLY.value in name}


def main() -> None:
  with launch.input_errors():
    mechanisms = _chosen(audited_mechanisms.MECHANISMS)
    planted_bugs = _chosen(audited_mechanisms.PLANTED_BUGS)
    if not mechanisms and not planted_bugs:
      raise validate.error("only", "be part of a mechanism's name", _ONLY.value)
    validate.between(0, 1, error_rate=_ERROR_RATE.value)
    validate.positive(epsilon=_EPSILON.value)
    budget = clustering_params.DifferentialPrivacyParam(_EPSILON.value, _DELTA.value)
  source = noise.build_noise_source(budget.epsilon, _SEED.value)
  print(f"claimed: epsilon {budget.epsilon:g} at delta {budget.delta:g}; noise "
        f"{source.description}; {_NUM_RUNS.value} runs on each of two data sets, a quarter of "
        f"them to choose the event; confidence {1 - _ERROR_RATE.value:.9g}; medians of "
        f"{_NUM_AUDITS.value}")
  leaking = [
      name for name, build in mechanisms.items()
      if _accusations(name, build(), "real", budget, source) > 0
  ]
  overlooked = [
      name for name, build in planted_bugs.items()
      if _accusations(name, build(), "planted bug", budget, source) < _LEAST_POWER
  ]
  if leaking:
    raise launch.RunFailed(f"more is leaked than claimed: {'; '.join(leaking)}.")
  if overlooked:
    raise launch.RunFailed(
        f"planted bugs not found, which takes more runs: {'; '.join(overlooked)}.")


if __name__ == "__main__":
  launch.run(main)

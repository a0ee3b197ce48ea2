"""Audits whole runs of private clusters: is more leaked than the ledger says?  Are bugs found?

  bazel run bench:private_clusters_audit
  bazel run bench:private_clusters_audit -- --engine=jax --num_runs=50 --only="server's noise"

A client of a small federation is watched through whole runs: grouping, rounds and report
(`audited_clusters` says what is looked at).  No real run may be accused, and every planted bug has
to be.  Otherwise, or if there were too few runs to see half of what a run may cost, the program
ends with code 1.
"""

import contextlib
import dataclasses
import functools
import tempfile
from typing import Any

from absl import flags
import tqdm

from bench import audited_clusters
from bench import watched_clusters
from clustering_basics import validate
from experiment_shell import launch
from fl_clustering import runtime
from fl_clustering.engine import engines

_ENGINE = flags.DEFINE_enum(
    "engine", None, list(engines.ENGINES), "What the clients compute with. Default: what is usual "
    "in this Python.")
_NUM_RUNS = flags.DEFINE_integer(
    "num_runs", 400, "Real runs with the canary, and as many without it.", lower_bound=2)
_NUM_PLANTED = flags.DEFINE_integer(
    "num_planted", 40, "The same with a planted bug that is not found otherwise.", lower_bound=2)
_ONLY = flags.DEFINE_string(
    "only", "", "Audits only what has this text in its name. Default: all.")
_ERROR_RATE = flags.DEFINE_float(
    "error_rate", 0.01, "Probability that mu is outside of its confidence bounds.")
_SEED = flags.DEFINE_integer(
    "seed", None, "Seed of the noise, which makes the audit repeatable. Default: secure noise, as "
    "in real use.", lower_bound=0)

_WIDTH = 44


def _repeated(name: str, case: Any, build: Any, num_runs: int) -> Any:
  with tqdm.tqdm(total=2 * num_runs, desc=name, leave=False, disable=None) as bar:
    return case.repeated(build, num_runs, _ERROR_RATE.value, bar.update)


def _audit(
    engine: str, name: str, case: Any, num_runs: int, is_planted: bool
) -> tuple[list[str], bool]:
  """Audits a case and prints a row; returns what accuses it, and whether there were enough runs."""
  case = dataclasses.replace(case, seed=_SEED.value)
  with tempfile.TemporaryDirectory() as folder:
    build = functools.partial(watched_clusters.build_sums, engine, folder, case.settings)
    replayed = case.replayed(build)
    found = audited_clusters.accusations(case.mu, replayed)
    is_enough, of_runs = True, ""
    if not (is_planted and found):
      repeated = _repeated(name, case, build, num_runs)
      bounds, suspicion = repeated.bounds, repeated.suspicion
      found += audited_clusters.accusations(case.mu, repeated)
      is_enough = is_planted or bounds.upper >= case.mu / 2
      of_runs = (
          f"; mu {bounds.mu:.2f}, in [{bounds.lower:.2f}, {bounds.upper:.2f}] by {num_runs} runs "
          f"with the client and {num_runs} without; noise: p {suspicion.p_value:.2g}, "
          f"{suspicion.what}"
      )
  print(
      f"{name:{_WIDTH}} {'accused by ' + ' and '.join(found) if found else 'nothing found'}: "
      f"{len(replayed.dependent)} of {replayed.num_releases} sums depend on the client, "
      f"{replayed.num_clients} of which cost at most {replayed.cost:.7g} of the ledger's mu "
      f"({replayed.costly}){of_runs}", flush=True)
  return found, is_enough


def main() -> None:
  with launch.input_errors():
    cases = {name: one for name, one in audited_clusters.CASES.items() if _ONLY.value in name}
    bugs = {name: one for name, one in audited_clusters.PLANTED_BUGS.items() if _ONLY.value in name}
    if not cases and not bugs:
      raise validate.error("only", "be part of a name", _ONLY.value)
    validate.between(0, 1, error_rate=_ERROR_RATE.value)
    engine = _ENGINE.value or engines.usual()
    engines.check_installed(engine)
  leaking, overlooked, unclear = [], [], []
  planted = audited_clusters.PLANTED
  print(f"A run on {engine} may cost mu = {planted.mu:.3f}; confidence "
        f"{1 - _ERROR_RATE.value:.9g}; noise "
        f"{'secure' if _SEED.value is None else f'seeded with {_SEED.value}'}")
  with runtime.LocalRuntime() if engine == engines.TFF else contextlib.nullcontext():
    for name, case in cases.items():
      found, is_enough = _audit(engine, name, case, _NUM_RUNS.value, is_planted=False)
      leaking += [name] * bool(found)
      unclear += [name] * (not is_enough)
    for name, bug in bugs.items():
      with bug(watched_clusters.sums_type(engine)):
        found, _ = _audit(engine, name, planted, _NUM_PLANTED.value, is_planted=True)
      overlooked += [name] * (not found)
  if leaking:
    raise launch.RunFailed(f"more is leaked than claimed: {'; '.join(leaking)}.")
  if overlooked:
    raise launch.RunFailed(
        f"planted bugs not found, which takes more runs: {'; '.join(overlooked)}.")
  if unclear:
    raise launch.RunFailed(f"half of the claim is not seen: {'; '.join(unclear)}.")


if __name__ == "__main__":
  launch.run(main)

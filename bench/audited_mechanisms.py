"""Mechanisms to audit: releases, compositions, whole calls and fits, and planted bugs.

A mechanism is a function of a `Run`.  It spends the run's budget on releases of the run's points
and returns a score: a number that tells the two data sets apart as well as possible.  A further
mechanism is one more row of `MECHANISMS`.
"""

import dataclasses
import functools
import math
import types
from typing import Any, Callable
from unittest import mock

import numpy as np

from bench import audited_federation
from bench import audited_sums
from dp_clustering import clustering
from dp_clustering import clustering_params
from dp_clustering import coreset
from dp_clustering import ledger as privacy_ledger
from dp_clustering import noise
from dp_clustering import privacy_calculator
from dp_clustering import private_sums
from fl_clustering.multiview import sums as multiview_sums
from fl_clustering.points import privacy

_DIM = 5
_RADIUS = 1.0
_STATISTICS = {
    "residual_radius": 0.5, "name": "clusters", "count_weight": 0.5,
    "squared_error_weight": 1.0,
}
_MAX_DEPTH = 6

_Mechanism = Callable[[audited_sums.Run], float]
# Of sums and the mu to spend on them.
_Release = Callable[[Any, float], Any]


class _ForgetfulLedger(privacy_ledger.Ledger):
  """A ledger that lets every release spend the whole budget: a planted bug."""

  @property
  def mu_spent(self) -> float:
    return 0.0


class _LessNoise:
  """A noise source that gives only a part of what is asked for: a planted bug."""

  def __init__(self, noise_source: noise.Source, part: float) -> None:
    self.description = noise_source.description
    self.is_private = noise_source.is_private
    self._noise_source = noise_source
    self._part = part

  def discrete_gaussian(self, shape: int | tuple[int, ...], scale: float) -> np.ndarray:
    return self._noise_source.discrete_gaussian(shape, scale * self._part)


class _ReusedNoise:
  """A noise source that draws once for all arrays of one shape: a planted bug."""

  def __init__(self, noise_source: noise.Source) -> None:
    self.description = noise_source.description
    self.is_private = noise_source.is_private
    self._noise_source = noise_source
    self._draws: dict[Any, np.ndarray] = {}

  def discrete_gaussian(self, shape: int | tuple[int, ...], scale: float) -> np.ndarray:
    if shape not in self._draws:
      self._draws[shape] = self._noise_source.discrete_gaussian(shape, scale) / scale
    return np.rint(self._draws[shape] * scale).astype(np.int64)


class _CellWithoutNoise:
  """A noise source that leaves out the last cell of an array: a planted bug."""

  def __init__(self, noise_source: noise.Source) -> None:
    self.description = noise_source.description
    self.is_private = noise_source.is_private
    self._noise_source = noise_source

  def discrete_gaussian(self, shape: int | tuple[int, ...], scale: float) -> np.ndarray:
    draws = self._noise_source.discrete_gaussian(shape, scale)
    draws.flat[-1] *= draws.size == 1
    return draws


def _with_source(
    build_source: Callable[[noise.Source], noise.Source], mechanism: _Mechanism
) -> _Mechanism:
  """Returns the mechanism with another noise source, made anew for every run."""
  return lambda run: mechanism(
      dataclasses.replace(run, noise_source=build_source(run.noise_source)))


def less_noise(part: float, mechanism: _Mechanism) -> _Mechanism:
  """Returns the mechanism with `part` of the noise it asks for."""
  return _with_source(lambda source: _LessNoise(source, part), mechanism)


def _same_in_every_run(mechanism: _Mechanism) -> _Mechanism:
  """Returns the mechanism with noise that can be predicted: a planted bug."""
  return _with_source(lambda unused: noise.SeededNoise(0), mechanism)


def _releases(
    release: _Release, build_ledger: Callable[..., privacy_ledger.Ledger] = privacy_ledger.Ledger
) -> _Mechanism:
  """Returns the mechanism that spends the budget by a release."""
  def mechanism(run: audited_sums.Run) -> float:
    ledger = build_ledger(run.budget.epsilon, run.budget.delta, run.noise_source)
    sums = run.open_sums(run.points, _RADIUS, run.noise_source, ledger)
    release(sums, ledger.mu)
    return run.evidence.log_ratio

  return mechanism


def _call(method: str, **arguments: Any) -> _Mechanism:
  """Returns the mechanism of a whole call of `clustering`, with audited sums."""
  def mechanism(run: audited_sums.Run) -> float:
    data = clustering_params.Data(run.points, _RADIUS)
    sums = types.SimpleNamespace(PrivateSums=run.open_sums)
    with (
        mock.patch.object(clustering, "private_sums", sums),
        mock.patch.object(
            clustering.noise, "build_noise_source", return_value=run.noise_source),
    ):
      # Hyperplanes and starts, which need no protection, are the same in all runs.
      clustering.METHODS[method](2, data, run.budget, random_state=0, **arguments)
    return run.evidence.log_ratio

  return mechanism


def _count(sums: Any, mu: float) -> None:
  sums.private_count(1 / mu, "count")


def _cluster_statistics(centers: np.ndarray) -> _Release:
  """Returns the release of residual sums, counts and squared errors of centers."""
  return lambda sums, mu: sums.private_cluster_statistics(centers, mu=mu, **_STATISTICS)


def _leaf_sums(sums: Any, mu: float) -> None:
  sums.hashed(_FAR_POINT).private_leaf_sums([0, 1], [1, 1], 1 / mu)


def _prefix_counts(hyperplane: np.ndarray) -> _Release:
  """Returns the release of the numbers of points on both sides of a hyperplane."""
  return lambda sums, mu: sums.hashed(hyperplane).private_prefix_counts(1, [0, 1], 1 / mu)


def _one_of_each(sums: Any, mu: float) -> None:
  """Shares the budget equally between four releases."""
  _count(sums, mu / 2)
  _prefix_counts(_FAR_POINT)(sums, mu / 2)
  _CLUSTER(sums, mu / 2)
  _leaf_sums(sums, mu / 2)


def _tree(sums: Any, mu: float) -> None:
  """Grows a tree whose shape depends on the noise; the leaf sums get what is left."""
  planned_std = math.sqrt(2 * (_MAX_DEPTH + 1)) / mu
  coreset.private_lsh_coreset(
      sums, 2, clustering_params.TreeParam(60, 20, _MAX_DEPTH),
      privacy_calculator.LshNoise(math.sqrt(2) / mu, planned_std), np.random.default_rng(1),
  )


def _sum_rounded_away(run: audited_sums.Run) -> float:
  """Scores a sum with the sensitivity of the points, not of what they are rounded to."""
  mu = privacy_calculator.gaussian_mu(run.budget.epsilon, run.budget.delta)
  rounded = np.sign(run.points) * np.ceil(np.abs(run.points))
  return float((rounded.sum(axis=0) + run.noise_source.discrete_gaussian(_DIM, 1 / mu)).sum())


def _count_that_refuses_nan(run: audited_sums.Run) -> float:
  if np.isnan(run.points).any():
    raise ValueError("The points must be numbers.")
  return _releases(_count)(run)


def _random_vectors(num_vectors: int, norm: float, rng: np.random.Generator) -> np.ndarray:
  vectors = rng.normal(size=(num_vectors, _DIM))
  return vectors * (norm / np.linalg.norm(vectors, axis=1, keepdims=True))


def _border(
    is_second: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
  """Returns a hyperplane, and a point on it whose side is decided by rounding.

  A matrix product may round a row differently when there is another row.  So one
  point more could send a point to the other side, which no sensitivity accounts for.
  The point is chosen so that the matrix product of this machine does that.

  Args:
    is_second: Function of points and a normal vector, shape (1, dim): whether each
      point is on the second side, by the product of all points with something.

  Returns:
    The hyperplane's normal and the point, both of shape (1, dim).

  Raises:
    RuntimeError: If there is no such point, and so nothing to audit.
  """
  rng = np.random.default_rng(1)
  for _ in range(10_000):
    normal, point = _random_vectors(2, 1.0, rng)[:, np.newaxis]
    point -= normal * (point @ normal.T)
    if is_second(np.repeat(point, 2, axis=0), normal).all() and not is_second(point, normal):
      return normal, point
  raise RuntimeError(
      "This machine's matrix product rounds every row on its own as it does beside another: "
      "no point on a border was found, so the cases with such a point can't be audited here."
  )


def _centers_beside(normal: np.ndarray) -> np.ndarray:
  return np.concatenate([normal, -normal]) / 2


def _is_nearer_to_second(points: np.ndarray, normal: np.ndarray) -> np.ndarray:
  centers = _centers_beside(normal)
  half_squares = (centers * centers).sum(axis=1) / 2
  return np.argmin(half_squares - points @ centers.T, axis=1) == 1


# Few points: what the others are must not matter.
_OTHERS = np.full((3, _DIM), 0.05)
# Of norm 1, and far from whole coordinates, so that rounding to them shows.
_FAR_POINT = np.full((1, _DIM), _DIM**-0.5)
_NAN_POINT = np.full((1, _DIM), np.nan)
_CLUSTER = _cluster_statistics(np.zeros((1, _DIM)))
_REFINE = _call("refine")
# Not as deep as by default: a table of all codes takes most of the time then.
_LSH = _call("lsh", tree_param=clustering_params.TreeParam(60, 20, 8))
# The shares of two of three clients are enough, so one may be missing.
_SHARES = functools.partial(privacy.PointPrivacy, radius=_RADIUS, trust="none", min_clients=2)
_FIT_BY_SERVER = audited_federation.FederatedFit(
    functools.partial(privacy.PointPrivacy, radius=_RADIUS))
_FIT_BY_SHARES = audited_federation.FederatedFit(_SHARES, num_without_share=1)
_FIT_BY_TOO_SMALL_SHARES = audited_federation.FederatedFit(
    functools.partial(_SHARES, min_clients=3), num_without_share=1)
_MAX_POINTS = 25
_FIT_OF_CLIENTS = audited_federation.FederatedFit(functools.partial(
    privacy.ClientPrivacy, radius=_RADIUS, max_points=_MAX_POINTS, trust="none"))
# The point that makes the difference is on the border of both views' balls.
_WIDTHS = (2, 3)
_FIT_OF_VIEWS = audited_federation.FederatedFit(
    functools.partial(
        privacy.ViewPrivacy,
        view_norms=tuple(_RADIUS * math.sqrt(width / _DIM) for width in _WIDTHS),
    ),
    widths=_WIDTHS,
)
# The worst client: its points are all the same, and more than may count.
_CLIENT = np.repeat(_FAR_POINT, _MAX_POINTS + 5, axis=0)


@dataclasses.dataclass(frozen=True)
class Case:
  """A mechanism and the two data sets that it runs on."""

  mechanism: _Mechanism
  neighbours: audited_sums.Neighbours

  def run(
      self, is_second: bool, noise_source: noise.Source,
      budget: clustering_params.DifferentialPrivacyParam,
  ) -> tuple[float, list[np.ndarray]]:
    """Returns the score of one run, and the residuals of its noise (`noise_residuals`).

    The score is `inf` if a run on the second data set ended in an exception.
    """
    run = audited_sums.Run(self.neighbours, is_second, noise_source, budget)
    try:
      return self.mechanism(run), run.evidence.residuals(is_second)
    except Exception:  # pylint: disable=broad-except
      if not is_second:
        raise
      return math.inf, []  # Whatever it is, who waits for the release sees it.


def _few(mechanism: _Mechanism, point: np.ndarray = _FAR_POINT) -> Callable[[], Case]:
  """Returns a case with few other points."""
  return lambda: Case(mechanism, audited_sums.Neighbours(_OTHERS, point))


def _groups(mechanism: _Mechanism, added: np.ndarray = _FAR_POINT) -> Callable[[], Case]:
  """Returns a case with other points in two groups, of which one is where points are added."""
  def build() -> Case:
    rng = np.random.default_rng(2)
    there = 0.9 * _FAR_POINT + rng.normal(scale=0.02, size=(120, _DIM))
    opposite = -0.5 * _FAR_POINT + rng.normal(scale=0.02, size=(80, _DIM))
    return Case(mechanism, audited_sums.Neighbours(np.concatenate([there, opposite]), added))

  return build


def _patched(mechanism: _Mechanism, module: types.ModuleType, name: str, value: Any) -> _Mechanism:
  """Returns the mechanism with another value in a module."""
  def patched(run: audited_sums.Run) -> float:
    with mock.patch.object(module, name, value):
      return mechanism(run)

  return patched


def _in_blocks(mechanism: _Mechanism) -> _Mechanism:
  """Returns the mechanism with a block for every row, which threads add up."""
  return _patched(mechanism, private_sums, "BLOCK_ELEMENTS", _DIM)


def _unlimited(mechanism: _Mechanism) -> _Mechanism:
  """Returns the federated mechanism without the limits of a client: a planted bug."""
  return _patched(mechanism, privacy, "_limits", lambda *unused: None)


def _less_noise_in_kernel_rounds(part: float, mechanism: _Mechanism) -> _Mechanism:
  """Returns the multi-view mechanism whose kernel rounds have `part` of their noise."""
  sensitivity = multiview_sums.sensitivity
  return _patched(
      mechanism, multiview_sums, "sensitivity", lambda *of_sums: part * sensitivity(*of_sums)
  )


def _copies(
    build_release: Callable[[np.ndarray], _Release],
    is_second: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Callable[[], Case]:
  """Returns a case where the point is a second copy of one on a border."""
  def build() -> Case:
    normal, point = _border(is_second)
    return Case(_releases(build_release(normal)), audited_sums.Neighbours(point, point))

  return build


# All by their names in the output; a function builds the case, as some take a while.
MECHANISMS: dict[str, Callable[[], Case]] = {
    "count": _few(_releases(_count)),
    "cluster sum": _few(_releases(_CLUSTER)),
    "leaf sum": _few(_releases(_leaf_sums)),
    "count, a row of NaN": _few(_releases(_count), _NAN_POINT),
    "cluster sum, a row of NaN": _few(_releases(_CLUSTER), _NAN_POINT),
    "cluster sums, point on a border": _copies(
        lambda normal: _cluster_statistics(_centers_beside(normal)), _is_nearer_to_second),
    "prefix counts, point on a border": _copies(
        _prefix_counts, lambda points, normal: points @ normal.T < 0),
    "composition of four releases": _few(_releases(_one_of_each)),
    "tree growth": _groups(_releases(_tree)),
    "composition, blocks in threads": _few(_in_blocks(_releases(_one_of_each))),
    "whole call of refine": _groups(_REFINE),
    "whole call of lsh": _groups(_LSH),
    "whole federated fit, server's noise": _groups(_FIT_BY_SERVER),
    "whole federated fit, clients' shares": _groups(_FIT_BY_SHARES),
    "whole federated fit, private clients": _groups(_FIT_OF_CLIENTS, _CLIENT),
    "whole multi-view fit, server's noise": _groups(_FIT_OF_VIEWS),
}
PLANTED_BUGS: dict[str, Callable[[], Case]] = {
    "count, .8 of the noise": _few(less_noise(0.8, _releases(_count))),
    "cluster sum, .8 of the noise": _few(less_noise(0.8, _releases(_CLUSTER))),
    "composition, .8 of the noise": _few(less_noise(0.8, _releases(_one_of_each))),
    "blocks in threads, .8 of the noise": _few(
        less_noise(0.8, _in_blocks(_releases(_CLUSTER)))),
    "whole call of refine, .8 of the noise": _groups(less_noise(0.8, _REFINE)),
    "whole call of lsh, .8 of the noise": _groups(less_noise(0.8, _LSH)),
    "composition, releases don't add up": _few(_releases(
        lambda sums, mu: _one_of_each(sums, 2 * mu), _ForgetfulLedger)),
    "tree growth, releases don't add up": _groups(_releases(
        lambda sums, mu: _tree(sums, math.sqrt(2) * mu), _ForgetfulLedger)),
    "federated fit, server's noise .8": _groups(less_noise(0.8, _FIT_BY_SERVER)),
    "federated fit, shares of .8 of the noise": _groups(less_noise(0.8, _FIT_BY_SHARES)),
    "federated fit, private clients' noise .8": _groups(
        less_noise(0.8, _FIT_OF_CLIENTS), _CLIENT),
    "multi-view fit, .8 of the noise": _groups(less_noise(0.8, _FIT_OF_VIEWS)),
    "multi-view fit, kernel rounds' noise .5": _groups(
        _less_noise_in_kernel_rounds(0.5, _FIT_OF_VIEWS)),
    "federated fit, a missing share counts": _groups(_FIT_BY_TOO_SMALL_SHARES),
    "federated fit, clients without limits": _groups(_unlimited(_FIT_OF_CLIENTS), _CLIENT),
    "composition, one draw for equal shapes": _few(
        _with_source(_ReusedNoise, _releases(_one_of_each))),
    "composition, a cell without noise": _few(
        _with_source(_CellWithoutNoise, _releases(_one_of_each))),
    "composition, the same noise in every run": _few(
        _same_in_every_run(_releases(_one_of_each))),
    "whole call of refine, one draw for equal shapes": _groups(
        _with_source(_ReusedNoise, _REFINE)),
    "federated fit, one draw for equal shapes": _groups(
        _with_source(_ReusedNoise, _FIT_BY_SERVER)),
    "sum, rounded away from zero": _few(_sum_rounded_away),
    "count, NaN is refused": _few(_count_that_refuses_nan, _NAN_POINT),
}

"""The operator: it asks, adds up what it can't read, and learns sums over all sites."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Any, Callable, Iterable, Mapping

import numpy as np

from clustering_basics import validate
from dp_clustering import clustering_params
from dp_clustering import refine
from fl_clustering import fits
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import split_and_swap
from fl_clustering.multiview import multiview_config
from fl_clustering.points import fitted
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import secure_sums
from fl_clustering.sites import federation as federation_lib
from fl_clustering.sites import masking
from fl_clustering.sites import questions
from fl_clustering.sites import site as site_lib
from fl_clustering.sites import wire

# From requests by site to answers by site.  A site that does not answer is left out.
Exchange = Callable[[Mapping[str, bytes]], Mapping[str, bytes]]


class SiteLost(RuntimeError):
  """A site does not answer.  A round needs all sites, so the session is over."""


class CarrierFailed(RuntimeError):
  """Messages are not carried; it says why."""


class SiteRefused(RuntimeError):
  """A site refuses to answer, or its answer is none."""


def _hello(header: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
  if set(header) != {"hello"} or arrays:
    raise wire.Refused("it must be a hello alone")
  masking.read_hello(header["hello"])
  return header["hello"]


def _ready(header: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
  if header != {"ready": True} or arrays:
    raise wire.Refused("it must be that it is ready")


def _no_rows(which: str) -> SiteRefused:
  return SiteRefused(
      f"the sites' answers {which} add up to what no rows can have: a site is broken, or cheats; "
      "masks hide which. Noise that they drew is paid for."
  )


class _PlannedNoise:
  """Stands for the noise that sites draw: it draws none, and keeps how much is asked for."""

  description = (
      "secure: exact discrete Gaussian, a share from every site's operating system's generator"
  )
  is_private = True

  def __init__(self) -> None:
    self._scales: list[float] = []

  def discrete_gaussian(self, shape: int | tuple[int, ...], scale: float) -> np.ndarray:
    self._scales.append(float(scale))
    return np.zeros(shape, np.int64)

  def scales_of(self, shares: Iterable[np.ndarray]) -> list[float]:
    """Returns the scale of every part of one site's share."""
    self._scales.clear()
    next(iter(shares))
    return list(self._scales)


class Coordinator:
  """A session with all sites of a federation.

  Attributes:
    noise_source: With `privacy`, what a fit draws noise from: the sites draw it.
    log: Of every exchange, `what` it was: "hello", "keys", or the name of the question; how much a
      site was sent, `bytes_down`, and sent at most, `most_bytes_up`; and the `seconds`.
  """

  def __init__(self, federation: federation_lib.Federation, exchange: Exchange) -> None:
    """Opens a session; `start` begins it."""
    self.federation = federation
    self.noise_source = _PlannedNoise()
    self.log: list[dict[str, Any]] = []
    self._exchange = exchange
    self._num_rounds = 0

  def start(self, privacy: privacy_lib.Privacy | None = None) -> None:
    """Begins a session: the sites exchange keys, and say whether a fit's cost is left to them."""
    cost = 0.0 if privacy is None else privacy.mu**2
    hellos = self._sent("hello", _hello, wire.pack({
        "do": "hello", "session": os.urandom(site_lib.SESSION_BYTES).hex(),
        "federation": self.federation.hash.hex(), "mu_squared": cost,
    }))
    self._sent("keys", _ready, wire.pack({"do": "keys", "hellos": hellos}))
    self._num_rounds = 0

  def _sent(self, what: str, read: Callable[..., Any], message: bytes) -> dict[str, Any]:
    """Returns every site's answer to one message, by the site's name.

    Args:
      read: Returns the answer, given its header and arrays, or raises a `wire.Refused`.
    """
    start = time.perf_counter()
    answers: dict[str, bytes] = {}
    for _ in range(2):  # So often, before a site counts as lost.
      if missing := {name: message for name in self.federation.sites if name not in answers}:
        answers |= self._exchange(missing)
    if lost := [name for name in self.federation.sites if name not in answers]:
      raise SiteLost(
          f"{', '.join(lost)}: no answer to {what}. A round needs all sites; when they are back, "
          "begin again."
      )
    found = {}
    for name in self.federation.sites:
      try:
        header, arrays = wire.unpack(answers[name], self.federation.most_bytes)
        if isinstance(reason := header.get("refused"), str):
          raise SiteRefused(f"{name} refused {what}: {wire.printable(reason)}.")
        found[name] = read(header, arrays)
      except wire.Refused as e:
        raise SiteRefused(f"{name}: its answer to {what} is none: {e}.") from e
    self.log.append({
        "what": what, "bytes_down": len(message),
        "most_bytes_up": max(map(len, answers.values())), "seconds": time.perf_counter() - start,
    })
    return found

  def total(self, asked: questions.Asked) -> np.ndarray:
    """Returns the sum of all sites' answers, int64 of the question's shape."""
    header, arrays = asked.to_message()
    self._num_rounds += 1
    message = wire.pack({"do": "ask", "round": self._num_rounds, **header}, arrays)
    shape = asked.question.shape(self.federation.num_columns)

    def masked(header: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> np.ndarray:
      if header or set(arrays) != {"masked"}:
        raise wire.Refused("it must be masked sums alone")
      if (found := arrays["masked"]).shape != shape or found.dtype != np.uint64:
        raise wire.Refused(f"its sums must be of the shape {shape}")
      return found

    answers = self._sent(asked.name, masked, message).values()
    total = sum(answers, np.zeros(shape, np.uint64))  # Wraps around.
    signed = total.view(np.int64)
    if not questions.are_sums(asked, signed, self.federation):
      raise _no_rows(f"to {asked.name}")
    return signed


@dataclasses.dataclass(frozen=True, eq=False)
class SitePoints(secure_sums.ClientPoints):
  """The points of sites, as fits see them."""

  coordinator: Coordinator

  def total(
      self, question: secure_sums.Question, sent: Mapping[str, Any],
      shares: Iterable[np.ndarray] | None = None,
  ) -> np.ndarray:
    if self.coordinator.federation.privacy is None:
      return self.coordinator.total(questions.Asked(question, sent, self.scaling))
    assert shares is not None and isinstance(question, secure_sums.Totals)
    # Sites draw their shares by themselves.
    parts = question.kind.widths(self.num_columns)
    scales = dict(zip(parts, self.coordinator.noise_source.scales_of(shares), strict=True))
    return self.coordinator.total(questions.Asked(question, sent, scales=scales))


def with_privacy(
    config: fits.Config, federation: federation_lib.Federation, epsilon: float | None = None
) -> fits.Config:
  """Returns a fit's settings with the privacy of the federation file.

  Args:
    config: Without `privacy`.
    epsilon: That of this fit; the file's is that of all fits together, and the default.

  Raises:
    ValueError: If the settings need more than sums, or don't go with the federation file.
  """
  privacy, of_views = federation.privacy, isinstance(config, multiview_config.MultiViewConfig)
  if isinstance(config, kmeans_config.KMeansConfig) and not isinstance(
      config.algorithm, kmeans_config.Sums
  ):
    raise validate.error("algorithm", "be 'sums' at sites", config.algorithm.name)
  of_centers = split_and_swap if privacy is None else refine
  asked, most = of_centers.largest_num_centers(config.n_clusters), federation.limits["centers"]
  if asked > most:
    rule = f"need no more than the federation file's limit of {most} centers in a question"
    raise validate.error("n_clusters", rule, f"{config.n_clusters}, which needs {asked}")
  if config.privacy is not None:
    raise validate.error("privacy", "be left out: the federation file says it", config.privacy)
  if privacy is not None and of_views != isinstance(privacy, privacy_lib.ViewPrivacy):
    key = "view_norms" if of_views else "radius"
    raise validate.error("federation", f"have privacy with `{key}` for this", privacy)
  if epsilon is not None:
    if privacy is None:
      raise validate.error("epsilon", "be left out with exact sums", epsilon)
    validate.within(clustering_params.LEAST_EPSILON, privacy.epsilon, epsilon=epsilon)
    privacy = dataclasses.replace(privacy, epsilon=epsilon)  # type: ignore[type-var]
  return dataclasses.replace(config, privacy=privacy)  # type: ignore[arg-type]


def fit_kmeans(
    config: fits.Config, coordinator: Coordinator, epsilon: float | None = None
) -> fitted.Fit:
  """Fits centroids of rows or of views at sites, in a session of its own.

  A round in which a site was lost has a cost, too, so a fit that spends all can't be repeated.

  Args:
    config, epsilon: As in `with_privacy`.

  Raises:
    ValueError: If the settings need more than sums, or don't go with the federation file.
    SiteLost, SiteRefused: If a site does not answer.
  """
  config = with_privacy(config, coordinator.federation, epsilon)
  coordinator.start(config.privacy)
  federation = coordinator.federation
  nobody = site_lib.held({"": np.zeros((0, federation.num_columns))}, federation)
  points = SitePoints(dict.fromkeys(federation.sites), nobody.scaling, coordinator)
  try:
    found = fits.fit(config, points, federation.widths, coordinator.noise_source)
  except (ArithmeticError, IndexError) as e:  # All of its numbers are of the sites' answers.
    raise _no_rows("together") from e
  if found.privacy_spent is None:
    return found
  # What a fit takes for clients are sites, each with many.
  of_sites = {
      name.replace("_clients", "_sites"): value for name, value in found.privacy_spent.items()
  }
  return dataclasses.replace(found, privacy_spent=of_sites)

"""A site: its rows, its federation file, its ledger, and the only things that it answers.

It answers three requests, in this order: `hello`, which begins a session; `keys`, with the keys of
all sites; and any number of `ask`, one after another, each a question of `questions`.  To the same
bytes it gives the same answer again, as long as nothing else was asked since, so an answer may be
lost on the way.  Keys are in memory only: a site that was killed has no session any more, and its
ledger keeps what it has spent.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
import threading
from typing import Any, Mapping

import numpy as np

from clustering_basics import validate
from dp_clustering import clustering_params
from dp_clustering import noise
from dp_clustering import privacy_calculator
from fl_clustering.points import given_clients
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import secure_sums
from fl_clustering.sites import federation as federation_lib
from fl_clustering.sites import identity as identity_lib
from fl_clustering.sites import masking
from fl_clustering.sites import questions
from fl_clustering.sites import site_ledger
from fl_clustering.sites import wire

SESSION_BYTES = 16
_SESSION = re.compile(f"[0-9a-f]{{{2 * SESSION_BYTES}}}")


@dataclasses.dataclass
class _Session:
  """A session under way.

  Attributes:
    handshake: Until there are `keys`.
    num_rounds: How many rounds have begun.
  """

  handshake: masking.Handshake | None
  keys: masking.PairKeys | None = None
  num_rounds: int = 0


def held(
    clients: Mapping[Any, np.ndarray], federation: federation_lib.Federation
) -> secure_sums.ClientPoints:
  """Returns a site's clients as they answer, in the coordinates of the federation file.

  With `privacy`, whatever a row holds becomes a point of the ball.

  Args:
    clients: What `rows.read` returns for the file.

  Raises:
    ValueError: If they are not finite, without `privacy`.
  """
  privacy = federation.privacy
  if privacy is None and not all(
      (np.abs(rows) <= given_clients.LARGEST).all() for rows in clients.values()  # False for NaN.
  ):
    raise validate.error("rows", f"be finite numbers up to {given_clients.LARGEST:g}", "others")
  with clustering_params.content_raises_nothing():
    return privacy_lib.hold(clients, federation.widths, privacy)


class Site:
  """Answers requests, one at a time."""

  def __init__(
      self, identity: identity_lib.Identity, federation: federation_lib.Federation,
      clients: Mapping[Any, np.ndarray], ledger: site_ledger.SiteLedger,
  ) -> None:
    """Opens a site.

    Args:
      clients: Rows by client id, as for `held`; one or several.
      ledger: That of these rows.

    Raises:
      ValueError: If these don't belong together.
    """
    if federation.sites.get(identity.name) != identity.public:
      raise validate.error(
          "identity", f"be that of a site of the federation file: {', '.join(federation.sites)}",
          f"{identity.name} with the key {identity.public.hex()}",
      )
    self.num_rows = sum(map(len, clients.values()))
    self._identity, self._federation, self._ledger = identity, federation, ledger
    self._points = held(clients, federation)
    self._noise: noise.Source = noise.SecureNoise()
    self._unit, self._budget = site_ledger.EXACT, 0.0
    if (privacy := federation.privacy) is not None:
      # What a client is, such as a file or a person, the schema says; a row is one everywhere.
      is_row = privacy.points_per_client is None
      self._unit = "row" if is_row else f"client of the schema {federation.schema}"
      self._budget = privacy.mu
    self._session: _Session | None = None
    # The hash of the last request that was answered, and the answer.
    self._last: tuple[bytes, bytes] | None = None
    self._lock = threading.Lock()

  @property
  def budget(self) -> tuple[float, float]:
    """The squares of mu that are spent and that may be; `inf` and 0 with exact sums."""
    return self._ledger.spent(self._unit), self._budget**2

  def close(self) -> None:
    """Answers no more, and lets another program open the ledger."""
    with self._lock:
      self._session = self._last = None
      self._ledger.close()  # It takes no other session.

  def handle(self, message: bytes) -> bytes:
    """Returns the answer to a message, which may be of anyone and anything."""
    # Two requests at the same time would both be the next round.
    with self._lock:
      try:
        header, arrays = wire.unpack(message, self._federation.most_bytes)
        digest = hashlib.sha256(message).digest()
        if self._last is not None and self._last[0] == digest:
          return self._last[1]
        with clustering_params.content_raises_nothing():
          answer = self._answer(header, arrays, digest)
      except wire.Refused as e:
        return wire.pack({"refused": f"{e}"})
      except Exception:  # pylint: disable=broad-exception-caught
        # What it says may be of rows.  The round has begun, so the session is over.
        self._session = self._last = None
        return wire.pack({"refused": "the answer failed, and the session has ended"})
      self._last = digest, answer
      return answer

  def _answer(self, header: dict[str, Any], arrays: dict[str, np.ndarray], digest: bytes) -> bytes:
    do = header.pop("do", None)
    if do == "ask":
      return self._ask(header, arrays, digest)
    if arrays:
      raise wire.Refused("only a question comes with numbers")
    if do == "hello" and set(header) == {"session", "federation", "mu_squared"}:
      return self._hello(**header)
    if do == "keys" and set(header) == {"hellos"}:
      return self._keys(header["hellos"])
    raise wire.Refused("a request must be hello, keys or ask, with nothing but its own")

  def _hello(self, session: Any, federation: Any, mu_squared: Any) -> bytes:
    own = self._federation.hash.hex()
    if federation != own:
      raise wire.Refused(
          f"it has another federation file, of the fingerprint {self._federation.fingerprint}"
      )
    if not isinstance(session, str) or not _SESSION.fullmatch(session):
      raise wire.Refused(f"a session must be of {SESSION_BYTES} bytes")
    limit = self._federation.limits["sessions"]
    if self._ledger.num_sessions(own) >= limit:
      raise wire.Refused(f"it has taken part in all of {limit} sessions")
    self._check_left(mu_squared)
    self._session = self._last = None
    self._ledger.begin(session, own, self._unit)
    handshake = masking.Handshake(
        self._identity, self._federation.sites, self._federation.hash, bytes.fromhex(session)
    )
    self._session = _Session(handshake)
    return wire.pack({"hello": handshake.hello()})

  def _check_left(self, mu_squared: Any) -> None:
    """Refuses a fit that would end in the middle; what an answer costs is entered all the same."""
    privacy = self._federation.privacy
    if type(mu_squared) is not float or not 0 <= mu_squared < math.inf:
      raise wire.Refused("a session must say what its fit costs, a number")
    if privacy is None and self._ledger.has_bound:
      raise wire.Refused("its answers so far had noise, whose bound exact sums would exceed")
    if privacy is not None and not self._ledger.allows(self._unit, mu_squared, self._budget):
      spent, (unit, *_) = self._ledger.spent(self._unit), self._unit.split()
      left = math.sqrt(max(0.0, self._budget**2 - spent))
      epsilon = privacy_calculator.gaussian_epsilon(left, privacy.delta)
      known = "" if spent < math.inf else " after answers without a bound for it"
      raise wire.Refused(
          f"less is left of this site's privacy budget (epsilon {privacy.epsilon:g} for every "
          f"{unit}, all fits together) than the fit costs{known}: `epsilon` of a fit may be at "
          f"most {math.floor(1000 * epsilon) / 1000:g}"
      )

  def _keys(self, hellos: Any) -> bytes:
    session = self._session
    if session is None or session.handshake is None:
      raise wire.Refused("a session must begin with hello, and have keys once")
    session.keys = session.handshake.finish(hellos)
    session.handshake = None
    return wire.pack({"ready": True})

  def _ask(self, header: dict[str, Any], arrays: dict[str, np.ndarray], digest: bytes) -> bytes:
    session, round_num = self._session, header.pop("round", None)
    if session is None or session.keys is None:
      raise wire.Refused("it has no such session; begin a new one")
    if type(round_num) is not int or round_num != session.num_rounds + 1:
      raise wire.Refused(f"round {session.num_rounds + 1} must be next")
    if round_num > (limit := self._federation.limits["rounds"]):
      raise wire.Refused(f"a session must have at most {limit} rounds")
    asked = questions.read(header, arrays, self._federation)
    # Before anything is drawn or summed up: who is killed from here on has paid for it.
    if self._federation.privacy is None:
      self._ledger.enter()
    else:
      cost = questions.mu_squared(asked, self._federation.privacy)
      self._ledger.spend(cost, self._budget)
    session.num_rounds = round_num
    totals = self._totals(asked)
    return wire.pack({}, {"masked": session.keys.masked(totals, round_num, digest)})

  def _totals(self, asked: questions.Asked) -> np.ndarray:
    """Returns the sum of this site's clients, int64, with its share of the noise."""
    points = self._points if asked.scaling is None else self._points.scaled(asked.scaling)
    totals = points.total(asked.question, asked.sent)
    if asked.scales is not None:
      drawn = asked.query.noise(asked.scales, self._noise)
      totals[: len(drawn)] += drawn
    return totals

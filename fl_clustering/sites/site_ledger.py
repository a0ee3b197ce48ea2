"""What a site has spent, on its disk: every cost is there before the answer that it is for.

It is the same filter as `dp_clustering.ledger`'s, whose proof holds for whoever chooses what is
asked: answers may be asked for as long as the squares of mu add up to no more than the budget's.
It outlives the program that is killed and the federation file that is replaced: a new file has no
new budget for the same rows.  A session is entered with its first answer: whoever asks nothing
leaves nothing.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import secrets
from typing import Any
import weakref

from clustering_basics import atomic_file
from clustering_basics import validate
from fl_clustering.sites import wire
from fl_clustering.tables import schema as schema_lib

# The unit of sessions that protect nothing.
EXACT = "exact"
_FORMAT = 2
# As that of `dp_clustering.ledger`; a budget's mu leaves more unspent.
_SLACK = 1e-9


class SiteLedger:
  """The ledger of one site's rows, which one program at a time may open.

  Attributes:
    id: What no other ledger is called.
    path: Of its file, without links.
  """

  def __init__(self, path: str) -> None:
    """Opens a ledger that `create` has made.

    Raises:
      ValueError: If it can't be used, or another program uses it.
    """
    self.path = os.path.realpath(path)
    # Lets other programs open it.
    self.close = weakref.finalize(self, os.close, lock(f"{path}.lock", ledger=path))
    try:
      self.id, self._sessions = _read(path)
    except BaseException:
      self.close()
      raise
    # The session under way, and where it stands once it is entered.
    self._session: dict[str, Any] = {}
    self._place = len(self._sessions)

  @classmethod
  def create(cls, path: str) -> SiteLedger:
    """Returns a new ledger, in a file that must not exist."""
    with open(path, "x", encoding="utf-8"):
      pass
    document = {"format": _FORMAT, "id": secrets.token_hex(16), "sessions": []}
    atomic_file.write_text(path, json.dumps(document))
    return cls(path)

  def spent(self, unit: str) -> float:
    """Returns the sum of the squares of mu so far.

    It is `inf` after exact sums, and after answers for another unit: a cost says what one row may
    change, or one client of a schema, and none says what another one may.
    """
    return math.fsum(
        session["mu_squared"] if session["unit"] == unit != EXACT else math.inf
        for session in self._sessions if session["mu_squared"] or session["unit"] == EXACT
    )

  def allows(self, unit: str, mu_squared: float, budget: float) -> bool:
    """Returns whether answers of this cost may be given; False for NaN."""
    return self.spent(unit) + mu_squared <= budget**2 * (1 + _SLACK)

  @property
  def has_bound(self) -> bool:
    """Whether answers had noise, whose bound exact sums of the same rows would exceed."""
    return any(session["mu_squared"] for session in self._sessions)

  def num_sessions(self, federation: str) -> int:
    return sum(session["federation"] == federation for session in self._sessions)

  def begin(self, session: str, federation: str, unit: str) -> None:
    """Begins a session, which `spend` or `enter` enters.

    Args:
      federation: The hash of the federation file.
      unit: What the noise protects, or `EXACT`.
    """
    self._check_unchanged()
    self._place = len(self._sessions)
    self._session = {"session": session, "federation": federation, "unit": unit,
                     "rounds": 0, "mu_squared": 0.0}

  def enter(self) -> None:
    """Enters the session, for exact sums; it is on the disk when this returns."""
    if self._place == len(self._sessions):
      self._write(self._session)

  def spend(self, mu_squared: float, budget: float) -> None:
    """Enters the cost of an answer of the session; it is on the disk when this returns.

    Args:
      budget: The mu of all answers together.

    Raises:
      Refused: If the budget is not enough; nothing is entered then.
    """
    last = self._session
    if not (0 < mu_squared and self.allows(last["unit"], mu_squared, budget)):
      raise wire.Refused(
          f"this site's privacy budget is spent: mu^2 is {self.spent(last['unit']):.6g} so far, "
          f"{mu_squared:.6g} is asked, {budget**2:.6g} is all"
      )
    # Rounded up, so that no cost is so small that it is none.
    total = math.nextafter(last["mu_squared"] + mu_squared, math.inf)
    self._write({**last, "rounds": last["rounds"] + 1, "mu_squared": total})

  def _check_unchanged(self) -> None:
    # A copy of this process, or of the file, would not count what the other one spends.
    if not self.close.alive or _read(self.path) != (self.id, self._sessions):
      raise wire.Refused("its ledger is closed, or another program has changed it")

  def _write(self, session: dict[str, Any]) -> None:
    self._check_unchanged()
    sessions = [*self._sessions[: self._place], session]
    document = {"format": _FORMAT, "id": self.id, "sessions": sessions}
    atomic_file.write_text(self.path, json.dumps(document, indent=1))
    self._sessions, self._session = sessions, session


def id_of(path: str) -> str | None:
  """Returns the id of a ledger; None if there is none that can be read."""
  try:
    return _read(path)[0]
  except ValueError:
    return None


def _read(path: str) -> tuple[str, list[dict[str, Any]]]:
  """Returns a ledger's id and its sessions."""
  return schema_lib.read_document(path, _parsed, "ledger")


def lock(path: str, **argument: str) -> int:
  """Locks a file, and returns its descriptor; the kernel unlocks it when the program ends.

  Raises:
    ValueError: If another program has; it names the argument, and says its value.
  """
  descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
  try:
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except OSError as e:
    os.close(descriptor)
    ((name, value),) = argument.items()
    rule = f"be used by one program at a time ({e.strerror})"
    raise validate.error(name, rule, value) from None
  return descriptor


def _parsed(document: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
  if document["format"] != _FORMAT:
    raise ValueError(f"it is of format {document['format']!r}")
  return str(document["id"]), [_checked(entry) for entry in document["sessions"]]


def _checked(entry: dict[str, Any]) -> dict[str, Any]:
  spent = entry["mu_squared"]
  if not isinstance(spent, float) or not 0 <= spent < math.inf:
    raise ValueError("an entry has no cost")
  texts = {key: str(entry[key]) for key in ("session", "federation", "unit")}
  return {**texts, "rounds": int(entry["rounds"]), "mu_squared": spent}

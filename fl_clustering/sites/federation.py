"""What all sites have agreed on before anything is asked: the federation file.

The sites hand it out among themselves, not the operator, and compare its fingerprint by telephone.
It is JSON: `name`; `sites`, the public key of every site; `schema`, the hash of what their tables
hold; `widths`, the number of features of every view; `limits`; and either `privacy` or
`"exact": true`.  Nothing that is sent later changes it, and its hash is part of every key.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from typing import Any, Mapping

from clustering_basics import atomic_file
from clustering_basics import validate
from fl_clustering.multiview import multiview_config
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.sites import identity as identity_lib
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import views as views_lib

FORMAT = 1
# With two, each would know the other's part of every sum.
FEWEST_SITES = 3
_MOST_SITES = 1000
_MOST_COLUMNS = 2**16
_FINGERPRINT_GROUPS, _DIGITS_PER_GROUP = 8, 6  # 2^159: no two files are made that look alike.
_KEY_RULE = "be a public key, 64 hexadecimal digits"
# What files of text look like, which may differ from site to site.
_OF_FILES = ("dialect", "missingValues")
# Kinds of privacy by the key that only they have; None for the one without.
_PRIVACIES: Mapping[str | None, Any] = {
    "max_points": privacy_lib.ClientPrivacy,
    "view_norms": multiview_config.PointPrivacy,
    None: privacy_lib.PointPrivacy,
}


def _canonical(document: Any) -> bytes:
  return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def schema_hash(schema: schema_lib.Schema | views_lib.Schemas) -> str:
  """Returns the hash of what tables hold, of one view or several; dialects may differ."""
  by_view = {"": schema} if isinstance(schema, schema_lib.Schema) else schema
  documents = {
      view: {key: value for key, value in one.to_json().items() if key not in _OF_FILES}
      for view, one in by_view.items()
  }
  return hashlib.sha256(_canonical(documents)).hexdigest()


@dataclasses.dataclass(frozen=True)
class Limits:
  """How much may be asked.

  Attributes:
    centers: The most centers of a question.
    rounds: The most rounds of a session.
    sessions: The most sessions of a site.
  """

  centers: int = 1024
  rounds: int = 1000
  sessions: int = 100

  def __post_init__(self) -> None:
    validate.integer(1, 2**16, **{"limits.centers": self.centers})
    validate.integer(1, 10**6, **{"limits.rounds": self.rounds})
    validate.integer(1, 10**6, **{"limits.sessions": self.sessions})


@dataclasses.dataclass(frozen=True, eq=False)
class Federation:
  """The contents of a federation file, checked when made.

  Attributes:
    name: For people.
    sites: The raw public keys by the sites' names.
    schema: The `schema_hash`.
    widths: Of every view, the number of its features; one for tables without views.
    privacy: What every site guarantees by itself, whatever is asked; its `min_clients` are the
      sites whose shares of the noise count.  None for exact sums.
    exact: Whether sums are exact; it must be said.
  """

  name: str
  sites: Mapping[str, bytes]
  schema: str
  widths: tuple[int, ...]
  privacy: privacy_lib.Privacy | None = None
  exact: bool = False
  limits: Limits = Limits()

  def __post_init__(self) -> None:
    if not isinstance(self.name, str) or not self.name:
      raise validate.error("name", "be text", self.name)
    if not FEWEST_SITES <= len(self.sites) <= _MOST_SITES:
      rule = f"be {FEWEST_SITES} to {_MOST_SITES}, since with two each would know the other's sums"
      raise validate.error("sites", rule, sorted(self.sites))
    for name, public in self.sites.items():
      identity_lib.check_name(sites=name)
      if len(public) != identity_lib.KEY_BYTES:
        raise validate.error(f"sites[{name}]", _KEY_RULE, public.hex())
    if len(set(self.sites.values())) < len(self.sites):
      raise validate.error("sites", "have keys that differ", sorted(self.sites))
    if not isinstance(self.schema, str) or len(self.schema) != hashlib.sha256().digest_size * 2:
      raise validate.error("schema", "be a hash, 64 hexadecimal digits", self.schema)
    for width in self.widths:
      validate.integer(1, _MOST_COLUMNS, widths=width)
    validate.integer(1, _MOST_COLUMNS, **{"the sum of widths": self.num_columns})
    validate.boolean(exact=self.exact)
    if self.exact == (self.privacy is not None):
      raise ValueError(
          "`privacy` must be given, or `exact` be true and say that sums have no noise, got "
          f"{'both' if self.exact else 'neither'}."
      )
    if self.privacy is not None:
      self._check_privacy(self.privacy)

  def _check_privacy(self, privacy: privacy_lib.Privacy) -> None:
    if privacy.trust != privacy_lib.NONE or privacy.min_clients is None:
      raise validate.error("privacy.min_sites", "be given", privacy.min_clients)
    privacy_lib.least_shares(privacy, len(self.sites))
    if isinstance(privacy, multiview_config.PointPrivacy):
      privacy.check_views(len(self.widths))
    elif len(self.widths) > 1:
      raise validate.error("privacy.view_norms", "be given with several views", None)

  @property
  def num_columns(self) -> int:
    return sum(self.widths)

  @property
  def most_bytes(self) -> int:
    """More than any message is long."""
    numbers = (self.limits.centers + 90) * (4 * self.num_columns + 64)
    return 2**16 + 2**9 * len(self.sites) + 8 * numbers

  def to_json(self) -> dict[str, Any]:
    """Returns a dict for JSON."""
    document: dict[str, Any] = {
        "format": FORMAT, "name": self.name,
        "sites": {name: public.hex() for name, public in sorted(self.sites.items())},
        "schema": self.schema, "widths": list(self.widths),
        "limits": dataclasses.asdict(self.limits),
    }
    if self.privacy is None:
      return {**document, "exact": True}
    settings = {
        field.name: getattr(self.privacy, field.name)
        for field in dataclasses.fields(self.privacy)  # type: ignore[arg-type]
        if field.init and field.name not in ("trust", "min_clients")
    }
    if isinstance(self.privacy, multiview_config.PointPrivacy):
      settings["view_norms"] = list(self.privacy.view_norms)
    if settings.get("public_num_points", 0) is None:
      del settings["public_num_points"]
    return {**document, "privacy": {**settings, "min_sites": self.privacy.min_clients}}

  @classmethod
  def from_json(cls, document: Any) -> Federation:
    """Returns the federation of a JSON document; ValueError names the key at fault."""
    required = {"format", "name", "sites", "schema", "widths"}
    allowed = required | {"limits", "privacy", "exact"}
    if not isinstance(document, dict) or not required <= set(document) <= allowed:
      raise validate.error("federation", f"have the keys {', '.join(sorted(allowed))}", document)
    if document["format"] != FORMAT:
      raise validate.error("format", f"be {FORMAT}, which this version reads", document["format"])
    if not isinstance(document["widths"], list) or not document["widths"]:
      raise validate.error("widths", "be a list of numbers", document["widths"])
    if not isinstance(document["sites"], dict):
      raise validate.error("sites", "be an object of public keys by name", document["sites"])
    return cls(
        name=document["name"],
        sites={name: _key(name, key) for name, key in document["sites"].items()},
        schema=document["schema"], widths=tuple(document["widths"]),
        privacy=_privacy(document["privacy"]) if "privacy" in document else None,
        exact=document.get("exact", False),
        limits=_made("limits", Limits, document.get("limits", {})),
    )

  def write(self, path: str) -> None:
    """Writes the file."""
    atomic_file.write_text(path, json.dumps(self.to_json(), indent=2) + "\n")

  @classmethod
  def load(cls, path: str) -> Federation:
    """Returns the federation of a file; ValueError says in one line what is wrong with it."""
    try:
      with open(path, encoding="utf-8-sig") as file:
        return cls.from_json(json.load(file))
    except OSError as e:
      rule = f"be a file that can be read ({e.strerror})"
      raise validate.error("federation", rule, path) from e
    except (AttributeError, TypeError, ValueError, RecursionError) as e:
      raise ValueError(f"`federation` can't be used, got {path!r}: {e}") from e

  @property
  def hash(self) -> bytes:
    """That of all that is in it, however the file is written."""
    return hashlib.sha256(_canonical(self.to_json())).digest()

  @property
  def fingerprint(self) -> str:
    """The hash as groups of digits, to read out by telephone."""
    number = int.from_bytes(self.hash, "big") % 10 ** (_FINGERPRINT_GROUPS * _DIGITS_PER_GROUP)
    digits = f"{number:0{_FINGERPRINT_GROUPS * _DIGITS_PER_GROUP}}"
    starts = range(0, len(digits), _DIGITS_PER_GROUP)
    return " ".join(digits[start : start + _DIGITS_PER_GROUP] for start in starts)


def _key(name: str, text: Any) -> bytes:
  try:
    return bytes.fromhex(text)
  except (TypeError, ValueError):
    raise validate.error(f"sites[{name}]", _KEY_RULE, text) from None


def _made(key: str, kind: Any, document: Any) -> Any:
  """Returns an object of a class, made of a JSON object's values."""
  names = {field.name for field in dataclasses.fields(kind) if field.init}
  if not isinstance(document, dict) or not set(document) <= names:
    raise validate.error(key, f"have no keys but {', '.join(sorted(names))}", document)
  try:
    return kind(**document)
  except TypeError as e:
    raise validate.error(key, f"have the right keys ({e})", document) from e


def _privacy(document: Any) -> privacy_lib.Privacy:
  if not isinstance(document, dict) or "min_sites" not in document:
    raise validate.error("privacy", "be an object with `min_sites`", document)
  settings = dict(document)
  min_sites = settings.pop("min_sites")
  validate.integer(1, **{"privacy.min_sites": min_sites})
  if {"trust", "min_clients"} & set(settings):
    raise validate.error("privacy", "have no `trust` and `min_clients`", document)
  kind = next(kind for key, kind in _PRIVACIES.items() if key in settings or key is None)
  settings |= {"trust": privacy_lib.NONE, "min_clients": min_sites}
  privacy = _made("privacy", kind, settings)
  if not math.isfinite(privacy.epsilon):
    raise validate.error("privacy.epsilon", "be finite", privacy.epsilon)
  return privacy

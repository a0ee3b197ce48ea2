"""What all sites have agreed on before anything is asked: the federation file.

The sites hand it out among themselves, not the operator, and compare its fingerprint by telephone.
Nothing that is sent later changes it, and its hash is part of every key.  It is a JSON object:

*   `format`, 1, and `name`, for people.
*   `sites`: the public key of every site by name.
*   `schema`: the `schema_hash` of what their tables hold; `widths`: the number of features of every
    view, one number without views.
*   `limits`, which may be left out: the most `centers` of a question, `rounds` of a session and
    `sessions` of a site.
*   Either `privacy` or `"exact": true`.  Privacy has the settings of `PointPrivacy`, of
    `ClientPrivacy` (with `max_points`) or of `ViewPrivacy` (with `view_norms`), and `min_sites`,
    the sites whose shares of the noise count, in the place of `trust` and `min_clients`.
"""

from __future__ import annotations

import hashlib
import json
import textwrap
from typing import Any

from clustering_basics import validate
from dp_clustering import clustering_params
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.sites import identity as identity_lib
from fl_clustering.tables import schema as schema_lib

_FORMAT = 1
_REQUIRED = {"format", "name", "sites", "schema", "widths"}
_KEYS = _REQUIRED | {"limits", "privacy", "exact"}
# With two, each would know the other's part of every sum.
FEWEST_SITES = 3
_MOST_SITES = 1000
_MOST_COLUMNS = 2**16
# The default of every limit and the largest that it may be.
_LIMITS = {"centers": (1024, 2**16), "rounds": (1000, 10**6), "sessions": (100, 10**6)}
_FINGERPRINT_GROUPS, _DIGITS_PER_GROUP = 8, 6  # 2^159: nobody makes two files that look alike.
# What files of text look like, which may differ from site to site.
_OF_FILES = ("dialect", "missingValues")


def _sha256(document: Any) -> bytes:
  """Returns the hash of a JSON document, whatever its keys' order and its blanks."""
  text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
  return hashlib.sha256(text.encode()).digest()


def _canonical(value: Any) -> Any:
  """Returns a JSON value in which equal numbers, such as 0, 0.0 and -0.0, are one text."""
  if isinstance(value, dict):
    return {key: _canonical(one) for key, one in value.items()}
  if isinstance(value, list):
    return [_canonical(one) for one in value]
  return float(value) + 0.0 if type(value) in (int, float) else value


def schema_hash(schemas: schema_lib.Schemas) -> str:
  """Returns the hash of what tables hold; dialects may differ."""
  return _sha256(_canonical({
      view: {key: value for key, value in one.to_json().items() if key not in _OF_FILES}
      for view, one in schemas.items()
  })).hex()


def _bytes_of(argument: str, text: Any) -> bytes:
  try:
    found = bytes.fromhex(text)
  except (TypeError, ValueError):
    found = b""
  if len(found) != identity_lib.KEY_BYTES:
    raise validate.error(argument, f"be {2 * identity_lib.KEY_BYTES} hexadecimal digits", text)
  return found


class Federation:
  """The contents of a federation file, checked.

  Attributes:
    sites: The raw public keys by the sites' names, in order.
    schema: The `schema_hash`.
    widths: Of every view, the number of its features.
    limits: By name.
    privacy: What every site guarantees by itself, whatever is asked; its `min_clients` are
      `min_sites`.  None for exact sums.
  """

  def __init__(self, document: Any) -> None:
    """Checks a JSON document; ValueError names the key at fault."""
    schema_lib.check_object(document, "federation", _KEYS, _REQUIRED)
    self.document = document
    if document["format"] != _FORMAT:
      raise validate.error("format", f"be {_FORMAT}, which this version reads", document["format"])
    validate.instance(str, name=document["name"])
    schema_lib.check_object(document["sites"], "sites")
    sites = sorted(document["sites"].items())
    self.sites = {name: _bytes_of(f"sites[{name}]", key) for name, key in sites}
    for name in self.sites:
      identity_lib.check_name(sites=name)
    num_keys = len(set(self.sites.values()))
    if not FEWEST_SITES <= num_keys <= _MOST_SITES or num_keys < len(self.sites):
      rule = f"have {FEWEST_SITES} to {_MOST_SITES} keys that differ: of two, each knows the other"
      raise validate.error("sites", rule, list(self.sites))
    self.schema = _bytes_of("schema", document["schema"]).hex()
    widths = document["widths"]
    if not isinstance(widths, list) or not widths:
      raise validate.error("widths", "be a list of numbers", widths)
    for width in widths:
      validate.integer(1, widths=width)
    validate.integer(1, _MOST_COLUMNS, **{"the sum of widths": sum(widths)})
    self.widths = tuple(widths)
    schema_lib.check_object(limits := document.get("limits", {}), "limits", _LIMITS)
    self.limits = {name: limits.get(name, default) for name, (default, _) in _LIMITS.items()}
    for name, (_, most) in _LIMITS.items():
      validate.integer(1, most, **{f"limits.{name}": self.limits[name]})
    if document.get("exact", True) is not True:
      raise validate.error("exact", "be true, or left out", document["exact"])
    if ("exact" in document) == ("privacy" in document):
      raise ValueError(
          "`privacy` must be given, or `exact` be true and say that sums have no noise, got "
          f"{'both' if 'privacy' in document else 'neither'}."
      )
    self.privacy = self._checked_privacy(document["privacy"]) if "privacy" in document else None

  def _checked_privacy(self, document: Any) -> privacy_lib.Privacy:
    schema_lib.check_object(document, "privacy")
    settings = {key: value for key, value in document.items() if key != "min_sites"}
    min_sites = document.get("min_sites")
    validate.integer(1, len(self.sites), **{"privacy.min_sites": min_sites})
    if len(self.widths) > 1 and "view_norms" not in settings:
      raise validate.error("privacy.view_norms", "be given with several views", None)
    try:
      privacy = privacy_lib.privacy_of(**settings, trust=privacy_lib.NONE, min_clients=min_sites)
    except TypeError as e:
      raise ValueError(f"`privacy` must have the right keys: {e}.") from e
    if isinstance(privacy, privacy_lib.ViewPrivacy):
      privacy.check_views(len(self.widths))
    return privacy

  @property
  def num_columns(self) -> int:
    return sum(self.widths)

  @property
  def most_bytes(self) -> int:
    """More than any message is long."""
    numbers = (self.limits["centers"] + 90) * (4 * self.num_columns + 64)
    return 2**16 + 2**9 * len(self.sites) + 8 * numbers

  @property
  def terms(self) -> list[str]:
    """What people must know of the sums before they agree to them, in lines."""
    if self.privacy is None:
      return ["sums: EXACT, without noise; they can show rows to the operator"]
    unit = "row" if self.privacy.points_per_client is None else "client"
    warnings = clustering_params.budget_warnings(self.privacy.epsilon, self.privacy.delta, unit)
    settings = ", ".join(f"{name} {value}" for name, value in self.document["privacy"].items())
    return [f"sums: with noise for every {unit}, {settings}", *(f"warning: {w}" for w in warnings)]

  @property
  def hash(self) -> bytes:
    return _sha256(self.document)

  @property
  def fingerprint(self) -> str:
    """The hash as groups of digits, to read out by telephone."""
    num_digits = _FINGERPRINT_GROUPS * _DIGITS_PER_GROUP
    digits = f"{int.from_bytes(self.hash, 'big') % 10**num_digits:0{num_digits}}"
    return " ".join(textwrap.wrap(digits, _DIGITS_PER_GROUP))

  def write(self, path: str) -> None:
    """Writes the file."""
    schema_lib.write_document(path, self.document)

  @classmethod
  def load(cls, path: str) -> Federation:
    """Returns the federation of a file; ValueError says in one line what is wrong with it."""
    return schema_lib.read_document(path, cls, "federation")

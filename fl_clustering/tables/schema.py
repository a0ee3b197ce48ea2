"""What clients' tables hold: a Table Schema, of which a part is understood.

The format is that of the Frictionless standard (https://specs.frictionlessdata.io/table-schema/),
so other tools check the same file.  Every key that docs/own_data.md does not list is refused by its
name.  Not in the standard are `label`, `client`, `split` and `missing`, and a field's `center` and
`scale`; there, `delimiter` is a resource's and `decimalChar` a field's.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import math
import re
from typing import Any, Callable, Collection, Iterable, Mapping, Sequence, TypeVar

from clustering_basics import atomic_file
from clustering_basics import validate
from fl_clustering.tables import bad_table

_Parsed = TypeVar("_Parsed")
# The roles of columns, and what arguments call them.
ROLES = {
    "label": "label_column", "client": "client_column", "split": "split_column", "key": "row_key",
}
SPLIT = ("train", "test")
# The standard's, of text files.
BOOLEANS = {
    **dict.fromkeys(("true", "True", "TRUE", "1"), 1.0),
    **dict.fromkeys(("false", "False", "FALSE", "0"), 0.0),
}
NO_VIEW = ""
# The comma is the last one, as names may have commas.
DELIMITERS = (";", "\t", "|", ",")
# No number may be farther from zero: sums of squares stay finite.
LARGEST = 1e100
# In private runs, features are moved to so many scales from their center.
LIMIT = 5.0
_LEAST_SCALE = 1e-100

_KEYS = {
    "schema": (
        "fields", "primaryKey", "label", "client", "split", "missingValues", "missing", "dialect",
        "$schema", "title", "description",
    ),
    "dialect": ("delimiter", "decimalChar"),
    "field": ("name", "type", "constraints", "center", "scale", "title", "description"),
    "constraints": ("minimum", "maximum", "enum"),
}
_NAMES_OF_ROLES = {"key": "primaryKey"}


@dataclasses.dataclass(frozen=True)
class Field:
  """A column.

  Attributes:
    name: That of the column.
    type: `number`, `integer`, `boolean` or `string`.
    minimum: The least number that a cell may hold; None for any.
    maximum: The largest one.
    enum: The levels of a string; None for any text.
    center: What is subtracted from numbers; public.
    scale: What they are divided by then.
  """

  name: str
  type: str = "number"
  minimum: float | None = None
  maximum: float | None = None
  enum: tuple[str, ...] | None = None
  center: float | None = None
  scale: float | None = None

  def __post_init__(self) -> None:
    key = f"fields[{self.name}]"
    validate.one_of(("number", "integer", "boolean", "string"), **{f"{key}.type": self.type})
    limits = f"{key}.constraints"
    of_numbers = {
        f"{limits}.minimum": self.minimum, f"{limits}.maximum": self.maximum,
        f"{key}.center": self.center, f"{key}.scale": self.scale,
    }
    for name, value in of_numbers.items():
      if value is not None and not self.is_numeric:
        raise validate.error(name, "be left out but of numbers and integers", value)
      if value is not None:
        validate.within(-LARGEST, LARGEST, **{name: value})
    if self.minimum is not None and self.maximum is not None:
      if self.maximum / 2 - self.minimum / 2 < _LEAST_SCALE:
        raise validate.error(f"{limits}.maximum", f"be above {self.minimum:g}", self.maximum)
    if (self.center is None) != (self.scale is None):
      raise validate.error(f"{key}.scale", "be given with `center`, and only then", self.scale)
    if self.scale is not None:
      validate.within(_LEAST_SCALE, LARGEST, **{f"{key}.scale": self.scale})
    if self.enum is not None:
      if self.type != "string":
        raise validate.error(f"{limits}.enum", "be left out but of strings", list(self.enum))
      _check_texts(f"{limits}.enum", self.enum)

  @property
  def is_numeric(self) -> bool:
    return self.type in ("number", "integer")

  @property
  def bounds(self) -> tuple[float, float]:
    """The least and the largest value of a feature; infinite for none."""
    if not self.is_numeric:
      return 0.0, 1.0
    return (
        -math.inf if self.minimum is None else self.minimum,
        math.inf if self.maximum is None else self.maximum,
    )

  @property
  def public_scaling(self) -> tuple[float, float] | None:
    """Public center and scale, which `minimum` and `maximum` give in place of own ones.

    Equally likely levels, and true and false, have a total variance of one with it (see
    `grid_scaling`).
    """
    if self.type == "boolean":
      return 0.5, 0.5
    if not self.is_numeric:
      num_levels = len(self.feature_names)
      return 0.0, math.sqrt(1 - 1 / num_levels) if num_levels > 1 else 1.0
    if self.center is not None and self.scale is not None:
      return self.center, self.scale
    if self.minimum is None or self.maximum is None:
      return None
    # Halves first: the sum of two large numbers is not finite.
    return self.minimum / 2 + self.maximum / 2, self.maximum / 2 - self.minimum / 2

  @property
  def feature_names(self) -> tuple[str, ...]:
    """The names of its features: every level is one."""
    return (self.name,) if self.enum is None else tuple(f"{self.name}={e}" for e in self.enum)

  def to_json(self) -> dict[str, Any]:
    """Returns a dict for JSON."""
    constraints = {"minimum": self.minimum, "maximum": self.maximum,
                   "enum": self.enum and list(self.enum)}
    document = {
        "name": self.name, "type": self.type, "constraints": _given(constraints) or None,
        "center": self.center, "scale": self.scale,
    }
    return _given(document)

  @classmethod
  def from_json(cls, document: Any, place: int) -> Field:
    """Returns the field of a JSON object, which is at some place in the list."""
    name = document.get("name") if isinstance(document, dict) else None
    key = f"fields[{name or place}]"
    check_object(document, key, _KEYS["field"], ("name", "type"))
    constraints = document.get("constraints", {})
    check_object(constraints, f"{key}.constraints", _KEYS["constraints"])
    values = {**document, **constraints}
    for for_readers in ("constraints", "title", "description"):
      values.pop(for_readers, None)
    if "enum" in values:
      values["enum"] = _listed(values["enum"], f"{key}.constraints.enum")
    return cls(**values)


@dataclasses.dataclass(frozen=True)
class Schema:
  """What clients' tables hold, checked when made.

  Attributes:
    fields: The columns that are used.
    label: The one that holds the classes.
    client: The one that says whose row it is, where a table holds the rows of several clients.
    split: The one that says `train` or `test`.
    key: The one that names the rows, `primaryKey`.
    missing_values: Cells that are missing.
    missing: What becomes of them: `error` or `mean`.
    delimiter: What stands between the cells of text files, one of `DELIMITERS`.
    decimal: The decimal mark of text files.
    is_later: Whether the rows come after a model, so that labels may be missing; in no document.
    clips: Whether a number outside of its bounds becomes the nearer of them; in no document.
  """

  fields: tuple[Field, ...]
  label: str | None = None
  client: str | None = None
  split: str | None = None
  key: str | None = None
  missing_values: tuple[str, ...] = ("",)
  missing: str = "error"
  delimiter: str = ","
  decimal: str = "."
  is_later: bool = False
  clips: bool = False

  def __post_init__(self) -> None:
    _check_texts("fields", [field.name for field in self.fields])
    users: dict[str, str] = {}
    for role in ROLES:
      name, key = getattr(self, role), _NAMES_OF_ROLES.get(role, role)
      if name is None:
        continue
      if not isinstance(name, str) or name not in self._by_name:
        raise validate.error(key, "be the name of a field", name)
      if name in users:
        raise validate.error(key, f"be another field than `{users[name]}`", name)
      if self._by_name[name].type != "string":
        raise validate.error(
            f"fields[{name}].type", f"be string for `{key}`", self._by_name[name].type
        )
      users[name] = key
    if not self.features:
      raise validate.error("fields", "hold a feature", [field.name for field in self.fields])
    for field in self.features:
      if field.type == "string" and field.enum is None:
        raise validate.error(
            f"fields[{field.name}].constraints.enum", "list the levels of a feature", None
        )
    _check_texts("fields", self.feature_names)  # Levels have names, too.
    for text in self.missing_values:
      if not isinstance(text, str):
        raise validate.error("missingValues", "hold texts", text)
      for field in self.fields:
        if text in (field.enum or ()):
          raise validate.error(
              f"fields[{field.name}].constraints.enum", "hold no value of `missingValues`", text
          )
    validate.one_of(("error", "mean"), missing=self.missing)
    validate.one_of((".", ","), **{"dialect.decimalChar": self.decimal})
    if self.delimiter not in DELIMITERS:
      rule = f"be one of {', '.join(map(repr, DELIMITERS))}"
      raise validate.error("dialect.delimiter", rule, self.delimiter)

  @property
  def _by_name(self) -> dict[str, Field]:
    return {field.name: field for field in self.fields}

  @property
  def roles(self) -> dict[str, str]:
    """The columns that are no features by their role."""
    return {role: getattr(self, role) for role in ROLES if getattr(self, role) is not None}

  @property
  def features(self) -> tuple[Field, ...]:
    """The columns that are features."""
    roles = {getattr(self, role) for role in ROLES}
    return tuple(field for field in self.fields if field.name not in roles)

  @property
  def feature_names(self) -> tuple[str, ...]:
    """The names of the features, each level being one."""
    return tuple(name for field in self.features for name in field.feature_names)

  @property
  def field_widths(self) -> tuple[int, ...]:
    """How many features each of the columns that are features becomes."""
    return tuple(len(field.feature_names) for field in self.features)

  @property
  def feature_shape(self) -> tuple[int, ...]:
    """The shape of a row's features: an image's if they are all its pixels, by `array_names`."""
    names = self.feature_names
    last = re.fullmatch("x([0-9]{1,9})_([0-9]{1,9})_([0-9]{1,9})", names[-1])
    shape = tuple(int(place) + 1 for place in last.groups()) if last else ()
    is_image = last and math.prod(shape) == len(names) and names == array_names(shape)
    return shape if is_image else (len(names),)

  @property
  def classes(self) -> tuple[str, ...] | None:
    """The classes in their order; None where there is no label, or its field does not say."""
    return None if self.label is None else self._by_name[self.label].enum

  def without(self, *roles: str) -> Schema:
    """Returns the schema of tables that lack the columns of some roles."""
    names = [getattr(self, role) for role in roles]
    fields = tuple(field for field in self.fields if field.name not in names)
    nothing: dict[str, Any] = dict.fromkeys(roles)
    return dataclasses.replace(self, fields=fields, **nothing)

  def with_classes(self, classes: Sequence[str]) -> Schema:
    """Returns the schema whose label has these classes alone."""
    fields = tuple(
        dataclasses.replace(field, enum=tuple(classes)) if field.name == self.label else field
        for field in self.fields
    )
    return dataclasses.replace(self, fields=fields)

  def check_private(self) -> None:
    """Raises a ValueError unless all that rows must not decide is public in it."""
    for field in self.features:
      if field.public_scaling is None:
        raise validate.error(
            f"fields[{field.name}].constraints",
            "have `minimum` and `maximum` in a private run, unless the field has `center` and "
            "`scale`", field.to_json().get("constraints"),
        )
      (center, scale), (low, high) = field.public_scaling, field.bounds
      if low > center + LIMIT * scale or high < center - LIMIT * scale:
        raise validate.error(
            f"fields[{field.name}].center", f"be within {LIMIT:g} scales of the bounds", center
        )
    if self.label is not None and self.classes is None:
      raise validate.error(
          f"fields[{self.label}].constraints.enum", "list the classes in a private run", None
      )

  def to_json(self) -> dict[str, Any]:
    """Returns a dict for JSON."""
    dialect = {"delimiter": self.delimiter, "decimalChar": self.decimal}
    return {
        "fields": [field.to_json() for field in self.fields],
        **{_NAMES_OF_ROLES.get(role, role): name for role, name in self.roles.items()},
        "missingValues": list(self.missing_values), "missing": self.missing, "dialect": dialect,
    }

  @classmethod
  def from_json(cls, document: Any) -> Schema:
    """Returns the schema of a JSON document; ValueError names the key at fault."""
    check_object(document, "schema", _KEYS["schema"])
    fields = _listed(document.get("fields"), "fields")
    dialect = document.get("dialect", {})
    check_object(dialect, "dialect", _KEYS["dialect"])
    return cls(
        tuple(Field.from_json(field, place) for place, field in enumerate(fields)),
        **{role: document.get(_NAMES_OF_ROLES.get(role, role)) for role in ROLES},
        missing_values=_listed(document.get("missingValues", [""]), "missingValues"),
        missing=document.get("missing", "error"), delimiter=dialect.get("delimiter", ","),
        decimal=dialect.get("decimalChar", "."),
    )

  def write(self, path: str) -> None:
    """Writes the schema to a file."""
    write_document(path, self.to_json())


# The schemas of tables by view; those of tables without views are of `NO_VIEW`.
Schemas = Mapping[str, Schema]


def in_view(view: str, name: str) -> str:
  """Returns the name among all views' of what has a name in one."""
  return name if view == NO_VIEW else f"{view}: {name}"


def feature_names(schemas: Schemas) -> tuple[str, ...]:
  """Returns the names of the features of all views."""
  return tuple(in_view(view, name) for view, one in schemas.items() for name in one.feature_names)


def load(path: str) -> Schema:
  """Returns the schema of a file; ValueError says in one line what is wrong with it."""
  return read_document(path, Schema.from_json)


def write_document(path: str, document: Mapping[str, Any]) -> None:
  """Writes a JSON document for people."""
  text = json.dumps(document, indent=2, ensure_ascii=False)
  atomic_file.write_text(path, f"{text}\n")


def read_document(
    path: str, parse: Callable[[Any], _Parsed], argument: str = "schema"
) -> _Parsed:
  """Returns what a function makes of the JSON document in a file, in which no key stands twice.

  Args:
    argument: What errors call it.

  Raises:
    ValueError: If it can't be read, or the function raises one.
  """
  try:
    # Some editors begin a file with a byte order mark.
    with open(path, encoding="utf-8-sig") as file:
      return parse(json.load(file, object_pairs_hook=_without_repetitions))
  except OSError as e:
    raise validate.error(argument, f"be a file that can be read ({e.strerror})", path) from e
  except (
      ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError
  ) as e:
    raise ValueError(f"`{argument}` can't be used, got {path!r}: {e}") from e


def strict(
    header: Sequence[str], *, label: str | None = None, client: str | None = None,
    split: str | None = None, key: str | None = None, exclude: Iterable[str] = (),
) -> Schema:
  """Returns the schema of a run without one: every column is a number, but those that are named.

  Args:
    header: The names of the columns.
    exclude: Those that are not used.
  """
  excluded = set(exclude)
  roles: dict[str, Any] = {"label": label, "client": client, "split": split, "key": key}
  check_given(header, exclude=excluded, **roles)
  fields = tuple(
      Field(name, "string" if name in roles.values() else "number")
      for name in header if name not in excluded
  )
  schema = Schema(fields, **roles)
  if are_numbers(header):
    raise ValueError("the names of all columns are numbers, as if they were a row")
  return schema


def are_numbers(names: Iterable[str]) -> bool:
  """Returns whether all names of columns are numbers, as those of a file without names."""
  return all(re.fullmatch(bad_table.NUMBER, name.strip()) for name in names)


def check_given(
    columns: Collection[str], *, exclude: Iterable[str] = (), **roles: str | None
) -> None:
  """Raises a ValueError unless the columns that arguments name are there."""
  named = [*(("exclude", name) for name in exclude), *((ROLES[r], roles[r]) for r in roles)]
  for argument, name in named:
    if name is not None and name not in columns:
      raise validate.error(argument, f"name a column of {bad_table.listed(columns)}", name)


def array_names(shape: Sequence[int]) -> tuple[str, ...]:
  """Returns the columns of an array's rows of some shape: x0, x1, ...; of images x0_0_0, ...."""
  places = itertools.product(*map(range, shape))
  return tuple("x" + "_".join(map(str, place)) for place in places)


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
  return {name: value for name, value in values.items() if value is not None}


def check_object(
    document: Any, name: str, keys: Collection[str] | None = None, required: Collection[str] = ()
) -> None:
  """Raises a ValueError unless a document is an object with no keys but these; None for any."""
  if not isinstance(document, dict):
    raise validate.error(name, "be an object", document)
  if not {*required} <= set(document):
    raise validate.error(name, f"have {', '.join(sorted(required))}", document)
  for key in document:
    if keys is not None and key not in keys:
      raise validate.error(name, f"have no keys but {', '.join(sorted(keys))}", key)


def _check_texts(key: str, texts: Sequence[Any]) -> None:
  """Raises a ValueError unless these are different texts, one at least."""
  if not texts:
    raise validate.error(key, "hold at least one", list(texts))
  for text, number in collections.Counter(texts).items():
    if not isinstance(text, str) or not text:
      raise validate.error(key, "hold texts", text)
    if number > 1:
      raise validate.error(key, "hold each only once", text)


def _listed(values: Any, key: str) -> tuple[Any, ...]:
  """Returns what a list holds; ValueError if it is none."""
  if not isinstance(values, list):
    raise validate.error(key, "be a list", values)
  return tuple(values)


def _without_repetitions(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  """Returns a dict of a JSON object's pairs; ValueError if a key is there twice."""
  for key, number in collections.Counter(key for key, _ in pairs).items():
    if number > 1:
      raise validate.error(key, "be a key once", number)
  return dict(pairs)

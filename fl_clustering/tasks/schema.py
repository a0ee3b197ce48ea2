"""A public schema of clients' tables: what may not be found out from private rows.

A JSON file says which columns are used, the centers and scales of numbers, the levels of
categories, the classes, and how text files are written.  `private_clients.py` reads tables with it.
"""

from __future__ import annotations

import collections
import dataclasses
import json
from typing import Any, Iterable

import numpy as np

from clustering_basics import atomic_file
from clustering_basics import validate
from fl_clustering.points import given_clients
from fl_clustering.tables import cells
from fl_clustering.tables import client_tables
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tables import problems
from fl_clustering.tables import table_format
from fl_clustering.tables import table_options
from fl_clustering.tables import text_files
from fl_clustering.tasks import model as model_lib
from fl_clustering.tasks import models

# Scaled numbers are moved into [-LIMIT, LIMIT].
LIMIT = 5.0
_NUMBER, _LEVELS = "number", "levels"
_LEAST_SCALE = 1 / given_clients.LARGEST
# From a kind to the further keys of a feature of that kind.
_KEYS_OF_KIND = {_NUMBER: ("center", "scale"), _LEVELS: ("levels",)}
# What may become of missing cells of a sample, by the names of `TableOptions.missing`.
MISSING = {
    table_options.ERROR: table_options.MISSING[table_options.ERROR],
    table_options.MEAN: "it is left out of its column's mean and deviation",
}
# What a sample's options may not say, as a schema can't.
NOT_SAID = ("encoding", "skip_lines", "comment", "thousands", "strip_units")
_ROLES = ("label_column", "split_column", "client_column")


def positions(column: Iterable[Any], names: Iterable[str]) -> np.ndarray:
  """Returns the positions of cells' levels among names, int32 of shape (n,); -1 for others."""
  position = {name: index for index, name in enumerate(names)}
  found = [
      -1 if cell is None else position.get(table_format.level_of(cell), -1) for cell in column
  ]
  return np.array(found, np.int32)


@dataclasses.dataclass(frozen=True)
class Number:
  """A column of numbers: (number - center) / scale, moved into [-LIMIT, LIMIT], is a feature."""

  name: str
  center: float
  scale: float

  @property
  def feature_names(self) -> tuple[str, ...]:
    """The names of its features."""
    return (self.name,)

  def check(self, key: str) -> None:
    """Raises a ValueError unless it can be used; messages call it `key`."""
    validate.within(-given_clients.LARGEST, given_clients.LARGEST, **{f"{key}.center": self.center})
    validate.within(_LEAST_SCALE, given_clients.LARGEST, **{f"{key}.scale": self.scale})

  def encode(self, column: np.ndarray) -> np.ndarray:
    """Returns its features, of shape (n, 1); what is not finite becomes 0."""
    scaled = (np.where(np.isfinite(column), column, self.center) - self.center) / self.scale
    return np.clip(scaled, -LIMIT, LIMIT)[:, np.newaxis]

  def to_json(self) -> dict[str, Any]:
    """Returns a dict for JSON."""
    return {"name": self.name, "kind": _NUMBER, "center": self.center, "scale": self.scale}


@dataclasses.dataclass(frozen=True)
class Levels:
  """A column of levels, each of which is a feature: 1 where a row has it, and else 0."""

  name: str
  levels: tuple[str, ...]

  @property
  def feature_names(self) -> tuple[str, ...]:
    """The names of its features."""
    return tuple(f"{self.name}={level}" for level in self.levels)

  def check(self, key: str) -> None:
    """Raises a ValueError unless it can be used; messages call it `key`."""
    _check_texts(self.levels, f"{key}.levels", 1)

  def encode(self, column: np.ndarray) -> np.ndarray:
    """Returns its features, of shape (n, number of levels); zeros for any other level."""
    return positions(column, self.levels)[:, np.newaxis] == np.arange(len(self.levels))

  def to_json(self) -> dict[str, Any]:
    """Returns a dict for JSON."""
    return {"name": self.name, "kind": _LEVELS, "levels": list(self.levels)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schema:
  """What is public of clients' tables, checked when made.

  Attributes:
    note: For readers.
    features: The columns that are features, in their order.
    label_column: The column of the classes.
    classes: These in their order; numbers as `table_format.level_of` writes them.
    split_column: Says `train` or `test` of every row.
    test_share: Without `split_column`, the share of a client's rows that is for testing; None for
      the default.
    client_column: Says whose row it is, where a table holds the rows of several clients.
    header: Whether line 1 of text files has the names of the columns, `yes` or `no`.  With `no`,
      they are column_1, column_2, and so on.
    separator: What stands between the cells of text files; None to find it out from line 1 of each
      file, if that has the names.
    decimal: Their decimal mark, "." or ",".
  """

  note: str | None = None
  features: tuple[Number | Levels, ...]
  label_column: str
  classes: tuple[str, ...]
  split_column: str | None = None
  test_share: float | None = None
  client_column: str | None = None
  header: str
  separator: str | None = None
  decimal: str = "."

  def __post_init__(self) -> None:
    if not self.features:
      raise validate.error("features", "hold at least one column", [])
    for index, feature in enumerate(self.features):
      feature.check(f"features[{index}]")
    self._check_text_files()
    _check_texts(self.classes, "classes", 2)
    self._check_columns()
    if self.test_share is not None:
      if self.split_column is not None:
        raise validate.error("test_share", "be left out with `split_column`", self.test_share)
      validate.between(0, 1, test_share=self.test_share)
    if self.note is not None:
      _check_type(str, "be text", "note", self.note)

  def _check_columns(self) -> None:
    names = {f"features[{index}].name": one.name for index, one in enumerate(self.features)}
    names |= {"label_column": self.label_column, **self._roles}
    users: dict[str, str] = {}
    for key, name in names.items():
      _check_text(name, key)
      if name in users:
        raise validate.error(key, f"name another column than `{users[name]}`", name)
      users[name] = key
      if self.header == table_options.NO and not text_files.UNNAMED.fullmatch(name):
        raise validate.error(key, "be column_1, column_2, or so on with `header` no", name)

  def _check_text_files(self) -> None:
    validate.one_of((table_options.YES, table_options.NO), header=self.header)
    validate.one_of((".", ","), decimal=self.decimal)
    if self.separator is None:
      if self.header == table_options.NO:
        raise validate.error("separator", "be given with `header` no", None)
    elif not isinstance(self.separator, str) or len(self.separator) != 1:
      raise validate.error("separator", "be one character", self.separator)
    elif self.separator == self.decimal:
      raise validate.error("separator", "differ from `decimal`", self.separator)

  @property
  def _roles(self) -> dict[str, Any]:
    return {role: getattr(self, role) for role in _ROLES if getattr(self, role) is not None}

  @property
  def options(self) -> table_options.TableOptions:
    """How tables are read."""
    return table_options.TableOptions(
        columns=tuple(feature.name for feature in self.features), **self._roles,
        separator=self.separator, decimal=self.decimal, header=self.header, allow_any_number=True,
    )

  @property
  def columns(self) -> columns_lib.Columns:
    """The columns that are used."""
    names = tuple(feature.name for feature in self.features)
    with_levels = tuple(one.name for one in self.features if isinstance(one, Levels))
    return columns_lib.Columns(names, with_levels, self._roles)

  @property
  def feature_names(self) -> tuple[str, ...]:
    """The names of the features, each level being one."""
    return tuple(name for feature in self.features for name in feature.feature_names)

  def build_model(self, name: str, **options: Any) -> model_lib.Model:
    """Returns the model of `models.MODELS` for such rows; ValueError if it does not take them."""
    return models.build(
        name, (len(self.feature_names),), len(self.classes), "float32", **options
    )

  def to_json(self) -> dict[str, Any]:
    """Returns a dict for JSON, without keys that have their defaults."""
    document: dict[str, Any] = {}
    for field in dataclasses.fields(self):
      value = getattr(self, field.name)
      if value != field.default:
        document[field.name] = list(value) if isinstance(value, tuple) else value
    document["features"] = [feature.to_json() for feature in self.features]
    return document

  @classmethod
  def from_json(cls, document: Any) -> Schema:
    """Returns the schema of a document as `to_json` returns it; ValueError names the key at fault.

    Levels and classes may be text, numbers, or true and false.
    """
    needed = ("features", "label_column", "classes", "header")
    _check_keys(document, "", needed, [field.name for field in dataclasses.fields(cls)])
    values = {key: value for key, value in document.items() if value is not None}
    _check_type(list, "be a list", "features", values["features"])
    values["features"] = tuple(
        _feature_from_json(one, f"features[{index}]")
        for index, one in enumerate(values["features"])
    )
    values["classes"] = _levels_from_json(values["classes"], "classes")
    return cls(**values)

  @classmethod
  def read(cls, path: str) -> Schema:
    """Returns the schema of a file; ValueError says in one line what is wrong with it."""
    try:
      # Some editors begin a file with a byte order mark.
      with open(path, encoding="utf-8-sig") as file:
        return cls.from_json(json.load(file, object_pairs_hook=_without_repetitions))
    except OSError as e:
      raise ValueError(
          f"`schema` must be a file that can be read, got {path!r}: {e.strerror}."
      ) from e
    except (ValueError, RecursionError) as e:
      reason = str(e).rstrip(".")
      raise ValueError(
          f"`schema` must follow the format of schemas, got {path!r}: {reason}."
      ) from e

  def write(self, path: str) -> None:
    """Writes the schema to a file."""
    text = json.dumps(self.to_json(), indent=2, ensure_ascii=False)
    atomic_file.write_text(path, f"{text}\n")


def _check_text(value: Any, key: str) -> None:
  """Raises a ValueError unless a value is text as cells hold it, which are trimmed."""
  if not isinstance(value, str) or not value or value != value.strip():
    raise validate.error(key, "be text without blanks at its ends", value)


def _check_texts(values: tuple[str, ...], key: str, least: int) -> None:
  """Raises a ValueError unless values are so many levels, or more, that cells can have."""
  if len(values) < least:
    raise validate.error(key, f"hold at least {least}", list(values))
  for index, value in enumerate(values):
    _check_text(value, key)
    if cells.is_missing(value):
      raise validate.error(key, "hold none that means a missing cell", value)
    if table_format.level_of(value) != value:
      raise validate.error(key, f"hold {table_format.level_of(value)!r} instead", value)
    if value in values[:index]:
      raise validate.error(key, "hold each only once", value)


def _check_type(kind: type | tuple[type, ...], rule: str, key: str, value: Any) -> None:
  if not isinstance(value, kind):
    raise validate.error(key, rule, value)


def _check_keys(document: Any, key: str, needed: Iterable[str], known: Iterable[str]) -> None:
  """Raises a ValueError unless a document is an object with these keys; messages call it `key`."""
  _check_type(dict, "be an object", key or "schema", document)
  prefix = f"{key}." if key else ""
  for name in document:
    if name not in known:
      raise ValueError(
          f"`{key or 'schema'}` must have no keys but {', '.join(known)}, got {name!r}."
      )
  for name in needed:
    if document.get(name) is None:
      raise validate.error(prefix + name, "be given", None)


def _levels_from_json(values: Any, key: str) -> tuple[str, ...]:
  _check_type(list, "be a list", key, values)
  levels = []
  for value in values:
    _check_type((str, int, float), "hold texts or numbers", key, value)
    text = value.strip() if isinstance(value, str) else json.dumps(value)
    levels.append(table_format.level_of(text))
  return tuple(levels)


def _feature_from_json(document: Any, key: str) -> Number | Levels:
  _check_type(dict, "be an object", key, document)
  kind = document.get("kind")
  validate.one_of(tuple(_KEYS_OF_KIND), **{f"{key}.kind": kind})
  keys = ("name", "kind", *_KEYS_OF_KIND[kind])
  _check_keys(document, key, keys, keys)
  if kind == _LEVELS:
    return Levels(document["name"], _levels_from_json(document["levels"], f"{key}.levels"))
  return Number(document["name"], document["center"], document["scale"])


def _without_repetitions(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  """Returns a dict of a JSON object's pairs; ValueError if a key is there twice."""
  document = dict(pairs)
  if len(document) < len(pairs):
    (name, _), *_ = collections.Counter(name for name, _ in pairs).most_common(1)
    raise validate.error(name, "be a key once", [value for key, value in pairs if key == name])
  return document


def _numbers_of(tables: client_tables.ClientTables) -> dict[str, Number]:
  """Returns the columns of numbers of a sample by name, with their means and deviations."""
  features = np.concatenate([tables.read(client_id).features for client_id in tables.client_ids])
  means, deviations = np.nanmean(features, axis=0), np.nanstd(features, axis=0)
  is_constant = deviations <= np.maximum(1e-12 * np.abs(means), _LEAST_SCALE)
  scales = np.where(is_constant, 1, deviations)
  names = tables.format.columns.numbers
  places = tables.format.encoding.first_encoded(names)
  return {
      name: Number(name, float(means[place]), float(scales[place]))
      for name, place in zip(names, places)
  }


def _open(data_dir: str, options: table_options.TableOptions) -> client_tables.ClientTables:
  """Returns a sample's tables; no error hints at an option that a schema can't say."""
  try:
    return client_tables.open_folder(data_dir, options)
  except problems.UnusableTables as e:
    hints = [hint for one in e.findings for hint in one.hints if "--decimal" not in hint]
    hinted = [
        name for name in NOT_SAID
        if any(name in one.fix for one in e.findings) or any(f"--{name}" in hint for hint in hints)
    ]
    if hinted:
      raise ValueError(
          f"{e.problem}; a schema can't say --{hinted[0]}, so the files must be changed."
      ) from e
    raise


def draft(
    data_dir: str, options: table_options.TableOptions, test_share: float | None = None
) -> Schema:
  """Returns the schema of a public sample of tables, which becomes public with it.

  Centers and scales are means and standard deviations (1 for a constant column).

  Args:
    options: How the sample is read; cells that are missing are left out of means with `missing`.

  Raises:
    ValueError: If the sample can't be used.
    OSError: If a file can't be read.
  """
  label_column = options.label_column
  if label_column is None:
    raise validate.error("label_column", "be given for a schema", None)
  if options.missing not in MISSING:
    raise validate.error("missing", f"be {' or '.join(MISSING)} for a schema", options.missing)
  for name in NOT_SAID:
    if getattr(options, name):
      raise validate.error(name, "be left out for a schema", getattr(options, name))
  tables = _open(data_dir, options)
  if any(head.style.decimal == "," for head in tables.heads) and options.decimal is None:
    # A schema has one decimal mark for all files.
    options = dataclasses.replace(options, decimal=",")
    tables = _open(data_dir, options)
  texts = [head for head in tables.heads if head.first_line is not None]
  for head in texts:
    if head.encoding is not None:
      raise validate.error("data_dir", "hold text in UTF-8 for a schema", head.path)
  separators = {head.separator for head in texts}
  has_names = all(head.has_header for head in texts)
  numbers, levels = _numbers_of(tables), tables.format.encoding.levels
  return Schema(
      note=(
          f"Drafted from a sample of {sum(tables.num_rows.values()):,} rows. All of this becomes "
          "public, so the sample must be public, too."
      ),
      features=tuple(
          Levels(name, levels[name]) if name in levels else numbers[name]
          for name in tables.format.columns.features
      ),
      label_column=label_column,
      classes=tables.format.classes or (),
      split_column=options.split_column,
      test_share=test_share,
      client_column=options.client_column,
      header=table_options.YES if has_names else table_options.NO,
      separator=separators.pop() if len(separators) == 1 else None,
      decimal=options.decimal or ".",
  )

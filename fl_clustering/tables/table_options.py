"""How clients' tables are to be read: one value for all programs and for Python."""

from __future__ import annotations

import codecs
import dataclasses
import functools
from typing import Any, Mapping, Sequence

from clustering_basics import options as options_lib
from clustering_basics import validate
from fl_clustering.tables import cells

# What a missing cell is, by the names of `missing`.
ERROR, MEAN, INDICATOR = "error", "mean", "indicator"
MISSING = {
    ERROR: "a missing cell is an error",
    MEAN: "it becomes the mean of its column over all clients",
    INDICATOR: "the same, and a column is added that says where cells were missing",
}
# Whether line 1 of a text file holds the columns' names, by the names of `header`.
AUTO, YES, NO = "auto", "yes", "no"
HEADERS = (AUTO, YES, NO)
# How files are written: these options may be others for a model's later files.
OF_FILES = (
    "separator", "encoding", "skip_lines", "comment", "decimal", "thousands", "strip_units",
    "header",
)
# What becomes of a level that a model does not know, by the names of `unknown_levels`.
IGNORE = "ignore"
UNKNOWN_LEVELS = {ERROR: "it is an error", IGNORE: "the row has none of the column's levels"}
# Encodings in which no bytes of a line change what later lines are; one byte for each character,
# or UTF-8.
_OF_SINGLE_LINES = ("ascii", "cp125", "iso8859", "koi8", "mac", "utf-8")
# What a split column says of a row.
TRAIN_OR_TEST = ("train", "test")
_ROLES = ("id_column", "label_column", "split_column", "client_column")


def _encoding(name: str) -> str | None:
  """Returns Python's name of an encoding of text, None if it knows none."""
  try:
    "a".encode(name)  # What LookupError also says of encodings that are not of text.
    return codecs.lookup(name).name
  except (LookupError, UnicodeError, TypeError):
    return None


# A number of rows, and a column's mean and standard deviation in them.
Moments = tuple[float, float, float]


@dataclasses.dataclass(frozen=True)
class LaterFiles:
  """How files that a model is used on may differ from those that it was made of.

  Attributes:
    options: What is said of how they are written, by the names in `OF_FILES`.
    unknown_levels: A key of `UNKNOWN_LEVELS`.
    skip_bad_rows: Whether rows that can't be used are left out and named.
    moments: Those of each cluster of the model's rows, by feature; none where they are secret.
  """

  options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  unknown_levels: str = ERROR
  skip_bad_rows: bool = False
  moments: Mapping[str, Sequence[Moments]] = dataclasses.field(default_factory=dict)

  def __post_init__(self) -> None:
    validate.one_of(tuple(UNKNOWN_LEVELS), unknown_levels=self.unknown_levels)
    for name, value in self.options.items():
      if name not in OF_FILES:
        raise validate.error(name, "be left out, as the model says it", value)


@dataclasses.dataclass(frozen=True)
class TableOptions:
  """What the columns of clients' tables are for, and how text files are written.

  Columns are known by name.  Those of a file without names are column_1, column_2, and so on,
  and so is a column whose name is empty.

  Attributes:
    allow_any_number: Whether features may be missing, infinite or of any size, and clients may
      have no rows, as private algorithms need it.  With a `header` other than "auto", no row then
      causes an error or changes how another one is read; what is no number counts as missing.
    likely_separator: What is tried first where `separator` is to be found out.
    likely_encoding: Where `encoding` is to be found out, that of text that is no UTF-8; None for
      cp1252.
  """

  columns: tuple[str, ...] | None = options_lib.option(
      str, "Columns to use (--data_dir).", None, several=True,
      default_text="all that have no other role")
  exclude: tuple[str, ...] = options_lib.option(
      str, "Columns to leave out (--data_dir).", (), several=True)
  categories: tuple[str, ...] = options_lib.option(
      str,
      "Columns of levels, as text or numbers, such as sex or blood_group (--data_dir). Every level "
      "becomes a column of zeros and ones; its name leaves the client that has it.", (),
      several=True)
  missing: str = options_lib.option(
      str, "What happens to missing cells (--data_dir): " + "; ".join(
          f"`{name}`: {about}" for name, about in MISSING.items()
      ) + ".", ERROR, values=MISSING)
  id_column: str | None = options_lib.option(
      str, "Column that names the rows in the output (--data_dir).", None,
      default_text="rows have numbers only")
  label_column: str | None = options_lib.option(
      str, "Column of the classes, text or numbers (--data_dir).", None)
  split_column: str | None = options_lib.option(
      str, "Column that says `train` or `test` of every row (--data_dir).", None,
      default_text="a share of every client's rows, drawn at random, is for testing")
  client_column: str | None = options_lib.option(
      str,
      "Column that says whose row it is, where a table holds the rows of several clients "
      "(--data_dir).", None, default_text="a file per client")
  separator: str | None = options_lib.option(
      str, "What stands between the cells of text files (--data_dir).", None,
      default_text="comma, semicolon, tab or bar, found out from the first lines; in a private run "
      "from line 1, and none if that is a row")
  encoding: str | None = options_lib.option(
      str, "How the characters of text files are written, such as latin-1 (--data_dir).", None,
      default_text="UTF-8, or cp1252 if a file is no UTF-8; in a private run UTF-8")
  skip_lines: int = options_lib.option(
      int,
      "How many lines of text files and workbooks stand above the table, such as titles "
      "(--data_dir).", 0, rule=functools.partial(validate.integer, 0))
  comment: str | None = options_lib.option(
      str,
      "What the lines begin with that text files and workbooks are to be read without, such as # "
      "(--data_dir).", None, default_text="every line is read")
  decimal: str | None = options_lib.option(
      str, "Decimal mark of text files (--data_dir).", None, values=(".", ","),
      default_text="found out from all numbers of a file; in a private run a point")
  thousands: str | None = options_lib.option(
      str, "What stands between the thousands of numbers, as in 1,234.5 (--data_dir).", None,
      values=tuple(cells.THOUSANDS), default_text="nothing")
  strip_units: bool = options_lib.option(
      bool,
      "Reads the number alone where a unit, a percent sign or a comparison stands beside it: "
      "1.1 mg/dl as 1.1, 85% as 85, <0.5 as 0.5 (--data_dir).", False,
      default_text="such a cell is an error")
  header: str = options_lib.option(
      str,
      "Whether line 1 of text files and workbooks has the columns' names (--data_dir); `auto` "
      "finds out by comparing the files. A private run needs `yes`, or `no` with --separator and "
      "--columns such as column_1,column_2.", AUTO, values=HEADERS)
  allow_any_number: bool = False
  likely_separator: str | None = None
  likely_encoding: str | None = None

  def __post_init__(self) -> None:
    options_lib.check(self)
    for name in ("columns", "exclude", "categories", *self.roles):
      value = getattr(self, name)
      if value is not None:
        is_one = isinstance(value, str)
        found = cells.composed(value) if is_one else tuple(map(cells.composed, value))
        object.__setattr__(self, name, found)
    self._check_marks()
    if self.comment is not None and not self.comment.strip():
      raise validate.error("comment", "be a character or several", self.comment)
    if self.encoding is not None:
      self._check_encoding(self.encoding)
    self._check_one_role_each()

  def _check_marks(self) -> None:
    if self.thousands is not None and self.thousands == self.decimal:
      raise validate.error("thousands", "differ from `decimal`", self.thousands)
    if self.separator is not None:
      if len(self.separator) != 1:
        raise validate.error("separator", "be one character", self.separator)
      if self.separator == (self.decimal or "."):
        raise validate.error("separator", "differ from `decimal`", self.separator)

  def _check_encoding(self, encoding: str) -> None:
    name = _encoding(encoding)
    if name is None:
      raise validate.error("encoding", "be one that Python knows, such as latin-1", encoding)
    if self.allow_any_number and not name.startswith(_OF_SINGLE_LINES):
      raise validate.error(
          "encoding", "be UTF-8 or have one byte for each character, such as latin-1, where no row "
          "may change how another one is read", encoding,
      )

  def _check_one_role_each(self) -> None:
    roles: dict[str, tuple[str, ...]] = {role: (name,) for role, name in self.roles.items()}
    roles["exclude"] = self.exclude
    seen: dict[str, str] = {}
    for role, names in {**roles, "columns": self.columns or ()}.items():
      for name in names:
        if name in seen:
          raise validate.error(role, f"not name a column that is in `{seen[name]}`", name)
        seen[name] = role
    for name in self.categories:
      if seen.get(name, "columns") != "columns":
        raise validate.error("categories", f"not name a column that is in `{seen[name]}`", name)
      if self.columns is not None and name not in self.columns:
        raise validate.error("categories", "be among `columns`", name)

  @property
  def style(self) -> cells.Style:
    """How numbers are written in text."""
    return cells.Style(self.decimal, self.thousands, self.strip_units)

  @property
  def roles(self) -> dict[str, str]:
    """The columns that are no features but have a role, by role."""
    return {role: getattr(self, role) for role in _ROLES if getattr(self, role) is not None}

  def repaired(
      self, exclude: tuple[str, ...] = (), categories: tuple[str, ...] = (), **changes: Any
  ) -> TableOptions:
    """Returns options with changes that make tables usable.

    Args:
      exclude: Further columns to leave out.
      categories: Further columns that hold levels; those that are left out are not taken.
        Private algorithms leave them all out, since a level's name leaves its client.
      **changes: Other attributes.
    """
    if self.allow_any_number:
      exclude, categories = (*exclude, *categories), ()
    left_out = tuple(dict.fromkeys((*self.exclude, *exclude)))
    levels = dict.fromkeys((*self.categories, *categories))
    if self.columns is not None:
      changes["columns"] = tuple(name for name in self.columns if name not in left_out)
      left_out = self.exclude
    return dataclasses.replace(
        self,
        exclude=left_out,
        categories=tuple(
            name for name in levels
            if name not in (*self.exclude, *exclude) and name in changes.get("columns", levels)
        ),
        **changes,
    )

  def for_later_files(self, given: Mapping[str, Any]) -> TableOptions:
    """Returns the options of files that a model is used on.

    Each file's separator, encoding and decimal mark are found again, but for private algorithms,
    where no row may decide them.

    Args:
      given: What is said of the later files, by the names in `OF_FILES`.
    """
    if self.allow_any_number:
      return dataclasses.replace(self, **given)
    thousands = self.thousands if self.thousands != given.get("decimal") else None
    return dataclasses.replace(self, **{
        "separator": None, "encoding": None, "decimal": None, "thousands": thousands,
        "likely_separator": self.separator, "likely_encoding": self.encoding, **given,
    })

  def to_json(self) -> dict[str, Any]:
    """Returns the options that are not their defaults, a dict for JSON."""
    default = TableOptions()
    return {
        name: value for name, value in options_lib.to_json(self).items()
        if getattr(self, name) != getattr(default, name)
    }

  @classmethod
  def from_json(cls, document: Mapping[str, Any]) -> TableOptions:
    """Returns the options that `to_json` returned as a dict."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in document.items()
    }
    return cls(**values)

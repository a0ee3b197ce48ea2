"""The schema of clients' tables: that of a file, or one by flags that name columns."""

import contextlib
import shlex
from typing import Any, Iterator

from absl import flags

from clustering_basics import validate
from experiments.own_tables import schema_flag  # Defines `--schema`.  pylint: disable=unused-import
from fl_clustering.tables import clients
from fl_clustering.tables import read
from fl_clustering.tables import schema as schema_lib

# From each flag to the argument of `schema.strict` and `draft.draft`.
_ARGUMENTS = {
    "label_column": "label", "client_column": "client", "split_column": "split", "row_key": "key",
    "exclude": "exclude",
}
NAMES = tuple(_ARGUMENTS)

flags.DEFINE_string("label_column", None, "The column of the classes.")
flags.DEFINE_string(
    "client_column", None,
    "The column that says whose row it is, where a table holds the rows of several clients.")
flags.DEFINE_string("split_column", None, "The column that says `train` or `test` of every row.")
flags.DEFINE_string("row_key", None, "The column that names the rows.")
flags.DEFINE_list("exclude", None, "Columns that are not used.")


def given() -> dict[str, Any]:
  """Returns the arguments that the flags give, but for `--schema`."""
  values = {argument: flags.FLAGS[name].value for name, argument in _ARGUMENTS.items()}
  return {argument: value for argument, value in values.items() if value}


def schema(directory: str) -> schema_lib.Schema:
  """Returns the schema in `--schema`, or else of a folder whose columns are numbers.

  Raises:
    ValueError: If it can't be used, or both are given.
    BadTable: If the names of the columns can't be read.
  """
  if flags.FLAGS.schema is None:
    first, *others = clients.files(directory).values()
    with naming_draft(directory):
      names = read.header(first)
      for path in others:
        for name in sorted(set(names).symmetric_difference(read.header(path))):
          rule = f"is not there, but in {first}" if name in names else f"is not in {first}"
          raise read.BadTable(path, _line_of_header(path), name, rule)
      try:
        return schema_lib.strict(names, **given())
      except ValueError as e:
        raise read.BadTable(first, _line_of_header(first), None, f"{e}".rstrip(".")) from e
  for name in NAMES:
    if flags.FLAGS[name].value:
      raise validate.error(name, "be left out with `schema`", flags.FLAGS[name].value)
  return schema_lib.load(flags.FLAGS.schema)


def _line_of_header(path: str) -> int | None:
  return None if path.endswith(read.PARQUET) else 1


@contextlib.contextmanager
def naming_draft(directory: str) -> Iterator[None]:
  """Adds the command that drafts a schema to what is wrong with a table, if no schema is given."""
  try:
    yield
  except read.BadTable as e:
    if flags.FLAGS.schema is not None:
      raise
    words = ["bazel", "run", "experiments:draft_schema", "--", f"--data_dir={directory}"]
    for name in NAMES:
      value = flags.FLAGS[name].value
      if value:
        words.append(f"--{name}={','.join(value) if isinstance(value, list) else value}")
    raise ValueError(f"{e}; {shlex.join(words)} --output=schema.json drafts a schema") from e

"""The schema of clients' tables: that of a file, or one by flags that name columns."""

import contextlib
import os
import shlex
from typing import Any, Iterator

from absl import flags

from clustering_basics import validate
from experiment_shell import option_flags
from experiments.own_tables import schema_flag  # Defines `--schema`.  pylint: disable=unused-import
from fl_clustering.tables import bad_table
from fl_clustering.tables import clients
from fl_clustering.tables import read
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import typed_files
from fl_clustering.tables import views

# From each flag to the argument of `schema.strict` and `draft.draft`.
_ARGUMENTS = {**{flag: role for role, flag in schema_lib.ROLES.items()}, "exclude": "exclude"}
NAMES = tuple(_ARGUMENTS)
_BY_BAZEL = ("./bazelw", "run", "experiments:draft_schema", "--")
_BY_PYTHON = ("python", "-m", "experiments.draft_schema")

flags.DEFINE_string("label_column", None, "The column of the classes.")
flags.DEFINE_string(
    "client_column", None,
    "The column that says whose row it is, where a table holds the rows of several clients.")
flags.DEFINE_string("split_column", None, "The column that says `train` or `test` of every row.")
flags.DEFINE_string("row_key", None, "The column that names the rows.")
flags.DEFINE_list(
    "exclude", None,
    'Columns that are not used, with commas between them; "a, b" is a name with a comma.')


def _given() -> dict[str, Any]:
  """Returns the arguments that the flags give, but for `--schema`."""
  values = {argument: flags.FLAGS[name].value for name, argument in _ARGUMENTS.items()}
  return {argument: value for argument, value in values.items() if value}


def given(directory: str) -> dict[str, Any]:
  """Returns the arguments that the flags give of a folder, but for `--schema`.

  `y` of `.npz` files is no feature: unless a flag names it, it is the label if no other column is.
  """
  roles, first = _given(), next(iter(clients.files(directory).values()))
  y = typed_files.LABELS
  named = [*roles.values(), *roles.get("exclude", ())]
  if first.endswith(typed_files.NPZ) and y not in named and y in read.header(first):
    if roles.setdefault("label", y) != y:
      roles["exclude"] = [*roles.get("exclude", ()), y]
  return roles


def schema(directory: str) -> schema_lib.Schema:
  """Returns the schema in `--schema`, or else of a folder whose columns are numbers.

  Raises:
    ValueError: If it can't be used, or both are given.
    BadTable: If the names of the columns can't be read.
  """
  if flags.FLAGS.schema is None:
    first, *others = clients.files(directory).values()
    with naming_draft(directory):
      roles = given(directory)
      names = read.header(first)
      try:
        found = schema_lib.strict(names, **roles)
      except ValueError as e:
        raise bad_table.bad_header(first, None, f"{e}".rstrip(".")) from e
      for path in others:
        for name in sorted({*read.header(path)}.difference(names)):
          raise bad_table.bad_header(path, name, f"is not in {first}")
      return found
  option_flags.check_left_out(NAMES, "with `schema`")
  return schema_lib.load(flags.FLAGS.schema)


def given_of_views() -> dict[str, Any]:
  """Returns the flags' arguments for views; ValueError if a flag has no use for views."""
  names = [name for name, argument in _ARGUMENTS.items() if argument not in ("key", "exclude")]
  option_flags.check_left_out(names, "of views")
  return _given()


def schema_of_views(directory: str) -> schema_lib.Schemas:
  """Returns the schemas in `--schema`, or else of a folder of views, whose columns are numbers.

  Raises:
    ValueError: As `schema`.
    BadTable: Likewise.
  """
  options = given_of_views()
  if flags.FLAGS.schema is None:
    with naming_draft(directory):
      return views.strict(directory, **options)
  option_flags.check_left_out(NAMES, "with `schema`")
  schemas = views.load(flags.FLAGS.schema)
  if schema_lib.NO_VIEW in schemas:
    raise validate.error("schema", "be one of views, with the key `resources`", flags.FLAGS.schema)
  return schemas


@contextlib.contextmanager
def naming_draft(directory: str) -> Iterator[None]:
  """Adds the command that drafts a schema to what is wrong with a table, if no schema is given."""
  try:
    yield
  except bad_table.BadTable as e:
    if flags.FLAGS.schema is not None:
      raise
    # `bazel run` sets it.
    is_bazel = "BUILD_WORKING_DIRECTORY" in os.environ
    words = [
        *(_BY_BAZEL if is_bazel else _BY_PYTHON), f"--data_dir={directory}",
        *(flags.FLAGS[name].serialize() for name in NAMES if flags.FLAGS[name].value),
    ]
    command = f"{shlex.join(words)} --output=schema.json"
    raise ValueError(f"{e}; {command} drafts a schema, if one is needed") from e

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
from fl_clustering.tables import schema as schema_lib
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


def given(has_views: bool) -> dict[str, Any]:
  """Returns the arguments that the flags give; ValueError if one is of no use for views."""
  if has_views:
    names = [name for name, argument in _ARGUMENTS.items() if argument not in ("key", "exclude")]
    option_flags.check_left_out(names, "of views")
  values = {argument: flags.FLAGS[name].value for name, argument in _ARGUMENTS.items()}
  return {argument: value for argument, value in values.items() if value}


def schemas(directory: str, has_views: bool) -> schema_lib.Schemas:
  """Returns the schemas in `--schema`, or else of a folder whose columns are numbers.

  Raises:
    ValueError: If they can't be used, or both are given.
    BadTable: If the names of the columns can't be used.
  """
  arguments = given(has_views)
  if flags.FLAGS.schema is None:
    with naming_draft(directory):
      return views.strict(directory, has_views, **arguments)
  option_flags.check_left_out(NAMES, "with `schema`")
  found = views.load(flags.FLAGS.schema)
  if has_views == (schema_lib.NO_VIEW in found):
    rule = "be of views, with the key `resources`" if has_views else "be without views"
    raise validate.error("schema", rule, flags.FLAGS.schema)
  return found


def schema(directory: str) -> schema_lib.Schema:
  """Returns the schema of tables without views, as `schemas` does."""
  return schemas(directory, has_views=False)[schema_lib.NO_VIEW]


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

"""The flags that name columns of clients' tables, where no schema does."""

from typing import Any

from absl import flags

# From each flag to the argument of `schema.strict` and `draft.draft`.
ARGUMENTS = {
    "label_column": "label", "client_column": "client", "split_column": "split", "row_key": "key",
    "exclude": "exclude",
}

flags.DEFINE_string("label_column", None, "The column of the classes.")
flags.DEFINE_string(
    "client_column", None,
    "The column that says whose row it is, where a table holds the rows of several clients.")
flags.DEFINE_string("split_column", None, "The column that says `train` or `test` of every row.")
flags.DEFINE_string("row_key", None, "The column that names the rows.")
flags.DEFINE_list("exclude", [], "Columns that are not used.")


def given() -> dict[str, Any]:
  """Returns the arguments that the flags give."""
  return {argument: flags.FLAGS[name].value for name, argument in ARGUMENTS.items()}

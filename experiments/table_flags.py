"""The flags that say how clients' tables are read, for every program that reads some."""

from typing import Any

from absl import flags

from fl_clustering.tables import cells
from fl_clustering.tables import table_options

# The flags belong to the modules that adopt them, for `--help`.
_OPTIONS = table_options.TableOptions()

flags.DEFINE_list(
    "columns", None, "Columns to use (--data_dir). Default: all that have no other role.")
flags.DEFINE_list("exclude", None, "Columns to leave out (--data_dir).")
flags.DEFINE_list(
    "categories", None,
    "Columns of levels, as text or numbers, such as sex or blood_group (--data_dir). Every level "
    "becomes a column of zeros and ones; its name leaves the client that has it.")
flags.DEFINE_enum(
    "missing", None, table_options.MISSING,
    "What happens to missing cells (--data_dir): " + "; ".join(
        f"`{name}`: {about}" for name, about in table_options.MISSING.items()
    ) + f". Default: {_OPTIONS.missing}.")
flags.DEFINE_string(
    "id_column", None,
    "Column that names the rows in the output (--data_dir). Default: rows have numbers only.")
flags.DEFINE_string(
    "client_column", None,
    "Column that says whose row it is, where a table holds the rows of several clients "
    "(--data_dir). Default: a file per client.")
flags.DEFINE_string(
    "separator", None,
    "What stands between the cells of text files (--data_dir). Default: comma, semicolon, tab or "
    "bar, found out from the first lines; in a private run from line 1, and none if that is a row.")
flags.DEFINE_string(
    "encoding", None,
    "How the characters of text files are written, such as latin-1 (--data_dir). Default: UTF-8, "
    "or cp1252 if a file is no UTF-8; in a private run UTF-8.")
flags.DEFINE_integer(
    "skip_lines", None,
    "How many lines of text files stand above the table, such as titles (--data_dir). Default: "
    f"{_OPTIONS.skip_lines}.", lower_bound=0)
flags.DEFINE_string(
    "comment", None,
    "What the lines begin with that text files are to be read without, such as # (--data_dir). "
    "Default: every line is read.")
flags.DEFINE_enum(
    "decimal", None, [".", ","],
    "Decimal mark of text files (--data_dir). Default: found out from all numbers of a file; in a "
    "private run a point.")
flags.DEFINE_enum(
    "thousands", None, list(cells.THOUSANDS),
    "What stands between the thousands of numbers, as in 1,234.5 (--data_dir). Default: nothing.")
flags.DEFINE_boolean(
    "strip_units", None,
    "Reads the number alone where a unit, a percent sign or a comparison stands beside it: "
    "1.1 mg/dl as 1.1, 85% as 85, <0.5 as 0.5 (--data_dir). Default: such a cell is an error.")
flags.DEFINE_enum(
    "header", None, table_options.HEADERS,
    "Whether line 1 of text files has the columns' names (--data_dir); `auto` finds out by "
    "comparing the files. A private run needs `yes`, or `no` with --separator and --columns such "
    f"as column_1,column_2. Default: {_OPTIONS.header}.")

NAMES = (
    "columns", "exclude", "categories", "missing", "id_column", "client_column", "separator",
    "encoding", "skip_lines", "comment", "decimal", "thousands", "strip_units", "header",
)
OF_LABELS = ("label_column", "label_above", "split_column")
TASK = "task"


def define_of_labels() -> None:
  """Defines the flags of classes and of rows for testing, for a program that needs them."""
  flags.DEFINE_string("label_column", None, 
      "Column of the classes, text or numbers; of real numbers for a regression (--data_dir).")
  flags.DEFINE_float(
      "label_above", None,
      "Makes two classes of a column of numbers: at most this number, and above it (--data_dir).")
  flags.DEFINE_string(
      "split_column", None,
      "Column that says `train` or `test` of every row (--data_dir). Default: a share of every "
      "client's rows, drawn at random, is for testing.")


def define_task() -> None:
  """Defines the flag of what is learned of the label column, for a program that can choose."""
  flags.DEFINE_enum(
      TASK, None, table_options.TASKS,
      "What is learned of --label_column: its classes, or real numbers (--data_dir). Default: "
      "found out; of more than 20 different numbers, a regression learns those that hardly repeat "
      "or are not all integers.")


def given() -> dict[str, Any]:
  """Returns the flags that were given, a dict of arguments of `TableOptions`."""
  values = {
      name: getattr(flags.FLAGS, name) for name in (*OF_LABELS, TASK, *NAMES) if name in flags.FLAGS
  }
  return {
      name: tuple(value) if isinstance(value, list) else value
      for name, value in values.items() if value is not None
  }

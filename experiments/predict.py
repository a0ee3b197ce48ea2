"""Assigns the rows of clients' files to the clusters of a finished run, and predicts their classes.

  bazel run experiments:predict -- --run=out --data_dir=folder

The folder must be like that of the run: a file per client, or a folder per client with a file
per view.  The files must have the features that the run was made with, in any order; other columns
are not used.  They are read by the run's schema, or with another dialect by --schema.  Of several
views, each file's separator, encoding and decimal mark are found again, and other options, such as
what becomes of missing cells, are those of the run.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import csv
import os
from typing import Any, Iterable, Mapping

from absl import flags

from clustering_basics import atomic_file
from clustering_basics import validate
from experiment_shell import lazy_module
from experiment_shell import path_flag
from experiment_shell import program_help
from experiments.own_tables import schema_flag
from experiments.own_tables import table_flags
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import table_options

finished_run = lazy_module.LazyModule("experiment_shell.finished_run")
load_model = lazy_module.LazyModule("fl_clustering.load_model")

path_flag.define("run", None, "Folder of a finished run that has a model.")
path_flag.define(
    "data_dir", None,
    "Folder like that of the run: with a file per client, or for views with a folder per client.")
path_flag.define_output(
    "output", "File to write, which must not exist. Default: predictions.csv in --run.")
flags.adopt_module_key_flags(schema_flag)
flags.DEFINE_bool("overwrite", False, "Whether --output is overwritten.")
flags.DEFINE_enum(
    "unknown_levels", table_options.ERROR, list(table_options.UNKNOWN_LEVELS),
    "What becomes of a level that the run did not have: " + "; ".join(
        f"`{name}`: {about}" for name, about in table_options.UNKNOWN_LEVELS.items()) + ".")
flags.DEFINE_bool(
    "skip_bad_rows", False,
    "Whether rows that can't be used are left out and named, instead of being an error.")
flags.DEFINE_enum(
    "fallback", None, ["profile", "global"],
    "The model of a client that was not in the run and has no labels (three phases): that of the "
    "cluster whose mean features (profiles.csv in --run) are nearest to the client's, or FedAvg's. "
    "Default: profile for the methods pacfl and flux, which group clients by features, if there "
    "are profiles; else global.")
for _name in table_options.OF_FILES:
  flags.declare_key_flag(_name)

HELP = program_help.Help(
    {
        "data": ("run", "data_dir"),
        "tables": ("schema", "unknown_levels", "skip_bad_rows"),
        "methods": ("fallback",),
        "output": ("output", "overwrite"),
    },
    {"tables": table_options.OF_FILES},
)

_PROFILES = "profiles.csv"


def _write(path: str, predictions: Iterable[tuple[str, Any, Mapping[str, Any]]]) -> tuple[int, int]:
  """Writes a line for every row; returns the numbers of clients and rows."""
  num_clients = num_rows = 0
  with atomic_file.atomic_path(path) as temporary:
    with open(temporary, "w", encoding="utf-8", newline="") as file:
      writer = csv.writer(file, lineterminator="\n")
      for client_id, table, predicted in predictions:
        names = table if isinstance(table, dict) else {
            "row": table.rows.tolist(), **({} if table.row_ids is None else {"id": table.row_ids})
        }
        if not num_clients:
          writer.writerow(("client", *names, *predicted))
        columns = (*names.values(), *map(list, predicted.values()))
        writer.writerows((client_id, *row) for row in zip(*columns))
        num_clients += 1
        num_rows += len(names["row"])
  return num_clients, num_rows


def _profiles(
    run: str,
) -> tuple[dict[int, dict[str, float]] | None, dict[str, list[table_options.Moments]]]:
  """Returns the clusters' mean features, None if they are not known, and moments by feature."""
  finished = finished_run.FinishedRun(run)
  means: dict[int, dict[str, float]] = {}
  moments: dict[str, list[table_options.Moments]] = {}
  for row in finished.rows(_PROFILES, ("feature",)) if finished.has(_PROFILES) else ():
    means.setdefault(row["cluster"], {})[row["feature"]] = row["mean"]
    moments.setdefault(row["feature"], []).append(
        (row["num_rows"], row["mean"], row["standard_deviation"])
    )
  return means or None, moments


def _check_flags(by_schema: bool) -> None:
  """Raises a ValueError if a flag is given that is not for this kind of model."""
  of_files = {name for name, value in table_flags.given().items() if value is not None}
  of_files |= {name for name in ("unknown_levels", "skip_bad_rows") if flags.FLAGS[name].present}
  of_schema = set() if flags.FLAGS.schema is None else {"schema"}
  for name in sorted(of_files if by_schema else of_schema):
    raise validate.error(name, "be left out for this model", flags.FLAGS[name].value)


def main() -> None:
  with launch.input_errors():
    for name in ("run", "data_dir"):
      if flags.FLAGS[name].value is None:
        raise validate.error(name, "name a folder", None)
    path = flags.FLAGS.output or os.path.join(flags.FLAGS.run, "predictions.csv")
    if os.path.exists(path) and not flags.FLAGS.overwrite:
      raise ValueError(f"`output` must not exist without --overwrite, got {path!r}.")
    model = load_model.load_model(flags.FLAGS.run)
    by_schema = not isinstance(model, load_model.SavedMultiView)
    _check_flags(by_schema)
    profiles, moments = _profiles(flags.FLAGS.run)
    later = table_options.LaterFiles(
        table_flags.given(), flags.FLAGS.unknown_levels, flags.FLAGS.skip_bad_rows, moments=moments
    )
    if by_schema:
      path_of_schema = flags.FLAGS.schema
      given = None if path_of_schema is None else schema_lib.load(path_of_schema)
      tables = model.open_folder(flags.FLAGS.data_dir, schema=given)
    else:
      tables = model.open_folder(flags.FLAGS.data_dir, later=later)
    model, placed = model.place_others(tables, flags.FLAGS.fallback, profiles)
    num_clients, num_rows = _write(path, model.predict_tables(tables))
  for text in (*(() if by_schema else tables.warnings), *placed):
    print(f"note: {text}")
  rows = "1 row" if num_rows == 1 else f"{num_rows:,} rows"
  clients = "1 client" if num_clients == 1 else f"{num_clients:,} clients"
  print(f"{rows} of {clients}: {path}")


if __name__ == "__main__":
  launch.run(main, HELP)

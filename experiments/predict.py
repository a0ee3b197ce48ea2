"""Assigns the rows of clients' files to the clusters of a finished run, and predicts their classes.

  bazel run experiments:predict -- --run=out --data_dir=folder

The folder must be like that of the run: a file per client, or a folder per client with a file
per view.  The files must have the columns that the run was made with, in any order.  Options such
as the separator or the missing cells are those of the run.
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

load_model = lazy_module.LazyModule("fl_clustering.load_model")

path_flag.define("run", None, "Folder of a finished run that has a model.")
path_flag.define(
    "data_dir", None,
    "Folder like that of the run: with a file per client, or for views with a folder per client.")
path_flag.define(
    "output", None, "File to write, which must not exist. Default: predictions.csv in --run.")
flags.DEFINE_bool("overwrite", False, "Whether --output is overwritten.")


def _write(path: str, predictions: Iterable[tuple[str, Any, Mapping[str, Any]]]) -> tuple[int, int]:
  """Writes a line for every row; returns the numbers of clients and rows."""
  num_clients = num_rows = 0
  with atomic_file.atomic_path(path) as temporary:
    with open(temporary, "w", encoding="utf-8", newline="") as file:
      writer = csv.writer(file, lineterminator="\n")
      for client_id, table, predicted in predictions:
        ids = {} if table.row_ids is None else {"id": table.row_ids}
        if not num_clients:
          writer.writerow(("client", "row", *ids, *predicted))
        columns = (table.rows.tolist(), *ids.values(), *map(list, predicted.values()))
        writer.writerows((client_id, *row) for row in zip(*columns))
        num_clients += 1
        num_rows += len(table.rows)
  return num_clients, num_rows


def main() -> None:
  with launch.input_errors():
    for name in ("run", "data_dir"):
      if flags.FLAGS[name].value is None:
        raise validate.error(name, "name a folder", None)
    path = flags.FLAGS.output or os.path.join(flags.FLAGS.run, "predictions.csv")
    if os.path.exists(path) and not flags.FLAGS.overwrite:
      raise ValueError(f"`output` must not exist without --overwrite, got {path!r}.")
    model = load_model.load_model(flags.FLAGS.run)
    tables = model.open_folder(flags.FLAGS.data_dir)
    num_clients, num_rows = _write(path, model.predict_tables(tables))
  print(f"{num_rows:,} rows of {num_clients:,} clients: {path}")


if __name__ == "__main__":
  launch.run(main)

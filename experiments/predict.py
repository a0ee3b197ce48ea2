"""Assigns the rows of clients' files to the clusters of a finished run, and predicts their classes.

  bazel run experiments:predict -- --run=out --data_dir=folder

The folder must be like that of the run: a file per client, or a folder per client with a file
per view.  The files must have the features that the run was made with, in any order; other columns
are not used.  They are read by the run's schema, or with another dialect by --schema.
"""

import os

from absl import flags

from clustering_basics import validate
from experiment_shell import launch
from experiment_shell import path_flag
from experiments.own_tables import predictions
from experiments.own_tables import schema_flag  # Defines `--schema`.  pylint: disable=unused-import

path_flag.define("run", None, "Folder of a finished run that has a model.")
path_flag.define(
    "data_dir", None,
    "Folder like that of the run: with a file per client, or for views with a folder per client.")
path_flag.define_output(
    "output", "File to write, which must not exist. Default: predictions.csv in --run.")
flags.DEFINE_bool("overwrite", False, "Whether --output is overwritten.")
flags.DEFINE_enum(
    "fallback", None, ["profile", "global"],
    "The model of a client that was not in the run and has no labels (three phases): that of the "
    "cluster whose mean features are nearest to the client's, or FedAvg's. Default: profile for the "
    "methods pacfl and flux, which group clients by features, if there are several clusters; else "
    "global.")


def main() -> None:
  from fl_clustering import load_model  # It takes long to import.

  with launch.input_errors():
    for name in ("run", "data_dir"):
      if flags.FLAGS[name].value is None:
        raise validate.error(name, "name a folder", None)
    path = flags.FLAGS.output or os.path.join(flags.FLAGS.run, predictions.FILE)
    # Of a run that others have sent, it may be a link to a file that is not there yet.
    if os.path.lexists(path) and not flags.FLAGS.overwrite:
      raise ValueError(f"`output` must not exist without --overwrite, got {path!r}.")
    model = load_model.load_model(flags.FLAGS.run)
    folder = model.tables.open_folder(flags.FLAGS.data_dir, schema=flags.FLAGS.schema)
    model, placed = model.place_others(folder, flags.FLAGS.fallback)
    num_clients = num_rows = num_far = 0
    for _, names, found in predictions.write(path, model.predict_tables(folder)):
      num_clients += 1
      num_rows += len(names["row"])
      num_far += int(sum(found.get("far_from_all", ())))
  if num_far:
    placed = (*placed, f"far from all centers: {num_far:,} of the rows; see far_from_all")
  for text in placed:
    print(f"note: {text}")
  rows = "1 row" if num_rows == 1 else f"{num_rows:,} rows"
  clients = "1 client" if num_clients == 1 else f"{num_clients:,} clients"
  print(f"{rows} of {clients}: {path}")


if __name__ == "__main__":
  launch.run(main)

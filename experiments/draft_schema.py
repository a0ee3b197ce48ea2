"""Drafts the schema of clients' tables from a folder of them, for a person to read and edit.

  bazel run experiments:draft_schema -- --data_dir=folder --label_column=ill --output=schema.json

It prints a line per column, with what the column was taken for.
"""

import os

from absl import flags

from clustering_basics import validate
from experiment_shell import launch
from experiment_shell import option_flags
from experiment_shell import path_flag
from experiments.own_tables import column_flags
from fl_clustering.tables import draft
from fl_clustering.tables import views

path_flag.define("data_dir", None, "Folder of the clients' files, or of a public sample of them.")
path_flag.define_output("output", "File to write, which must not exist.")
flags.DEFINE_bool(
    "public_sample", False,
    "For private runs: the rows in --data_dir are public, and so may be the means and standard "
    "deviations of their numbers, which become center and scale.")


def main() -> None:
  with launch.input_errors():
    option_flags.check_given("data_dir", "output")
    path, data_dir = flags.FLAGS.output, flags.FLAGS.data_dir
    if os.path.exists(path):
      raise validate.error("output", "not exist", path)
    given = column_flags.given(views.are_in(data_dir))
    schemas, lines = draft.draft(data_dir, **given, is_public=flags.FLAGS.public_sample)
    views.write(schemas, path)
  num_features = sum(len(schema.feature_names) for schema in schemas.values())
  print(*lines, f"{num_features} features: {path}", sep="\n")


if __name__ == "__main__":
  launch.run(main)

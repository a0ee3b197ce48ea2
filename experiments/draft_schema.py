"""Drafts the public schema of clients' tables, for private clusters, from a public sample of them.

  bazel run experiments:draft_schema -- --data_dir=sample --label_column=ill --output=schema.json

The file says which columns are used and what they hold: levels, classes, means and standard
deviations of the sample.  All of that becomes public.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import os

from absl import flags

from clustering_basics import validate
from experiment_shell import path_flag
from experiments.own_tables import table_flags
from fl_clustering.tables import table_options
from fl_clustering.tasks import schema as schema_lib

path_flag.define("data_dir", None, "Folder of the sample, whose tables look like the clients'.")
path_flag.define_output("output", "File to write, which must not exist.")
table_flags.define_of_labels()
# Those of `table_flags` that apply; the others are refused, and not in `--help`.
for _name in (*table_flags.OF_LABELS, *table_flags.NAMES):
  if _name not in schema_lib.NOT_SAID:
    flags.declare_key_flag(_name)
flags.DEFINE_enum(
    "missing", None, list(schema_lib.MISSING),
    "What happens to missing cells of the sample: " + "; ".join(
        f"`{name}`: {about}" for name, about in schema_lib.MISSING.items()
    ) + f". Default: {table_options.ERROR}.", allow_override=True)
flags.DEFINE_float(
    "test_share", None,
    "Share of every client's rows, drawn at random, that are for testing and not for training.")


def main() -> None:
  with launch.input_errors():
    for name in ("data_dir", "label_column", "output"):
      if flags.FLAGS[name].value is None:
        raise validate.error(name, "be given", None)
    path = flags.FLAGS.output
    if os.path.exists(path):
      raise validate.error("output", "not exist", path)
    options = table_options.TableOptions(**table_flags.given())
    schema = schema_lib.draft(flags.FLAGS.data_dir, options, flags.FLAGS.test_share)
    schema.write(path)
  print(f"{len(schema.feature_names)} features, {len(schema.classes)} classes: {path}", schema.note,
        sep="\n")


if __name__ == "__main__":
  launch.run(main)

"""The flags that all experiments share: the output folder and its use."""

import os
import time

from absl import flags

from experiment_shell import path_flag

NAMES = ("output_dir", "resume", "overwrite")

path_flag.define(
    "output_dir", None,
    "Folder for the results. Default: a new one under results/.")
flags.DEFINE_bool(
    "resume", False,
    "Continue the run in --output_dir, which must have the same configuration.")
flags.DEFINE_bool(
    "overwrite", False, "Remove the earlier run in --output_dir first.")


def output_dir(program: str) -> str:
  """Returns the path of the output folder; by default a new one under results/.

  Raises:
    ValueError: If --resume or --overwrite is given without --output_dir.
  """
  if flags.FLAGS.output_dir is not None:
    return flags.FLAGS.output_dir
  if flags.FLAGS.resume or flags.FLAGS.overwrite:
    raise ValueError(
        "`output_dir` must be given with --resume and --overwrite, got none."
    )
  return os.path.join("results", f"{program}-{time.strftime('%Y%m%d-%H%M%S')}")

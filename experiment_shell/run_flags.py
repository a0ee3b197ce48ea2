"""The flags that all experiments share: the output folder and its use."""

import atexit
import contextlib
import itertools
import os
import time

from absl import flags

from clustering_basics import validate
from experiment_shell import path_flag

_RESULTS = "results"

path_flag.define(
    "output_dir", None,
    "Folder for the results. Default: a new one under results/.")
flags.DEFINE_bool(
    "resume", False,
    "Continue the run in --output_dir, which must have the same configuration.")
flags.DEFINE_bool(
    "overwrite", False, "Remove the earlier run in --output_dir first.")


def _remove_if_empty(folder: str) -> None:
  with contextlib.suppress(OSError):
    os.rmdir(folder)
    os.rmdir(os.path.dirname(folder))


def _new_folder(name: str) -> str:
  """Makes a folder that no other program gets, and returns its path.

  What wrote nothing in it leaves no folder.
  """
  os.makedirs(_RESULTS, exist_ok=True)
  for number in itertools.count(1):
    path = os.path.join(_RESULTS, name if number == 1 else f"{name}-{number}")
    with contextlib.suppress(FileExistsError):
      os.mkdir(path)
      break
  atexit.register(_remove_if_empty, os.path.abspath(path))
  return path


def output_dir(program: str) -> str:
  """Returns the path of the output folder; by default a new one under results/, which it makes.

  Raises:
    ValueError: If --resume or --overwrite is given without --output_dir, or no folder can be made.
  """
  if flags.FLAGS.output_dir is not None:
    return flags.FLAGS.output_dir
  if flags.FLAGS.resume or flags.FLAGS.overwrite:
    raise ValueError(
        "`output_dir` must be given with --resume and --overwrite, got none."
    )
  try:
    return _new_folder(f"{program}-{time.strftime('%Y%m%d-%H%M%S')}")
  except OSError as e:
    rule = f"be given where no folder can be made in {_RESULTS} ({e.strerror})"
    raise validate.error("output_dir", rule, None) from e

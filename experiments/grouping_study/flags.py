"""The flags of the study; only this file and the program read them.

They are those of a three-phase run, which all its runs have in common, and its own.
"""

import os
from typing import Any

from absl import flags

from clustering_basics import validate
from experiment_shell import program_help
from experiments import option_flags
from experiments.grouping_study import config as config_lib
from experiments.three_phase import flags as run_flags

flags.adopt_module_key_flags(run_flags)

option_flags.define(config_lib.StudyConfig)
flags.DEFINE_integer(
    "jobs", None,
    "Processes that run at the same time, each with its share of the cores. The numbers don't "
    "depend on it. Default: one per core.")
flags.DEFINE_list(
    "parts", [],
    "Comma-separated folders of studies with the same options but for --settings and --num_seeds. "
    "What they have measured is taken over, so that several parts get one report. With --resume, "
    "give it again.")

# What a study has other defaults for than a single run.
for _name, _value in {
    "dataset": "digits",
    "methods": ",".join(config_lib.METHODS),
    "personal": ",".join(config_lib.PERSONAL),
    "control_repeats": 0,
}.items():
  flags.FLAGS.set_default(_name, _value)

HELP = program_help.Help(
    {
        "data": ("settings", "dataset", "data_dir", "num_clients"),
        "tables": ("label_column", "categories"),
        "training": ("model", "pretrain_rounds", "cluster_rounds", "learning_rate"),
        "methods": ("methods", "num_clusters", "num_seeds", "num_folds"),
        "privacy": ("aggregator",),
        "machines": ("jobs", "parts"),
        "output": ("output_dir", "resume"),
    },
    # A study computes on this machine.
    {topic: names for topic, names in run_flags.HELP.names().items() if topic != "machines"},
)

# A study has checkpoints of its own, and computes on this machine.
_NOT_FOR_STUDIES = ("reuse", "workers")


def settings() -> dict[str, Any]:
  """Returns the settings of a `StudyConfig` but `run`; ValueError if the flags don't fit."""
  for name in _NOT_FOR_STUDIES:
    if getattr(flags.FLAGS, name) is not None:
      raise validate.error(name, "be left out in a study", getattr(flags.FLAGS, name))
  if flags.FLAGS.jobs is not None:
    validate.integer(1, jobs=flags.FLAGS.jobs)
  return option_flags.given(config_lib.StudyConfig)


def data_dir() -> str | None:
  """Returns where the data come from, an absolute path or None."""
  path = flags.FLAGS.data_dir
  return path if path is None else os.path.abspath(path)


def jobs() -> int:
  """Returns how many processes run at the same time."""
  return flags.FLAGS.jobs or len(os.sched_getaffinity(0))


def parts() -> list[str]:
  """Returns the paths of the folders of studies whose cells are taken over."""
  folders = [os.path.expanduser(folder) for folder in flags.FLAGS.parts if folder]
  output_dir = flags.FLAGS.output_dir
  for folder in folders:
    # --overwrite would remove what is to be taken over.
    if output_dir is not None and os.path.realpath(folder) == os.path.realpath(output_dir):
      raise ValueError(f"`parts` must be other folders than `output_dir`, got {folder!r}.")
  return folders

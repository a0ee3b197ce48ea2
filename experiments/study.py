"""The study: does grouping clients help, which method does it best, and is the gain real?

  bazel run experiments:study -- \\
      --flagfile=experiments/presets/study_digits.flags --output_dir=out

Methods are compared in several settings, with several seeds and, with --num_folds, folds.  A
study that was interrupted goes on with --resume.  Of the flags of a single run, --partition,
--dirichlet_alpha and --num_groups follow from --settings.  --reuse and --dataset=auto are refused,
and so are --control_repeats and --method_repeats but for 0.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import contextlib
import dataclasses
import functools
import os
from typing import Any, Mapping

from absl import flags
import tqdm

from clustering_basics import core_count
from clustering_basics import validate
from experiment_shell import experiment
from experiment_shell import finished_run
from experiment_shell import option_flags
from experiment_shell import output_folder
from experiment_shell import program_help
from experiments.grouping_study import cells
from experiments.grouping_study import config as config_lib
from experiments.grouping_study import jobs
from experiments.grouping_study import parts
from experiments.grouping_study import results
from experiments.own_tables import column_flags
from experiments import reports
from experiments.three_phase import data
from experiments.three_phase import flags as three_phase_flags
from fl_clustering.tables import clients as clients_lib

flags.adopt_module_key_flags(three_phase_flags)

option_flags.define(config_lib.StudyConfig)
flags.DEFINE_integer(
    "jobs", None,
    "Processes that run at the same time, each with its share of the cores. The numbers don't "
    "depend on it. Default: one per core.")
flags.DEFINE_list(
    "parts", [],
    "Comma-separated folders of studies with the same options but for --settings, --seed and "
    "--num_seeds. What they have measured is taken over, so that several parts get one report. "
    "With --resume, give it again.")

# What a study has other defaults for than a single run.
for _name, _value in {
    "dataset": "digits",
    "methods": ",".join(config_lib.METHODS),
    "personal": ",".join(config_lib.PERSONAL),
    "control_repeats": 0,
}.items():
  flags.FLAGS.set_default(_name, _value)

# A study has checkpoints of its own.
_NOT_FOR_STUDIES = ("reuse",)

HELP = program_help.Help(
    {
        "data": ("settings", "dataset", "data_dir", "num_clients"),
        "tables": ("schema", "label_column"),
        "training": ("model", "pretrain_rounds", "cluster_rounds", "learning_rate"),
        "methods": ("methods", "num_clusters", "num_seeds", "num_folds"),
        "privacy": ("aggregator",),
        "machines": ("jobs", "parts"),
        "output": ("output_dir", "resume"),
    },
    {
        topic: [name for name in names if name not in _NOT_FOR_STUDIES]
        for topic, names in three_phase_flags.HELP.names().items()
    },
)


def _settings() -> dict[str, Any]:
  """Returns the settings of a `StudyConfig` but `run`; ValueError if the flags don't fit."""
  option_flags.check_left_out(_NOT_FOR_STUDIES, "in a study")
  if flags.FLAGS.jobs is not None:
    validate.integer(1, jobs=flags.FLAGS.jobs)
  return option_flags.given(config_lib.StudyConfig)


def _data_dir() -> str | None:
  path = flags.FLAGS.data_dir
  return path if path is None else os.path.abspath(path)


def _num_jobs() -> int:
  return flags.FLAGS.jobs or core_count.usable()


def _parts() -> list[str]:
  """Returns the paths of the folders of studies whose cells are taken over."""
  folders = [os.path.expanduser(folder) for folder in flags.FLAGS.parts if folder]
  output_dir = flags.FLAGS.output_dir
  for folder in folders:
    # --overwrite would remove what is to be taken over.
    if output_dir is not None and os.path.realpath(folder) == os.path.realpath(output_dir):
      raise ValueError(f"`parts` must be other folders than `output_dir`, got {folder!r}.")
  return folders


def _load(config: config_lib.StudyConfig, data_dir: str | None) -> experiment.Inputs:
  """Returns the inputs of a study, whose data are those of no run but their description."""
  fingerprints = {}
  for group in config.groups:
    # One of each setting; another seed can still fail, which is then a result.
    if group.setting not in fingerprints:
      task = cells.load_task(config, group, data_dir)
      fingerprints[group.setting] = task.fingerprint()
  return experiment.Inputs(
      data=None,
      document={
          "data": {
              "name": task.name,
              "source": task.source,
              "data_dir": data_dir,
              "num_classes": task.num_classes,
              "num_clients": len(task.clients),
              "num_new_clients": len(task.new_clients),
              "fingerprints": fingerprints,
          },
          **({"sha256_by_client": dict(task.row_digests)} if task.row_digests else {}),
          "model": {"name": task.model.name, "num_parameters": task.num_parameters},
          **data.describe_own_methods(config.run),
      },
      lines=(
          f"data: {task.source}",
          f"runs: {len(config.groups):,}, one for every setting, seed and fold, each with "
          f"{len(cells.methods_of(config.run)) - 1} methods and controls",
      ),
  )


def _check_recorded(recorded: Mapping[str, Any], document: Mapping[str, Any]) -> None:
  """Raises a ValueError if the study to resume had other data or other code of an own method."""
  data.check_own_methods(recorded, document)
  if recorded["data"]["fingerprints"] != document["data"]["fingerprints"]:
    digests = (one.get("sha256_by_client", {}) for one in (recorded, document))
    got = clients_lib.changed(*digests) or "other examples"
    raise ValueError(f"`data_dir` must give the same data as in the study to resume, got {got}.")


def _measure_groups(
    config: config_lib.StudyConfig, measured: Mapping[config_lib.Group, Any], folder: str
) -> None:
  """Measures the groups that are not measured yet, and writes their tables.

  Args:
    measured: The tables of groups that other studies have measured.
  """
  num_jobs = _num_jobs()
  num_cores = max(1, core_count.usable() // num_jobs)
  study = jobs.Study(config, _data_dir(), folder, num_cores)
  for group, texts in measured.items():
    if not cells.is_measured(folder, group):
      cells.write_texts(folder, group, texts)
  left = []
  for group in config.groups:
    if cells.is_measured(folder, group):
      cells.remove_leftovers(folder, group)
    else:
      left.append(group)
  cells.write_joined(config, folder)
  with tqdm.tqdm(
      total=len(config.groups), initial=len(config.groups) - len(left), unit="run"
  ) as bar:

    def tell_measured(group: config_lib.Group) -> None:
      cells.write_joined(config, folder)
      bar.update()

    def tell_stage(group: config_lib.Group, stage: str) -> None:
      bar.set_postfix_str(f"{group.name}: {stage}", refresh=bar.mininterval < 1)

    jobs.measure(study, left, num_jobs, tell_measured, tell_stage)


class Study(experiment.Experiment):
  name = "study"
  program = "study"
  files = (cells.RESULTS, cells.ROUNDS)
  folders = ("cells", "figures")
  versions_of = ("numpy", "scikit-learn", "scipy", "tensorflow", "tensorflow-federated")
  report = reports.MODULES[name]
  check_recorded = staticmethod(_check_recorded)

  def config(self) -> config_lib.StudyConfig:
    own = _settings()
    with column_flags.naming_draft(flags.FLAGS.data_dir):
      run = data.config_of(three_phase_flags.settings(), flags.FLAGS.data_dir)
    return config_lib.StudyConfig(run, **own)

  def load(self, config: Any, recorded: Any, stack: contextlib.ExitStack) -> experiment.Inputs:
    del recorded, stack
    loaded = _load(config, _data_dir())
    folders = _parts()
    if not folders:
      return loaded
    known = loaded.document["data"]["fingerprints"]

    @functools.cache
    def fingerprint(setting: str, seed: int) -> str:
      if seed == config.run.seed:
        return known[setting]
      group = next(one for one in config.groups if one.setting == setting)
      other = dataclasses.replace(group, seed=seed)
      return cells.load_task(config, other, _data_dir()).fingerprint()

    versions = experiment.versions(self.versions_of)
    measured = parts.read(folders, config, fingerprint, versions)
    line = f"taken over: {len(measured):,} of these runs, from {', '.join(folders)}"
    return dataclasses.replace(loaded, data=measured, lines=(*loaded.lines, line))

  def measure(
      self, config: Any, inputs: experiment.Inputs, folder: output_folder.OutputFolder
  ) -> Mapping[str, Any]:
    _measure_groups(config, inputs.data or {}, folder.path)
    return results.summary(results.read(finished_run.FinishedRun(folder.path)))

  def result_text(self, finished: finished_run.FinishedRun) -> str:
    return results.text(results.read(finished))

  def problem(self, finished: finished_run.FinishedRun) -> str:
    return results.problem(results.read(finished))

  def may_get_further(self, finished: finished_run.FinishedRun) -> bool:
    return results.may_get_further(results.read(finished))


def start() -> None:
  """Runs the program; a script that has a method of its own calls this."""
  launch.run(Study().main, HELP)


if __name__ == "__main__":
  start()

"""The study: does grouping clients help, which method does it best, and is the gain real?

  bazel run experiments:study -- --flagfile=experiments/presets/study_digits.flags \\
      --output_dir=out

Methods are compared in several settings, with several seeds and, with --num_folds, folds.  A
study that was interrupted goes on with --resume.  Of the flags of a single run, --partition,
--dirichlet_alpha and --num_groups follow from --settings, and --workers, --reuse,
--control_repeats and --dataset=auto are refused.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import dataclasses
import os

from absl import flags
import tqdm

from experiment_shell import experiment
from experiments.grouping_study import cells
from experiments.grouping_study import flags as study_flags
from experiments.grouping_study import inputs
from experiments.grouping_study import jobs
from experiments.grouping_study import parts
from experiments.grouping_study import results

flags.adopt_module_key_flags(study_flags)


def _load(config, unused_recorded, unused_stack):
  study_flags.jobs()  # Bad input is noticed before anything is written.
  loaded = inputs.load(config, study_flags.data_dir())
  folders = study_flags.parts()
  if not folders:
    return loaded
  versions = experiment.versions(EXPERIMENT.versions_of)
  measured = parts.read(folders, config, loaded.document["data"]["fingerprints"], versions)
  line = f"taken over: {len(measured):,} of these runs, from {', '.join(folders)}"
  return dataclasses.replace(loaded, data=measured, lines=(*loaded.lines, line))


def _measure(config, loaded, folder):
  num_jobs = study_flags.jobs()
  study = jobs.Study(
      config, study_flags.data_dir(), folder.path,
      max(1, len(os.sched_getaffinity(0)) // num_jobs),
  )
  for group, texts in (loaded.data or {}).items():
    if not cells.is_measured(folder.path, group):
      cells.write_texts(folder.path, group, texts)
  left = []
  for group in config.groups:
    if cells.is_measured(folder.path, group):
      cells.remove_leftovers(folder.path, group)
    else:
      left.append(group)
  cells.write_joined(config, folder.path)
  with tqdm.tqdm(
      total=len(config.groups), initial=len(config.groups) - len(left), unit="run"
  ) as bar:

    def tell_measured(group):
      cells.write_joined(config, folder.path)
      bar.update()

    def tell_stage(group, stage):
      bar.set_postfix_str(f"{group.name}: {stage}")

    jobs.measure(study, left, num_jobs, tell_measured, tell_stage)


def _build_write_report():
  from experiments.grouping_study import report  # pylint: disable=g-import-not-at-top

  return report.write_report


EXPERIMENT = experiment.Experiment(
    name="study",
    program="study",
    files=(cells.RESULTS, cells.ROUNDS),
    folders=("cells", "figures"),
    versions_of=("numpy", "scikit-learn", "scipy", "tensorflow", "tensorflow-federated"),
    read_flags=study_flags.config,
    load=_load,
    measure=_measure,
    build_write_report=_build_write_report,
    result_text=lambda run: results.text(results.read(run)),
    check_recorded=inputs.check_recorded,
    summarize=lambda run: results.summary(results.read(run)),
    problem=lambda run: results.problem(results.read(run)),
    may_get_further=lambda run: results.may_get_further(results.read(run)),
)

if __name__ == "__main__":
  launch.run(experiment.build_main(EXPERIMENT))

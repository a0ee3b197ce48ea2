"""The study: does grouping clients help, which method does it best, and is the gain real?

  bazel run experiments:study -- \\
      --flagfile=experiments/presets/study_tuned.flags --output_dir=out

Methods are compared in several settings, with several seeds and, with --num_folds, folds.  A
study that was interrupted goes on with --resume.  Of the flags of a single run, --partition,
--dirichlet_alpha and --num_groups follow from --settings.  --control_repeats and --method_repeats
are refused but for 0.  With --learning_rates, or --tune, each has the best candidate of its own.
"""

import contextlib
import os

from absl import flags

from clustering_basics import core_count
from clustering_basics import validate
from experiment_shell import cell_processes
from experiment_shell import launch
from experiment_shell import option_flags
from experiment_shell import program
from experiments.own_tables import column_flags
from experiments.study import config as config_lib
from experiments.three_phase_emnist import data
from experiments.three_phase_emnist import flags as three_phase_flags
from fl_clustering.engine import engines

option_flags.define(config_lib.StudyConfig)
flags.DEFINE_integer(
    "jobs", None,
    "Processes that run at the same time, each with its share of the cores, or with one where JAX "
    "computes on a CPU. The numbers don't depend on it. Default: one per core; on an accelerator 1, "
    "as all would share it.")
flags.DEFINE_string(
    "cluster", None,
    "Address of a Dask scheduler, such as tcp://scheduler:8786, whose workers measure in place of "
    "processes here (extra `cluster`). They must have one thread each, and --data_dir and "
    "--output_dir must be folders that they share with this machine.")

# What a study has other defaults for than a single run.
for _name, _value in {
    "methods": ",".join(config_lib.DEFAULT_METHODS),
    "personal": ",".join(config_lib.DEFAULT_PERSONAL),
    "control_repeats": 0,
}.items():
  flags.FLAGS.set_default(_name, _value)


def config() -> config_lib.StudyConfig:
  """Returns the settings; ValueError if the flags don't fit."""
  option_flags.check_left_out(("clients_per_block",), "in a study")
  if flags.FLAGS.jobs is not None:
    validate.integer(1, jobs=flags.FLAGS.jobs)
    if flags.FLAGS.cluster is not None:
      raise validate.error("jobs", "be left out with `cluster`", flags.FLAGS.jobs)
  own = option_flags.given(config_lib.StudyConfig)
  with column_flags.naming_draft(flags.FLAGS.data_dir):
    of_runs = data.with_engine(three_phase_flags.settings())
    tuned = config_lib.tuned_option(own.get("learning_rates"), own.get("tune"))
    if tuned is not None:
      option_flags.check_left_out([tuned.name], "where it is tuned")
      of_runs[tuned.name] = tuned.candidates[0]  # It decides what other options it needs.
    run = data.config_of(of_runs, flags.FLAGS.data_dir)
  return config_lib.StudyConfig(run, **own)


def main() -> None:
  with contextlib.ExitStack() as stack:
    client, has_accelerator = None, False
    with launch.input_errors():
      settings = config()
      if flags.FLAGS.cluster is not None:
        client = stack.enter_context(cell_processes.connected(flags.FLAGS.cluster))
      elif settings.run.engine == engines.JAX:
        # Elsewhere, as this process would keep the memory of an accelerator from the cells.
        has_accelerator = cell_processes.call(data.check_engine, settings.run.engine)
    from experiments.study import cells  # It takes long to import.

    jobs = flags.FLAGS.jobs or (1 if has_accelerator else core_count.usable())
    data_dir = flags.FLAGS.data_dir
    if client is not None and data_dir is not None:
      data_dir = os.path.abspath(data_dir)  # Workers have working folders of their own.
    program.main(
        cells.EXPERIMENT, settings, jobs=jobs, client=client, data_dir=data_dir,
        num_cores=max(1, core_count.usable() // jobs),
    )


def start() -> None:
  """Runs the program; a script that has a method of its own calls this."""
  launch.run(main)


if __name__ == "__main__":
  start()

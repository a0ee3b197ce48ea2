"""The flags of the benchmark of private clustering: the only place that reads them."""

from absl import flags

from clustering_basics import validate
from experiment_shell import path_flag
from experiment_shell import run_flags
from experiments.private import config as config_lib
from experiments.private import data
from experiments.private import methods

flags.adopt_module_key_flags(run_flags)

_DEFAULTS = config_lib.BenchmarkConfig()


def _listed(name):
  return ",".join(f"{value:g}" if isinstance(value, float) else str(value)
                  for value in getattr(_DEFAULTS, name))


flags.DEFINE_list(
    "datasets", _listed("datasets"),
    "Comma-separated, of: " + ", ".join(data.DATASETS) + ". The constants of refine were never "
    "tuned on " + ", ".join(data.NEW) + ".")
path_flag.define(
    "data_dir", None,
    "Folder with UCI's files: letter-recognition.data (or .gz), gt_2011.csv to "
    "gt_2015.csv. Missing files are downloaded from OpenML. Default: only OpenML.")
flags.DEFINE_list(
    "methods", _listed("methods"),
    "Comma-separated, of: " + ", ".join(methods.LABELS) + ". The last two are refine on sums over "
    "clients, with TFF; the server adds the noise, or every client a share. Data without clients are "
    f"split into {data.NUM_CLIENTS}.")
path_flag.define(
    "diffprivlib_python", None,
    "Path of a Python with IBM's diffprivlib (requirements-diffprivlib.txt). Default: the one "
    "that Bazel makes. Without Bazel there is none, and diffprivlib is left out.")
flags.DEFINE_list(
    "k_to_try", _listed("k_to_try"), "Comma-separated numbers of clusters, at --fixed_epsilon.")
flags.DEFINE_float(
    "fixed_epsilon", _DEFAULTS.fixed_epsilon, "The epsilon of the private methods for --k_to_try.")
flags.DEFINE_list(
    "epsilon_to_try", _listed("epsilon_to_try"),
    "Comma-separated values of epsilon, with --fixed_k clusters; may be empty.")
flags.DEFINE_integer(
    "fixed_k", _DEFAULTS.fixed_k, "Number of clusters for --epsilon_to_try.")
flags.DEFINE_float("delta", _DEFAULTS.delta, "The delta of the private methods.")
flags.DEFINE_integer(
    "runs", _DEFAULTS.runs,
    "Runs of each method for each data set, k and epsilon; Google's benchmarks had 20.")
flags.DEFINE_integer(
    "seed", _DEFAULTS.seed,
    "Seed of all randomness: data and clustering. The noise is repeatable, so nothing here "
    "is private.")


def _numbers(name, kind):
  """Returns the values of a flag that is a list of numbers."""
  try:
    return tuple(kind(text) for text in getattr(flags.FLAGS, name) if text)
  except ValueError as e:
    rule = "be whole numbers" if kind is int else "be numbers"
    raise validate.error(name, rule, ",".join(getattr(flags.FLAGS, name))) from e


def _check_used(name, used_by, chosen):
  """Raises a ValueError if a flag is given but nothing chosen uses it."""
  if getattr(flags.FLAGS, name) is not None and not set(used_by) & set(chosen):
    raise validate.error(
        name, f"be left out without {' or '.join(used_by)}", getattr(flags.FLAGS, name))


def config():
  """Returns the `BenchmarkConfig` of the flags; ValueError if they don't fit."""
  values = flags.FLAGS
  found = config_lib.BenchmarkConfig(
      datasets=tuple(filter(None, values.datasets)),
      methods=tuple(filter(None, values.methods)),
      k_to_try=_numbers("k_to_try", int),
      fixed_epsilon=values.fixed_epsilon,
      epsilon_to_try=_numbers("epsilon_to_try", float),
      fixed_k=values.fixed_k,
      delta=values.delta,
      runs=values.runs,
      seed=values.seed,
  )
  _check_used("data_dir", data.FROM_FILES, found.datasets)
  _check_used("diffprivlib_python", ["diffprivlib"], found.methods)
  return found


def data_dir():
  """Returns the folder with UCI's files, or None."""
  return flags.FLAGS.data_dir


def diffprivlib_python():
  """Returns the path of a Python with diffprivlib, or None."""
  return flags.FLAGS.diffprivlib_python

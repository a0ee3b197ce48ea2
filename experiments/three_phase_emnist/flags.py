"""The flags of the three-phase experiment."""

from typing import Any

from absl import flags

from clustering_basics import validate
from experiment_shell import option_flags
from experiment_shell import path_flag
from experiments.own_tables import column_flags
from fl_clustering.engine import engines
from fl_clustering.tasks import registry as task_registry
from fl_clustering.three_phase import config as config_lib

path_flag.define("data_dir", None, task_registry.DATA_DIR)
flags.DEFINE_integer(
    "clients_per_block", None,
    "How many clients the engine jax trains side by side: fewer need less memory of the device. "
    "Default: as many as take about 4 GiB.", lower_bound=1)

# The defaults of a single run on the digits: clients that differ in kind and in labels, with
# settings under which a grouping finds the kinds.
OF_DIGITS = {
    "partition": "rotated",
    "dirichlet_alpha": 0.5,
    "num_clients": 20,
    "pretrain_rounds": 10,
    "cluster_rounds": 4,
    "client_epochs_per_round": 2,
    "learning_rate": 0.05,
    "num_clusters": 4,
    "representation": "normalized_update",
}
_ON_DIGITS = "Of three_phase_emnist on digits"

option_flags.define(config_lib.ThreePhaseConfig, OF_DIGITS, _ON_DIGITS)


def clients_per_block(engine: str) -> int | None:
  """Returns the value of the flag; ValueError if the engine has no blocks."""
  given = flags.FLAGS.clients_per_block
  if given is not None and engine != engines.JAX:
    raise validate.error("clients_per_block", f"be left out with engine={engine}", given)
  return given


def settings() -> dict[str, Any]:
  """Returns the settings of a `ThreePhaseConfig` that are given or have a default as flags."""
  dataset, schema = flags.FLAGS.dataset, None
  if task_registry.DATASETS[dataset].reads_tables:
    if flags.FLAGS.data_dir is None:
      raise validate.error("data_dir", "name the folder with the clients' files", None)
    schema = column_flags.schema(flags.FLAGS.data_dir)
  else:
    for name in (*column_flags.NAMES, "schema"):
      if flags.FLAGS[name].value:
        rule = f"be left out with `dataset` {dataset}; --dataset=files reads tables"
        raise validate.error(name, rule, flags.FLAGS[name].value)
  return {**option_flags.given(config_lib.ThreePhaseConfig), "schema": schema}

"""Which settings recover the clients' true groups, where these are known."""

from typing import TYPE_CHECKING, Any

from clustering_basics import randomness
from fl_clustering.methods import client_weights
from fl_clustering.methods import registry

if TYPE_CHECKING:
  from fl_clustering.tasks import federated_task
  from fl_clustering.three_phase import config as config_lib
  from fl_clustering.three_phase import result as result_lib

# Local epochs that are tried besides the run's own.
_EPOCHS = (1, 5)


def recovery_rows(
    config: "config_lib.ThreePhaseConfig", task: "federated_task.FederatedTask",
    result: "result_lib.ThreePhaseResult",
) -> list[dict[str, Any]]:
  """Tries every representation and several numbers of local epochs.

  It trains the clients, so TFF's context and the run's data folder must still be there.

  Returns:
    Two rows for each grouping without overlap and each setting; none where no true groups are
    known, or no weights.
  """
  true_groups = task.true_groups
  names = [name for name in config.methods if name in registry.GROUPINGS]
  if true_groups is None or not names or result.client_weights is None:
    return []
  if result.num_clusters_choice is not None:
    config = config.with_num_clusters(result.num_clusters_choice.num_clusters)
  used = (config.grouping_epochs, config.representation)
  weights_by_epochs: dict[int | None, client_weights.ClientWeights] = {
      config.grouping_epochs: result.client_weights
  }
  for more_epochs in _EPOCHS:
    if more_epochs not in weights_by_epochs:
      weights_by_epochs[more_epochs] = result.local_weights(more_epochs)
  rows = []
  for name in names:
    for epochs, weights in weights_by_epochs.items():
      for representation in client_weights.REPRESENTATIONS:
        grouping = config.method_settings(name, representation=representation)
        assignment = grouping(weights, randomness.generator(config.seed, "grouping"))
        if assignment.overlapping:
          continue
        setting = {
            "method": name, "representation": representation, "epochs": epochs or "last round",
            "used": int((epochs, representation) == used),
        }
        scores = {
            "adjusted_rand_index": assignment.adjusted_rand_index(true_groups),
            "purity": assignment.purity(true_groups),
        }
        rows += [{**setting, "metric": metric, "value": value} for metric, value in scores.items()]
  return rows

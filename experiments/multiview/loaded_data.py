"""Which data sets an experiment really uses, and what to record of them."""

import dataclasses
import hashlib
import importlib.metadata
import platform

import numpy as np

from experiments.multiview import config as config_lib
from experiments.multiview import datasets

_VERSIONS_OF = ("numpy", "scikit-learn", "scipy", "tensorflow", "tensorflow-federated")


@dataclasses.dataclass(frozen=True)
class LoadedData:
  """The data of a run.

  Attributes:
    data: A mapping of name to `MultiViewData`.
    with_demonstration: Whether the tutorial's simulated DHA is used too.
    left_out: A mapping of name to the reason, of data sets that `auto` did not find.
  """

  data: dict[str, datasets.MultiViewData]
  with_demonstration: bool
  left_out: dict[str, str]

  @property
  def names(self):
    """All names, in the order of the report."""
    return [*self.data, *([config_lib.DEMONSTRATION] if self.with_demonstration else [])]


def load(config, data_dir, sites_dir):
  """Loads what the settings ask for.

  Args:
    config: `MultiViewStudyConfig`.
    data_dir: Folder of the multiple features, or None.
    sites_dir: Folder of the user's sites, or None.

  Raises:
    ValueError: If a data set that was asked for by name is missing, or one can't be
      used.
    OSError: If files can't be read.
  """
  if config.datasets == (config_lib.SITES,):
    sites = datasets.load_sites(sites_dir, config.num_clusters)
    return LoadedData({sites.name: sites}, False, {})
  auto = config.datasets == (config_lib.AUTO,)
  names = config_lib.DATASETS if auto else config.datasets
  data, left_out = {}, {}
  for name in names:
    if name == config_lib.DEMONSTRATION:
      continue
    try:
      data[name] = datasets.DATASETS[name](data_dir)
    except datasets.DatasetMissing as e:
      if not auto or data_dir is not None:
        raise
      left_out[name] = str(e)
  return LoadedData(data, config_lib.DEMONSTRATION in names, left_out)


def _fingerprint(one):
  digest = hashlib.sha256()
  for array in (*one.views.values(), *((one.sites or {}).values())):
    digest.update(np.ascontiguousarray(array).tobytes())
  if one.labels is not None:
    digest.update(one.labels.tobytes())
  return digest.hexdigest()[:16]


def describe(config, loaded):
  """Returns what `config.json` holds."""
  return {
      "config": config.to_json(),
      "data": {
          name: {
              "source": one.source,
              "num_points": one.num_points,
              "num_clusters": one.num_clusters,
              "views": {view: array.shape[1] for view, array in one.views.items()},
              "sites": None if one.sites is None else {
                  site: len(share) for site, share in one.sites.items()
              },
              "fingerprint": _fingerprint(one),
          }
          for name, one in loaded.data.items()
      },
      "with_demonstration": loaded.with_demonstration,
      "left_out": loaded.left_out,
      "versions": {
          "python": platform.python_version(),
          **{name: importlib.metadata.version(name) for name in _VERSIONS_OF},
      },
  }


def check_same_data(recorded, document):
  """Raises a ValueError unless a run to resume had the same data.

  Args:
    recorded: What the run's `config.json` holds, or None for a new run.
    document: As from `describe`.
  """
  if recorded is None:
    return
  for key in ("data", "with_demonstration"):
    if recorded.get(key) != document[key]:
      raise ValueError(
          "`datasets` must give the same data as in the run to resume, got others."
      )

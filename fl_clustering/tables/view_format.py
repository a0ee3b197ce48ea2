"""What the tables of several views look like, and how they become features."""

import collections.abc
import dataclasses
from typing import Mapping

import numpy as np

from fl_clustering.tables import table_format


@dataclasses.dataclass(frozen=True, eq=False)
class ViewFormat:
  """The `TableFormat` of every view.

  Attributes:
    views: By the views' names, in their order.
  """

  views: Mapping[str, table_format.TableFormat]

  @property
  def widths(self):
    """The views' numbers of features."""
    return tuple(len(view.encoding.feature_names) for view in self.views.values())

  @property
  def feature_names(self):
    """The names of all views' features, `view: column`."""
    return tuple(
        f"{name}: {feature}" for name, view in self.views.items()
        for feature in view.encoding.feature_names
    )

  def features(self, frames):
    """Returns the features of rows, the views side by side: float64 of shape (n, D).

    Args:
      frames: A mapping from the views' names to pandas frames, or a list of frames in the order
        of the views.  Row i of every frame is the same row; further views are left alone.

    Raises:
      TypeError: If it is neither.
      ValueError: If a view or a column is missing, a cell can't be used, or numbers of rows
        differ.
    """
    blocks = []
    for name, frame in self._by_name(frames).items():
      try:
        blocks.append(self.views[name].features(frame))
      except ValueError as e:
        raise ValueError(f"`frames` must fit the model, got view {name!r}: {e}") from e
      if len(blocks[-1]) != len(blocks[0]):
        raise ValueError(
            f"`frames` must have the same rows, got {len(blocks[-1])} in view {name!r} and "
            f"{len(blocks[0])} in view {next(iter(self.views))!r}."
        )
    return np.concatenate(blocks, axis=1)

  def _by_name(self, frames):
    if isinstance(frames, (list, tuple)):
      if len(frames) != len(self.views):
        raise ValueError(
            f"`frames` must be one for each of the views {', '.join(self.views)}, got "
            f"{len(frames)}."
        )
      return dict(zip(self.views, frames))
    if not isinstance(frames, collections.abc.Mapping):
      raise TypeError(
          "`frames` must be a list of frames or a mapping from view to frame, got "
          f"{type(frames).__name__}."
      )
    for name in self.views:
      if name not in frames:
        raise ValueError(f"`frames` must have the view {name!r}, got {list(frames)}.")
    return {name: frames[name] for name in self.views}

  def to_json(self):
    """Returns the format as a dict for JSON."""
    return {name: view.to_json() for name, view in self.views.items()}

  @classmethod
  def from_json(cls, document):
    """Returns the format that `to_json` returned as a dict."""
    return cls({
        name: table_format.TableFormat.from_json(view) for name, view in document.items()
    })

"""How far a run has come, as arrays, so that it can go on from there."""

from __future__ import annotations

import dataclasses
from typing import Mapping, TYPE_CHECKING

import numpy as np

from fl_clustering.private_clusters import training

if TYPE_CHECKING:
  from dp_clustering import ledger as ledger_lib

_STATE = ("sizes", "clip_norm", "round_num", "revived", "is_exact")
_RELEASES = ("sensitivity", "std", "mu")


@dataclasses.dataclass(frozen=True, eq=False)
class Progress:
  """A run between two rounds.

  Attributes:
    state: What the server knows.
    centers: The released centers of sketches, of shape (K, d).
    releases: All releases so far, which the rest of the run adds to.
  """

  state: training.State
  centers: np.ndarray
  releases: tuple[ledger_lib.Release, ...]

  def to_arrays(self) -> dict[str, np.ndarray]:
    """Returns all but the models as arrays by name; `from_arrays` is the inverse."""
    return {
        **{name: np.array(getattr(self.state, name)) for name in _STATE},
        "centers": self.centers,
        "release_names": np.array([release.name for release in self.releases], np.str_),
        **{
            f"release_{name}": np.array([getattr(release, name) for release in self.releases])
            for name in _RELEASES
        },
    }

  @classmethod
  def from_arrays(cls, vectors: np.ndarray, arrays: Mapping[str, np.ndarray]) -> Progress:
    """Returns the progress that `to_arrays` made the arrays of.

    Args:
      vectors: The models, float32 of shape (K, P).
    """
    # Imported here, since the import takes most of a second.
    from dp_clustering import ledger as ledger_lib  # pylint: disable=g-import-not-at-top

    sizes, *numbers = (arrays[name] for name in _STATE)
    columns = [arrays[f"release_{name}"].tolist() for name in _RELEASES]
    return cls(
        training.State(vectors, sizes, *(number.item() for number in numbers)),
        arrays["centers"],
        tuple(
            ledger_lib.Release(*values)
            for values in zip(arrays["release_names"].tolist(), *columns)
        ),
    )

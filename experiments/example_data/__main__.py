"""Downloads data of real people or hospitals, for the examples.

  bazel run experiments:example_data -- --dataset=hospitals --output_dir=folder
"""

import dataclasses
import os
from typing import Callable

from absl import flags

from clustering_basics import atomic_file
from experiment_shell import launch
from experiment_shell import option_flags
from experiment_shell import path_flag
from experiments.example_data import activity
from experiments.example_data import downloads
from experiments.example_data import hospitals


@dataclasses.dataclass(frozen=True)
class Source:
  """Data that can be downloaded.

  Attributes:
    files: A function from the archive's bytes to the files to write, contents by name.
  """

  url: str
  sha256: str
  files: Callable[[bytes], dict[str, bytes]]
  about: str


DATASETS = {
    "activity": Source(
        activity.URL, activity.SHA256, activity.files, "30 people with a phone, a file each"
    ),
    "activity_views": Source(
        activity.URL, activity.SHA256, activity.view_files,
        "the same people, a folder each with a file per sensor",
    ),
    "hospitals": Source(
        hospitals.URL, hospitals.SHA256, hospitals.files,
        "heart disease at four hospitals, one table",
    ),
}

flags.DEFINE_enum(
    "dataset", None, DATASETS,
    "What to download: "
    + "; ".join(f"`{name}`: {source.about}" for name, source in DATASETS.items()) + ".")
path_flag.define("output_dir", None, "Folder to write to; other files in it stay.")


def main() -> None:
  with launch.input_errors():
    option_flags.check_given("dataset", "output_dir")
    folder, source = flags.FLAGS.output_dir, DATASETS[flags.FLAGS.dataset]
    os.makedirs(folder, exist_ok=True)
  try:
    files = source.files(downloads.download(source.url, source.sha256))
    for name, content in files.items():
      os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
      with atomic_file.atomic_path(os.path.join(folder, name)) as temporary:
        with open(temporary, "wb") as file:
          file.write(content)
  except OSError as e:
    raise launch.RunFailed(f"{e}.") from e
  print(f"{len(files)} files: {folder}")


if __name__ == "__main__":
  launch.run(main)

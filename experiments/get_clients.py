"""Downloads data of real people or hospitals, one file per client, for the examples.

  bazel run experiments:get_clients -- --dataset=hospitals --output_dir=folder
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import os

from absl import flags

from clustering_basics import atomic_file
from clustering_basics import validate
from experiment_shell import path_flag
from experiments.clients import activity
from experiments.clients import downloads
from experiments.clients import hospitals

# To add data: one module with `URL`, `SHA256` and `files`.
DATASETS = {"activity": activity, "hospitals": hospitals}

flags.DEFINE_enum(
    "dataset", None, DATASETS,
    "What to download: `activity`, 30 people with a phone (19 MB); `hospitals`, heart disease at "
    "four hospitals (a table of 0.1 MB in a package of 2 MB).")
path_flag.define("output_dir", None, "Folder to write to; files in it stay.")


def main():
  with launch.input_errors():
    for name in ("dataset", "output_dir"):
      if flags.FLAGS[name].value is None:
        raise validate.error(name, "be given", None)
    folder, source = flags.FLAGS.output_dir, DATASETS[flags.FLAGS.dataset]
    os.makedirs(folder, exist_ok=True)
  try:
    files = source.files(downloads.download(source.URL, source.SHA256))
  except downloads.DownloadFailed as e:
    raise launch.RunFailed(f"{e}.") from e
  with launch.run_errors(folder):
    for name, content in files.items():
      with atomic_file.atomic_path(os.path.join(folder, name)) as temporary:
        with open(temporary, "wb") as file:
          file.write(content)
  print(f"{len(files)} files: {folder}")


if __name__ == "__main__":
  launch.run(main)

"""The output folder of a multi-view experiment: what is in it."""

from experiment_shell import output_folder

MEASUREMENTS = "measurements.csv"
CLUSTERS = "clusters.csv"
FIGURES = "figures"


def open_folder(path, resume, overwrite):
  """Returns the `OutputFolder`; changes nothing yet.

  Raises:
    ValueError: If the folder can't be used this way.
  """
  return output_folder.OutputFolder(
      path, resume, overwrite, files=(MEASUREMENTS, CLUSTERS), folders=(FIGURES,)
  )

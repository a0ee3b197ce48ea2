"""The clusters of the user's own points, as a file."""

from experiment_shell import output_folder
from experiments.multiview import cells
from experiments.multiview import methods
from experiments.multiview import run_folder


def write(folder, data, config):
  """Writes site, row and cluster of every point: equal weights, first seed.

  Args:
    folder: The `OutputFolder`.
    data: `MultiViewData` with sites.
    config: `MultiViewStudyConfig`.
  """
  problem = cells.problem(data, cells.AS_GIVEN, config.seed, config)
  clusters = methods.fit(problem, "equal").predict(list(data.views.values()))
  rows = [
      (site, row, clusters[index])
      for site, share in data.sites.items() for row, index in enumerate(share)
  ]
  folder.write_text(
      run_folder.CLUSTERS, output_folder.csv_text(("site", "row", "cluster"), rows)
  )

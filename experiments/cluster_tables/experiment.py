"""A number of clusters of one's own tables, a model of these, and what they are like.

A cell is a number of clusters.  A private run shows and leaves nothing that depends on a row but
its centers.  Where the rows are decides `here` or `at_sites`; both give `here.Rows`.
"""

from __future__ import annotations

import contextlib
from typing import Any, Mapping, TYPE_CHECKING

from absl import logging

from experiment_shell import tidy_experiment
from experiment_shell import tidy_tables
from experiments.cluster_tables import config as config_lib
from experiments.cluster_tables import fitted_rows
from experiments.cluster_tables import here
from experiments.cluster_tables import summary
from experiments.own_tables import predictions

if TYPE_CHECKING:
  from fl_clustering import load_model
  from fl_clustering.points import fitted
  from fl_clustering.tables import saved


def _load(
    config: config_lib.Config, stack: contextlib.ExitStack, *, data_dir: str = "",
    advice: contextlib.AbstractContextManager[None] = contextlib.nullcontext(), **of_sites: Any,
) -> tidy_experiment.Inputs:
  """Loads what is in a folder of this machine, or what several sites have agreed on.

  Args:
    advice: Adds to the errors of the folder's files what the user can do.
    **of_sites: The options of `at_sites.load`.
  """
  if config.at_sites:
    from experiments.cluster_tables import at_sites  # pylint: disable=g-import-not-at-top

    return at_sites.load(config, stack, **of_sites)
  return here.load(config, data_dir, advice)


def cells(config: config_lib.Config, unused_data: Any = None) -> list[dict[str, Any]]:
  """Returns the numbers of clusters to try."""
  return [{"num_clusters": number} for number in config.candidates]


def _model(fit: fitted.Fit, tables: saved.SavedTables) -> load_model.SavedModel:
  from fl_clustering import load_model  # pylint: disable=g-import-not-at-top

  kind = load_model.SavedMultiView if tables.has_views else load_model.SavedKMeans
  return kind.of_fit(fit, tables)


def _release(run: tidy_experiment.Run, fit: fitted.Fit) -> None:
  """Writes what may be shown of a fit whose rows can't be looked at."""
  fit.warn_of_few_points()
  if fit.privacy_spent is not None:
    stated = dict(fit.privacy_spent)
    if run.is_resumed:
      stated["interrupted"] = "count the guarantee once more for every --resume that fitted again"
    fitted_rows.write_table(run.folder, summary.GUARANTEE, ("name", "value"), stated.items())
  if run.data.log:
    header = ("exchange", "what", "metric", "value")
    fitted_rows.write_table(run.folder, summary.EXCHANGES, header, (
        (place, one["what"], metric, one[metric])
        for place, one in enumerate(run.data.log, start=1)
        for metric in ("bytes_down", "most_bytes_up", "seconds")
    ))
  fitted_rows.write_model(run.folder, _model(fit, run.data.tables))


def _measure(run: tidy_experiment.Run, num_clusters: int) -> dict[str, list[dict[str, Any]]]:
  """Returns the scores and the rounds of a fit; writes what is released of it."""
  config, data = run.config, run.data
  if config.privacy is not None and run.is_resumed:
    logging.warning(
        "The interrupted run may have released something. This fit draws new noise, so that the "
        "budget of (%g, %g) is spent once more.", config.epsilon, config.delta,
    )
  fit, tables = data.fit(num_clusters), data.tables
  results = {"rounds": fit.num_rounds}
  of_rounds = {"bytes_down_per_client": "bytes_down", "bytes_up_per_client": "bytes_up"}
  if tables.has_views:
    weights = fit.model.on_grid.view_weights.tolist()
    results |= {summary.WEIGHT + view: weight for view, weight in zip(tables.schemas, weights)}
  if fit.ledger is not None:
    results |= {"epsilon": fit.privacy_spent["epsilon"], "mu_spent": fit.ledger.mu_spent}
  else:  # All of it depends on single rows.
    loss = summary.loss_name(tables.has_views)
    results |= {
        summary.SILHOUETTE: fit.simplified_silhouette, loss: fit.loss,
        summary.FOUND: fit.num_clusters_found,
    }
    of_rounds = {loss: loss, **of_rounds}
    if data.fit_numbers is not None:
      results[summary.SILHOUETTE_OF_NUMBERS] = data.fit_numbers(num_clusters).simplified_silhouette
  if data.folder is None:
    results[summary.ON_FEW_POINTS] = fit.num_centers_on_few_points
    if (text := fit.few_clusters_warning(num_clusters)) is not None:
      logging.warning("%s", text)
    _release(run, fit)
  return {
      tidy_experiment.RESULTS: [
          {"metric": name, "value": value} for name, value in results.items() if value is not None
      ],
      summary.ROUNDS: [
          {"round": number, "stage": getattr(record, "stage", "views"), "metric": metric,
           "value": value}
          for number, record in enumerate(fit.history, start=1)
          for metric, attribute in of_rounds.items()
          if (value := getattr(record, attribute, None)) is not None
      ],
  }


def _finish(run: tidy_experiment.Run, tidy: Mapping[str, Any]) -> None:
  """Writes the model of the best number of clusters, and the rows' clusters and profiles."""
  folder = run.data.folder
  if folder is None:
    return
  fit = run.data.fit(summary.best_num_clusters(tidy[tidy_experiment.RESULTS]))
  fit.warn_of_few_points()
  model = _model(fit, run.data.tables).knowing_farthest(folder)
  fitted_rows.write(run.folder, model, folder)


def _charged_in(config: config_lib.Config) -> str | None:
  return None if config.privacy is None else tidy_experiment.JOURNAL


EXPERIMENT = tidy_experiment.Experiment(
    name="cluster_tables",
    title="Clusters of your own tables",
    keys={"num_clusters": int},
    load=_load,
    cells=cells,
    measure=_measure,
    summarise=summary.summarise,
    headlines=summary.HEADLINES,
    tables=summary.TABLES,
    figures=summary.FIGURES,
    reading=summary.READING,
    tidy={tidy_experiment.RESULTS: {}, summary.ROUNDS: {"round": int, "stage": str}},
    files={
        **fitted_rows.FILES, **predictions.FILES,
        tidy_tables.file_name(summary.GUARANTEE): "what a private run guarantees",
        tidy_tables.file_name(summary.EXCHANGES): "every exchange with the sites (--federation)",
    },
    folders=fitted_rows.FOLDERS,
    read=summary.READ,
    finish=_finish,
    charged_in=_charged_in,
    versions_of=("numpy", "scikit-learn", "nvflare", "cryptography"),
    rechecks_finished=True,
)

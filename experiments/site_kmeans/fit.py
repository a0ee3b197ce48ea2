"""A fit of centroids to the rows of several sites, which stay there, and what left each of them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import Any, Mapping, TYPE_CHECKING

import numpy as np

from clustering_basics import options
from clustering_basics import validate
from experiment_shell import launch
from experiment_shell import tidy_experiment
from experiment_shell import tidy_tables
from experiments.own_tables import fitted_rows
from experiments.own_tables import private_centers
from fl_clustering.kmeans import kmeans_config
from fl_clustering.multiview import multiview_config
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.sites import federation as federation_lib
from fl_clustering.sites import nvflare_kit
from fl_clustering.sites import rows
from fl_clustering.tables import saved
from fl_clustering.tables import views

if TYPE_CHECKING:
  import pandas as pd

EXCHANGES = "exchanges"
# In the operator's folder of keys: it has the sites' addresses, and the run's folder is for all.
_LOG = "nvflare.log"
# Of the federation file's epsilon, for one fit: what is left repeats one that has lost a site.
_DEFAULT_SHARE = 0.5


@dataclasses.dataclass(frozen=True)
class Config(options.Settings):
  """Everything that changes a number of a fit at sites."""

  num_clusters: int = options.option(
      int, "Number of clusters.", rule=validate.AT_LEAST_ONE
  )
  standardize: bool = options.option(
      bool,
      "Scale every column to mean 0 and variance 1 over all sites first, of a column of levels the "
      "sum of their variances; with exact sums.",
      False,
  )
  view_weights: str | None = options.option(
      str, "How much each view counts, for a schema of views: the same, or by a rule that learns.",
      None, default_text=multiview_config.MultiViewConfig.view_weights,
      values=tuple(multiview_config.VIEW_WEIGHTS),
  )
  alpha: float | None = options.option(
      float, "Exponent of weights that are learnt, > 1; closer to 1 makes them less equal.", None,
      default_text=f"{multiview_config.MultiViewConfig.alpha:g}",
  )
  epsilon: float | None = options.option(
      float, "The privacy budget of this fit, a part of the federation file's.", None,
      default_text="half of that",
  )
  # Decides everything random but the noise.
  seed: int = options.option(int, "The seed.", 0, rule=validate.AT_LEAST_ZERO)

  def settings(
      self, tables: saved.SavedTables
  ) -> kmeans_config.KMeansConfig | multiview_config.MultiViewConfig:
    """Returns the settings of a fit of such tables; ValueError if these have others."""
    shared: dict[str, Any] = {
        "n_clusters": self.num_clusters, "standardize": self.standardize, "seed": self.seed,
        "field_widths": tables.field_widths if self.standardize else None,
    }
    of_views: dict[str, Any] = {
        name: value for name in ("view_weights", "alpha")
        if (value := getattr(self, name)) is not None
    }
    if not tables.has_views:
      for name, value in of_views.items():
        raise validate.error(name, "be left out for a schema without views", value)
      return kmeans_config.KMeansConfig(**shared)
    defaults = multiview_config.PRIVATE_DEFAULTS if tables.is_private else {}
    config = multiview_config.MultiViewConfig(**shared, **defaults, **of_views)
    if self.alpha is not None and not config.rule.learns:
      raise validate.error("alpha", "be left out with equal `view_weights`", self.alpha)
    return config


@dataclasses.dataclass(frozen=True, eq=False)
class Sites:
  """Where a fit's rows are, and how they are reached.

  Attributes:
    tables: How rows become points, as at sites.
    settings, epsilon: Of `sites.coordinator.fit_kmeans`.
    kit: The operator's folder of keys.
    seconds: How long a site may take for an answer.
    seconds_to_join: How long sites may take to connect.
  """

  federation: federation_lib.Federation
  tables: saved.SavedTables
  settings: kmeans_config.KMeansConfig | multiview_config.MultiViewConfig
  epsilon: float | None
  kit: str
  seconds: float
  seconds_to_join: float


def _load(
    config: Config, unused_stack: contextlib.ExitStack, *, federation: str, schema: str, kit: str,
    seconds: float, seconds_to_join: float,
) -> tidy_experiment.Inputs:
  # It takes long to import.  pylint: disable=g-import-not-at-top
  from fl_clustering.sites import coordinator as coordinator_lib

  agreed = federation_lib.Federation.load(federation)
  tables = rows.tables(views.load(schema), agreed)
  epsilon = config.epsilon
  if epsilon is None and agreed.privacy is not None:
    epsilon = _DEFAULT_SHARE * agreed.privacy.epsilon
  settings = config.settings(tables)
  privacy = coordinator_lib.with_privacy(settings, agreed, epsilon).privacy
  nvflare_kit.check_operator(kit)
  needed = []
  if privacy is not None:
    needed = [privacy_lib.rows_needed(
        privacy, config.num_clusters, agreed.num_columns, len(agreed.sites)
    )]
  return tidy_experiment.Inputs(
      Sites(agreed, tables, settings, epsilon, kit, seconds, seconds_to_join),
      {"federation": {"file": agreed.document, "fingerprint": agreed.fingerprint}},
      lines=(
          f"sites: {', '.join(agreed.sites)}", *agreed.terms, *needed,
          f"what NVFlare says: {os.path.join(kit, _LOG)}",
      ),
  )


def cells(config: Config, unused_sites: Any = None) -> list[dict[str, Any]]:
  """Returns the one fit."""
  return [{"num_clusters": config.num_clusters}]


def _measure(run: tidy_experiment.Run, num_clusters: int) -> dict[str, list[dict[str, Any]]]:
  """Fits, writes the model, and returns its scores, its centroids and all exchanges."""
  del num_clusters
  # They take long to import.  pylint: disable=g-import-not-at-top
  from fl_clustering import load_model
  from fl_clustering.sites import coordinator as coordinator_lib
  from fl_clustering.sites import nvflare_operator

  sites, tables = run.data, run.data.tables
  with nvflare_operator.open_operator(
      sites.kit, sites.federation.sites, os.path.join(sites.kit, _LOG), sites.seconds,
      sites.seconds_to_join,
  ) as exchange:
    coordinator = coordinator_lib.Coordinator(sites.federation, exchange)
    with launch.input_errors():  # Such as fewer rows than clusters.
      fit = coordinator_lib.fit_kmeans(sites.settings, coordinator, sites.epsilon)
  scores: dict[str, Any] = {"rounds": fit.num_rounds}
  if tables.has_views:
    model = load_model.SavedMultiView.of_fit(fit, tables)
    weights = fit.model.on_grid.view_weights.tolist()
    scores |= {f"weight of {view}": weight for view, weight in zip(tables.schemas, weights)}
    scores["objective"] = fit.loss
  else:
    model = load_model.SavedKMeans.of_fit(fit, tables)
    scores |= {"inertia": fit.loss, "simplified_silhouette": fit.simplified_silhouette}
  fitted_rows.write_model(run.folder, model)
  if fit.ledger is not None:
    scores |= {"epsilon": sites.epsilon, "mu_spent": fit.ledger.mu_spent}
  return {
      tidy_experiment.RESULTS: [
          {"metric": name, "value": value} for name, value in scores.items() if value is not None
      ],
      EXCHANGES: [
          {"exchange": place, "what": one["what"], "metric": metric, "value": one[metric]}
          for place, one in enumerate(coordinator.log, start=1)
          for metric in ("bytes_down", "most_bytes_up", "seconds")
      ],
  }


def _summarise(
    tidy: Mapping[str, pd.DataFrame], document: Mapping[str, Any]
) -> dict[str, pd.DataFrame]:
  # They take long to import.  pylint: disable=g-import-not-at-top
  import pandas as pd

  from experiment_shell import frames

  scores = tidy[tidy_experiment.RESULTS].set_index("metric")["value"]
  agreed = document["inputs"]["federation"]["file"]
  left = frames.wide(tidy[EXCHANGES], ["exchange", "what"]).groupby("what", sort=False).agg(
      times=("exchange", "size"), most_bytes_up=("most_bytes_up", "sum"),
      seconds=("seconds", "sum"),
  ).reset_index()
  centroids, is_private = tidy[fitted_rows.CENTROIDS], "exact" not in agreed
  headline = {
      "verdict": "private" if is_private else "exact", "sites": len(agreed["sites"]),
      "clusters": len(centroids), "rounds": int(scores["rounds"]),
      "epsilon": scores.get("epsilon", np.nan),
      "loss": " ".join(
          f"{name.capitalize()} {scores[name]:.6g}." for name in ("inertia", "objective")
          if name in scores
      ),
      "file_epsilon": agreed.get("privacy", {}).get("epsilon", np.nan),
      "delta": agreed.get("privacy", {}).get("delta", np.nan),
  }
  return {
      "headline": pd.DataFrame([headline]),
      "left": left,
      "scores": scores.reset_index(),
      "exact_centroids": pd.DataFrame() if is_private else centroids,
      private_centers.TABLE.name: (
          private_centers.frame(centroids) if is_private else pd.DataFrame()
      ),
  }


EXPERIMENT = tidy_experiment.Experiment(
    name="site_kmeans",
    title="Federated k-means of rows that stay at their sites",
    keys={"num_clusters": int},
    load=_load,
    cells=cells,
    measure=_measure,
    summarise=_summarise,
    headlines={
        "exact": "{clusters} clusters over {sites} sites in {rounds} rounds, by EXACT sums: masks "
                 "hide whose a sum is, and no noise hides a row. {loss}",
        "private": "{clusters} clusters over {sites} sites in {rounds} rounds, by sums with noise "
                   "that the sites draw: ({epsilon:g}, {delta:g})-differential privacy against "
                   "the operator, of {file_epsilon:g} for all fits.",
    },
    tables=(
        tidy_experiment.Table(
            "left", "What left each site",
            "Answers to the operator's questions, as masked sums: each is uniformly random to "
            "whoever has not all sites' answers. Most bytes up: the largest site's.",
            columns={
                "what": "{}", "times": "{}", "most_bytes_up": "{:,.0f}", "seconds": "{:.2f}",
            },
            printed=True,
        ),
        tidy_experiment.Table(
            "exact_centroids", "Centroids", "In the data's units.", form="{:.5g}", printed=True
        ),
        private_centers.TABLE,
        tidy_experiment.Table(
            "scores", "Scores",
            "Over all rows of all sites. Epsilon is this fit's, at the federation's delta, and mu "
            "the same budget as Gaussian differential privacy counts it.",
            form="{:.6g}",
        ),
    ),
    figures=(),
    reading=(
        "All that the operator learned is sums over all sites, one for every question: counts, "
        "sums of rows and of their squared distances, by cluster; with the sites' noise in them, "
        "unless the headline says EXACT. What is not covered: the sizes "
        "and times of messages, the number of rounds, and the names of columns.",
    ),
    tidy={
        tidy_experiment.RESULTS: {}, EXCHANGES: {"exchange": int, "what": str},
    },
    files={
        tidy_tables.file_name(fitted_rows.CENTROIDS): fitted_rows.FILES["centroids.csv"],
    },
    folders=fitted_rows.FOLDERS,
    read={fitted_rows.CENTROIDS: None},
    versions_of=("numpy", "nvflare", "cryptography"),
)

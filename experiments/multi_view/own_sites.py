"""The user's own sites: clusters of their rows by every rule for view weights, and a model."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping

import pandas as pd

from experiment_shell import tidy_experiment
from experiments.multi_view import comparison
from experiments.multi_view import data as data_lib
from experiments.multi_view import methods
from experiments.multi_view import summary
from experiments.own_tables import cluster_profiles
from experiments.own_tables import fitted_rows
from fl_clustering.multiview import fitting
from fl_clustering.multiview import multiview_config
from fl_clustering.points import secure_sums
from fl_clustering.tables import schema as schema_lib


def _finish(whole: tidy_experiment.Run, unused_tidy: Mapping[str, Any]) -> None:
  """Writes the model of equal weights and the first seed, and the rows' clusters and profiles."""
  from fl_clustering import load_model  # It takes long to import.

  data = whole.data[data_lib.OWN]
  features = {client_id: data.kept.features(own) for client_id, own in data.tables.items()}
  settings = multiview_config.MultiViewConfig(
      data.num_clusters, view_weights=methods.OURS, seed=whole.config.seed,
      field_widths=data.kept.field_widths, **whole.config.method_settings,
  )
  fit = fitting.fit(settings, secure_sums.hold(features), data.kept.widths)
  fit.warn_of_few_points()
  model = load_model.SavedMultiView.of_fit(fit, data.kept).knowing_farthest(data.tables)
  fitted_rows.write(whole.folder, model, data.tables)


def _of_one(frame: pd.DataFrame) -> pd.DataFrame:
  """Returns a table without what tells data sets apart, as there is only one."""
  frame = frame.drop(columns="dataset", errors="ignore").dropna(axis="columns", how="all")
  return frame.rename(columns=lambda name: name.removesuffix(f", {comparison.AS_GIVEN}"))


def _headline(tidy: Mapping[str, pd.DataFrame], document: Mapping[str, Any]) -> dict[str, Any]:
  data, sizes = document["inputs"]["datasets"][data_lib.OWN], tidy[fitted_rows.SIZES]
  rows = sizes.groupby("cluster")["rows"].sum()
  found, asked = int((rows > 0).sum()), data["num_clusters"]
  verdict = "given" if document["config"]["num_clusters"] else "classes"
  return {
      "verdict": "with_rows" if found < asked else verdict, "clusters": found, "asked": asked,
      "rows": data["num_points"], "sites": len(data["sites"]), "views": len(data["views"]),
      "least": int(rows[rows > 0].min()), "most": int(rows.max()),
  }


def _fields(profiles: pd.DataFrame, document: Mapping[str, Any]) -> pd.DataFrame:
  """Returns what the clusters explain of the fields of all views."""
  field_of: dict[str, str] = {}
  view_of: dict[str, str] = {}
  for view, schema in document["inputs"]["schemas"].items():
    for field in schema_lib.Schema.from_json(schema).features:
      view_of[f"{view}: {field.name}"] = view
      field_of |= {f"{view}: {name}": f"{view}: {field.name}" for name in field.feature_names}
  variances = cluster_profiles.field_variances(profiles, field_of, standardize=True)
  of_views = variances["total"].groupby(variances.index.map(view_of)).transform("sum")
  return cluster_profiles.explained(variances.div(of_views, axis=0))


def summarise(
    tidy: Mapping[str, pd.DataFrame], document: Mapping[str, Any]
) -> dict[str, pd.DataFrame]:
  """Returns the frames of the report; frames of known classes are empty if there are none."""
  frames = summary.summarise(tidy, document)
  has_classes = bool(document["inputs"]["datasets"][data_lib.OWN]["classes"])
  of_one = {one.name: _of_one(frames[one.name]) for one in summary.TABLES}
  if not has_classes:
    of_one = {**of_one, "fits": of_one["scores"], "scores": pd.DataFrame()}
  return {
      **frames,
      "headline": pd.DataFrame([_headline(tidy, document)]),
      cluster_profiles.FIELDS.name: _fields(tidy[cluster_profiles.NAME], document),
      "fits": pd.DataFrame(),
      **of_one,
      **fitted_rows.frames(tidy),
  }


_OF = (
    "of {rows:,} rows at {sites} sites in {views} views, by equal weights; the smallest has "
    "{least:,} rows, the largest {most:,}."
)

EXPERIMENT = dataclasses.replace(
    comparison.EXPERIMENT,
    name="multi_view_own_data",
    title="Federated multi-view k-means of your own rows",
    summarise=summarise,
    headlines={
        "given": f"Clusters: {{clusters}}, as asked for, {_OF}",
        "classes": f"Clusters: {{clusters}}, as many as there are known classes, {_OF}",
        "with_rows": f"Clusters: {{clusters}} with rows, of {{asked}}, {_OF}",
    },
    tables=(
        fitted_rows.FEW_POINTS,
        cluster_profiles.FIELDS,
        tidy_experiment.Table(
            "fits", "The fits by rule of the views' weights, mean ± deviation (seeds: {num_seeds})",
            "Objectives of different rules can't be compared.", printed=True,
        ),
        *(dataclasses.replace(one, by=None) for one in summary.TABLES),
    ),
    figures=(cluster_profiles.FIGURE, *comparison.FIGURES),
    reading=(
        "The clusters, centroids, profiles and the model in the folder are those of equal weights "
        "and the first seed.",
        *summary.SUMS,
    ),
    files=fitted_rows.FILES,
    folders=fitted_rows.FOLDERS,
    read=fitted_rows.READ,
    finish=_finish,
)

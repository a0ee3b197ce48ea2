"""What tables become: features, float64 of shape (n, d), and numbers of classes.

A feature is a number, true (1) and false (0), or a level: 1 where a row has it, and else 0.
"""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np

from clustering_basics import validate
from fl_clustering.points import secure_sums
from fl_clustering.tables import bad_table
from fl_clustering.tables import schema as schema_lib


def numbers(columns: Mapping[str, np.ndarray], schema: schema_lib.Schema) -> np.ndarray:
  """Returns the features of rows, of shape (n, d); NaN where a cell is missing."""
  found = []
  for field in schema.features:
    column = columns[field.name]
    if field.enum is None:
      found.append(column[:, np.newaxis])
    else:
      places = positions(column, field.enum)
      levels = (places[:, np.newaxis] == np.arange(len(field.enum))).astype(float)
      found.append(np.where(places[:, np.newaxis] < 0, np.nan, levels))
  return np.concatenate(found, axis=1, dtype=np.float64)


def positions(column: Iterable[Any], texts: Iterable[Any]) -> np.ndarray:
  """Returns the places of cells among texts, int64 of shape (n,); -1 for what is none of them."""
  place_of = {text: place for place, text in enumerate(texts)}
  return np.array([place_of.get(cell, -1) for cell in column], np.int64)


def in_order(texts: Iterable[str]) -> tuple[str, ...]:
  """Returns texts in order: numbers by their size, then the others."""
  def size(text: str) -> float:
    return float(text) if re.fullmatch(bad_table.NUMBER, text) else np.inf

  return tuple(sorted(texts, key=lambda text: (size(text), text)))


@dataclasses.dataclass(frozen=True, eq=False)
class FeatureScaling(secure_sums.Scaling):
  """What is done to features: missing ones become `fill`, of shape (d,), and all are scaled."""

  fill: np.ndarray

  def apply(self, points: np.ndarray) -> np.ndarray:
    """Returns scaled features, of shape (n, d)."""
    return super().apply(np.where(np.isnan(points), self.fill, points))


def public_scaling(schema: schema_lib.Schema) -> FeatureScaling:
  """Returns the scaling that the schema says; ValueError if it does not say it of all features.

  A missing number becomes the center, and so zero.  A row without a level has none.
  """
  schema.check_private()
  centers, scales = np.array([
      field.public_scaling for field in schema.features for _ in field.feature_names
  ], float).T
  return FeatureScaling(centers, 1 / scales, centers)


def bounds(schema: schema_lib.Schema) -> tuple[np.ndarray, np.ndarray]:
  """Returns the bounds of every feature in private, of shape (d,); infinite for none.

  They are no farther than `schema.LIMIT` from the center.
  """
  low, high = np.array([
      field.bounds for field in schema.features for _ in field.feature_names
  ], float).T
  scaling, ends = public_scaling(schema), np.array([[-schema_lib.LIMIT], [schema_lib.LIMIT]])
  least, largest = scaling.undo(np.tile(ends, len(low)))
  return (
      np.where(np.isfinite(low), np.clip(low, least, largest), low),
      np.where(np.isfinite(high), np.clip(high, least, largest), high),
  )


def norm_bounds(schema: schema_lib.Schema) -> tuple[float, float]:
  """Returns the least and the largest norm of a row in the schema's units, if no cell is missing.

  The largest one cuts nobody as a radius; it is infinite where a number has no bounds.
  """
  scaling, (low, high) = public_scaling(schema), bounds(schema)
  low, high = ((end - scaling.shift) * scaling.factor for end in (low, high))
  least, largest, place = 0.0, 0.0, 0
  for field in schema.features:
    own = slice(place, place := place + len(field.feature_names))
    if field.enum is None:
      ends = np.array([np.clip(0, low[own], high[own]), low[own], high[own]]) ** 2
    else:  # One level of all.
      ends = np.where(np.eye(len(field.enum)), high[own], low[own]) ** 2
    squares = ends.sum(axis=1)
    least, largest = least + squares.min(), largest + squares.max()
  return float(np.sqrt(least)), float(np.sqrt(largest))


def _checked_norm(
    schema: schema_lib.Schema, norm: float | None, name: str
) -> tuple[float, list[str]]:
  """Returns the norm of a schema for `checked_norms`, and warnings; `name` is the argument's."""
  least, largest = norm_bounds(schema)
  if norm is None:
    if math.isinf(largest):
      raise validate.error(name, "be given for a schema with a number without bounds", None)
    return largest, []
  validate.positive(**{name: norm})
  if norm < least:
    rule = f"be in the schema's units, in which rows are {least:.3g} to {largest:.6g} long"
    raise validate.error(name, rule, norm)
  if norm <= largest * (1 + 1e-9):
    return norm, []
  return norm, [
      f"no row is longer than {largest:.6g} in the schema's units: a radius of {norm:g} makes "
      f"the noise {norm / largest:.3g} times as large, and nothing better."
  ]


def checked_norms(
    schemas: schema_lib.Schemas, radius: float | None, view_norms: Sequence[float] | None
) -> tuple[dict[str, Any], list[str]]:
  """Returns the `radius` of privacy, or `view_norms` with views, in a dict; and warnings, in words.

  Rows of a private run are cut to these norms, in the schemas' units; all of it is public.

  Args:
    radius: None for the largest norm that the schema allows, which cuts nobody; to be left out with
      views.
    view_norms: Likewise for every view, in the order of their names.

  Raises:
    ValueError: If they don't fit the schemas: one is lacking where a schema allows any norm, or is
      shorter than all rows that it allows.
  """
  if schema_lib.NO_VIEW in schemas:
    if view_norms is not None:
      raise validate.error("view_norms", "be left out without a schema of views", view_norms)
    radius, warnings = _checked_norm(schemas[schema_lib.NO_VIEW], radius, "radius")
    return {"radius": radius}, warnings
  if radius is not None:
    raise validate.error("radius", "be left out with a schema of views", radius)
  given = [None] * len(schemas) if view_norms is None else view_norms
  if len(given) != len(schemas):
    raise validate.error("view_norms", f"be {len(schemas)} numbers", view_norms)
  found = [_checked_norm(one, norm, "view_norms") for one, norm in zip(schemas.values(), given)]
  warnings = [f"{view}: {text}" for view, (_, own) in zip(schemas, found) for text in own]
  return {"view_norms": [norm for norm, _ in found]}, warnings


def means(blocks: Iterable[np.ndarray], names: Sequence[str]) -> np.ndarray:
  """Returns features' means over the cells that are there, of shape (d,).

  Args:
    blocks: The clients' features, each of shape (n, d).
    names: Those of the d features.

  Raises:
    ValueError: If a feature has no value.
  """
  counts, sums = np.zeros(len(names)), np.zeros(())
  for features in blocks:
    counts = counts + (~np.isnan(features)).sum(axis=0)
    sums = sums + np.nansum(features, axis=0)
  if not counts.all():
    name = names[int(np.argmin(counts > 0))]
    raise validate.error("data_dir", f"hold a value of the feature {name!r}", "none")
  return sums / counts


def standard_scaling(
    blocks: Callable[[], Iterable[np.ndarray]], schema: schema_lib.Schema
) -> FeatureScaling:
  """Returns the scaling by which features without a public one become of mean 0 and variance 1.

  Means and variances come from sums over all clients.  Constant features become 0.

  Args:
    blocks: Returns the clients' features, each of shape (n, d); called three times.

  Raises:
    ValueError: If a feature has no value.
  """
  fill = means(blocks(), schema.feature_names)

  def mean(function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Returns the mean of what a function makes of the rows when no cell is missing."""
    num_rows, sums = 0, np.zeros(())
    for features in blocks():
      num_rows += len(features)
      sums = sums + function(np.where(np.isnan(features), fill, features)).sum(axis=0)
    return sums / num_rows

  shift = mean(lambda rows: rows)
  deviations = np.sqrt(mean(lambda rows: (rows - shift) ** 2))
  # What rounding leaves of a constant feature.
  is_constant = deviations <= 1e-12 * np.abs(shift)
  factor = 1 / np.where(is_constant, np.inf, deviations)
  place = 0
  for field in schema.features:
    if field.is_numeric and field.public_scaling is not None:
      shift[place], scale = field.public_scaling
      factor[place] = 1 / scale
    place += len(field.feature_names)
  return FeatureScaling(shift, factor, fill)

"""Tests for fl_clustering.sites.questions: no request moves a unit's part by more than it costs."""

import math

from absl.testing import parameterized
import numpy as np

from dp_clustering import cluster_statistics
from dp_clustering import clustering_params
from dp_clustering import point_grid
from fl_clustering.multiview import sums as view_sums
from fl_clustering.points import secure_sums
from fl_clustering.sites import federation as federation_lib
from fl_clustering.sites import identity as identity_lib
from fl_clustering.sites import questions
from fl_clustering.sites import site as site_lib
from fl_clustering.sites import wire
from tests import nightly
from tests.sites import sample_sites

_IDENTITIES = {name: identity_lib.Identity.create(name) for name in ("a", "b", "c")}
_STEPS = point_grid.POINT_STEPS
# What an operator may try in the place of any number.
_HOSTILE = (-1.0, -0.0, 0.0, 1e-300, 0.5, 1.0, 2.0**25, -(2.0**25), 2.0**26, 2.0**53, 1e300,
            np.inf, -np.inf, np.nan)


def _federation(widths, privacy):
  document = sample_sites.document_of(_IDENTITIES, widths, privacy)
  return federation_lib.Federation(document)


def _random_centers(rng, size, dim):
  centers = rng.standard_normal((size, dim))
  centers *= _STEPS * rng.uniform(0, 1.45, (size, 1)) / np.linalg.norm(centers, axis=1)[:, None]
  return np.rint(centers * rng.choice([0, 1e-6, 1, 1], (size, 1)))


def _random_asked(rng, federation):
  """Returns a private request of a federation, of which some numbers may be hostile."""
  privacy, dim, views = federation.privacy, federation.num_columns, len(federation.widths)
  capacity = int(rng.integers(1, 5))
  if "view_norms" in federation.document["privacy"] and rng.random() < 0.8:
    kind = view_sums.KernelSums(federation.widths, point_grid.CONTRIBUTION_STEPS)
    sent = {"rates": 2.0 ** rng.uniform(-60, 0, (capacity, views)),
            "factors": rng.uniform(0, 1, (capacity, views))}
  else:
    kind = cluster_statistics.ClippedResiduals(bool(rng.integers(2)))
    sent = {"clip_radii": 2.0 ** rng.uniform(0, 26, (capacity, 1))}
  sent = {"centers": _random_centers(rng, capacity, dim), **sent}
  is_limited = privacy.points_per_client is not None
  if is_limited:
    sent["limits"] = 2.0 ** rng.uniform(0, 30, sum(kind.widths(dim).values()))
  for name, array in sent.items():
    if rng.random() < 0.3:
      array.flat[rng.integers(array.size)] = rng.choice(_HOSTILE)
  sent["num_groups"] = np.int32(rng.integers(1, capacity + 1))
  question = secure_sums.Totals(kind, capacity, is_limited)
  scales = {part: float(2.0 ** rng.uniform(5, 25)) for part in kind.widths(dim)}
  return questions.Asked(question, sent, scales=scales)


def _rows(rng, asked, federation):
  """Returns 40 rows that are far, at a center, or a step beside one, in the data's units."""
  scaling = site_lib.held({"x": np.zeros((0, federation.num_columns))}, federation).scaling
  shape = (40, federation.num_columns)
  far = rng.standard_normal(shape) * 10.0 ** rng.uniform(-3, 40, (40, 1))
  near = asked.sent["centers"][rng.integers(asked.sent["num_groups"], size=40)]
  near = near + rng.choice([0, 0, 1, 1e3, 1e6], (40, 1)) * rng.standard_normal(shape)
  return np.where(rng.random((40, 1)) < 0.5, far, near / scaling.factor)


class SensitivityTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("points", (5,), sample_sites.PRIVATE),
      ("views", (2, 3), sample_sites.VIEWS),
      ("clients", (5,), sample_sites.CLIENTS),
  )
  def test_no_request_moves_a_unit_by_more_than_it_costs(self, widths, privacy):
    federation, rng = _federation(widths, privacy), np.random.default_rng(0)
    num_refused, num_asked, largest = 0, nightly.either(1500, 10000), 0.0
    for _ in range(num_asked):
      asked = _random_asked(rng, federation)
      try:
        header, arrays = asked.to_message()
        read = questions.read(header, arrays, federation)
      except wire.Refused:
        num_refused += 1
        continue
      cost = questions.mu_squared(read, federation.privacy)
      least = federation.privacy.min_clients
      stds = {part: scale * math.sqrt(least) for part, scale in asked.scales.items()}
      with clustering_params.content_raises_nothing():
        rows = _rows(rng, read, federation)
        # Without others, none hides what one adds.
        others, own = rows[:30] if rng.random() < 0.5 else rows[:0], rows[30:]
        without = {"x": others}
        if federation.privacy.points_per_client is None:
          both = {"x": np.concatenate([others[:15], own[:1], others[15:]])}
        else:
          both = {**without, "y": own}
        before, after = (
            site_lib.held(clients, federation).total(read.question, read.sent)
            for clients in (without, both)
        )
      moved = np.sum(((after - before) / read.query.by_column(stds)) ** 2)
      self.assertLessEqual(moved, cost * (1 + 1e-12), read)
      largest = max(largest, moved / cost)
    # The search finds what the bound is for, and most that is hostile is refused.
    self.assertGreater(largest, 0.9)
    self.assertBetween(num_refused / num_asked, 0.1, 0.8)


# What numbers of exact questions may be, at their ends.
_EXTREMES = {
    "origin": [0], "centers": [0, 1, 2**24], "directions": [0, 1, 2**24],
    "thresholds": [-(2**53), 0, 2**53], "cells": [0, 1e-300, 1, 2**20], "rates": [0, 1e-300, 1],
    "factors": [0, 1e-300, 1], "clip_radii": [1, 2**27],
    "shift": [-1e101, -1.0, 0.0, 1e-300, 1e100], "factor": [0, 1e-300, 1.0, 2.0**300, 1e150],
}
_WIDTHS = {"column": 5, "view": 2, "center": 1}


def _exact_message(rng, name, num_groups=1):
  """Returns header and arrays of an exact question."""
  arrays = {
      key: rng.choice(_EXTREMES[key], (2, _WIDTHS[questions._ARRAYS[key][0]])).astype(float)
      for key in questions._KINDS.get(name, ((), (), ()))[2]
  }
  for key in ("shift", "factor"):
    arrays[key] = rng.choice(_EXTREMES[key], 5).astype(float)
  header = {"question": name}
  if name in questions._KINDS:
    fields = {key: kind(1) for key, kind in questions._KINDS[name][1].items()}
    header |= {"fields": fields, "capacity": 2, "num_groups": num_groups}
  return header, arrays


class ReadTest(parameterized.TestCase):

  def test_no_exact_request_fails_whatever_the_rows_are(self):
    # A failure would tell the operator of the rows, and whose they are.
    federation, rng = _federation((2, 3), None), np.random.default_rng(0)
    rows = rng.choice([0, 1e-320, 1e-100, 1, 3, 2**30, 1e50, 1e100], (50, 5))
    rows *= rng.choice([-1, 1], rows.shape)
    names = [*questions._PLAIN, *questions._KINDS]
    for place in range(nightly.either(1000, 10000)):
      header, arrays = _exact_message(rng, names[place % len(names)], int(rng.integers(1, 3)))
      asked = questions.read(header, arrays, federation)
      with clustering_params.content_raises_nothing():
        held = site_lib.held({"x": rows}, federation).scaled(asked.scaling)
        held.total(asked.question, asked.sent)

  @parameterized.parameters(*questions._KINDS)
  def test_hostile_arrays_are_refused(self, name):
    federation = _federation((2, 3), None)
    header, arrays = _exact_message(np.random.default_rng(0), name)

    def refused(key, array):
      with self.assertRaisesRegex(wire.Refused, key):
        questions.read(header, {**arrays, key: array}, federation)

    for key in questions._KINDS[name][2]:
      for bad in (np.nan, np.inf, 1e300):
        hostile = arrays[key].copy()
        hostile[1] = bad  # A row that is not used.
        questions.read(header, {**arrays, key: hostile}, federation)
        hostile[0, 0] = bad
        refused(key, hostile)
      for wrong in (arrays[key][:1], arrays[key][:, :0], arrays[key][0]):
        refused(key, wrong)
      others = {one: array for one, array in arrays.items() if one != key}
      with self.assertRaisesRegex(wire.Refused, key):
        questions.read(header, others, federation)

  def test_the_list_is_closed(self):
    # Who adds a question decides here whether it is for private sites, too.
    self.assertEqual(set(questions._PLAIN), {"ColumnExponents", "ColumnMoments", "NormExponents"})
    self.assertEqual(set(questions._KINDS), {
        "Start", "ChildSums", "FineSums", "Scores", "KernelSums", "FineKernelSums",
        "ClippedResiduals"})
    self.assertEqual(questions._PRIVATE, ("ClippedResiduals", "KernelSums"))

  def test_private_steps_are_fixed(self):
    federation = _federation((2, 3), sample_sites.VIEWS)
    asked = next(
        asked for asked in (_random_asked(np.random.default_rng(i), federation) for i in range(99))
        if asked.name == "KernelSums"
    )
    header, arrays = asked.to_message()
    for steps in (0, 1, 2**21, 2**30, 2.0**20, True):
      with self.assertRaisesRegex(wire.Refused, "steps|fields"):
        questions.read({**header, "fields": {"steps": steps}}, arrays, federation)

"""Tests for fl_clustering.sites.questions: no request moves a unit's part by more than it costs."""

import math

from absl.testing import absltest
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


def _residuals(scales, limits=None):
  """Returns a private request about a center at the origin."""
  sent = {"num_groups": np.int32(1), "centers": np.zeros((1, 5)), "clip_radii": np.ones((1, 1))}
  if limits is not None:
    sent["limits"] = limits
  kind = cluster_statistics.ClippedResiduals("excesses" in scales)
  question = secure_sums.Totals(kind, 1, limits is not None)
  return questions.Asked(question, sent, scales=scales)


class AnswersTest(absltest.TestCase):
  """What answers of rows may add up to."""

  def _check(self, asked, privacy, good, bad):
    """Checks totals, of which numbers of groups that were asked for are given by their places."""
    federation = _federation((5,) if privacy else (2, 3), privacy)
    for expected, all_given in ((True, good), (False, bad)):
      for given in all_given:
        total = np.zeros(asked.question.shape(5), np.int64)
        for place, value in given.items():
          total.flat[place] = value
        self.assertEqual(questions.are_sums(asked, total, federation), expected, given)

  def _exact(self, name, good, bad, **fields):
    header, arrays = _exact_message(np.random.default_rng(0), name)
    if fields:
      header["fields"] = fields
    self._check(questions.read(header, arrays, _federation((2, 3), None)), None, good, bad)

  def test_exact(self):
    largest = 2**61 - 2**9  # The one below 2^61, where sums wrap around, that float64 has.
    self._exact(
        "ColumnMoments", [{0: -largest, 4: largest, 5: 0, 14: largest}],
        [{5: -1}, {14: -1}, {0: 2**61}, {0: -(2**61)}],
    )
    self._exact("NormExponents", [{0: 2**30, 63: 0}], [{0: 2**30 + 1}, {63: -1}])
    # A count, the upper ones' count, residuals and upper residuals, for each of two groups.
    self._exact(
        "ChildSums", [{0: 3, 1: 3, 2: 3 * 2**31, 11: -3 * 2**31}, {0: 2**30}],
        [{0: 3, 2: 3 * 2**31 + 1}, {0: 3, 11: -3 * 2**31 - 1}, {0: 3, 1: -1}, {0: -1},
         {0: 2**30 + 1}, {0: 3, 14: 1}, {2: 1}], with_losses=False,
    )
    self._exact("Start", [{0: 2, 1: 2**32}], [{0: 2, 1: 2**32 + 1}, {0: -1}, {0: 2**30 + 1}])
    self._exact("FineKernelSums", [{0: 2**60}], [{14: 1}])
    # Residuals of two views, what kernels exceed a half by, and counts: in eighths.
    self._exact("KernelSums", [{7: 24, 0: 24, 6: -24}], [{7: 24, 0: 25}, {7: -1}], steps=8)

  def test_with_noise(self):
    scales = {"residual_sums": 64.0, "counts": 128.0, "excesses": 32.0}
    # Ten times the standard deviation of the noise of three sites.
    residual, count, excess = (10 * math.sqrt(3) * scale for scale in scales.values())
    num, one = 5 * 2**20, 2**20
    self._check(
        _residuals(scales), sample_sites.PRIVATE,
        [{5: num, 0: num + int(count + residual), 6: -num - int(count + excess)},
         {5: -int(count), 0: int(count + residual)}, {5: 2**30 * one + int(count)}],
        [{5: num, 0: num + math.ceil(count + residual)}, {5: -math.ceil(count)},
         {5: num, 6: num + math.ceil(count + excess)}, {5: 2**30 * one + math.ceil(count)}],
    )

  def test_of_clients_within_limits(self):
    scales = {"residual_sums": 64.0, "counts": 128.0, "excesses": 32.0}
    residual, count, _ = (2**30 + 10 * math.sqrt(3) * scale for scale in scales.values())
    self._check(
        _residuals(scales, np.ones(7)), sample_sites.CLIENTS,
        [{5: -int(count)}, {0: int(count + residual)}],
        [{5: -math.ceil(count)}, {0: math.ceil(count + residual)}],
    )


class CostTest(absltest.TestCase):

  def test_of_points(self):
    privacy = _federation((5,), sample_sites.PRIVATE).privacy
    # Of two sites' shares: 2^20 steps over 2^22 sqrt(2) and 2^21 sqrt(2), squared.
    scales = {"residual_sums": 2.0**22, "counts": 2.0**21}
    self.assertAlmostEqual(questions.mu_squared(_residuals(scales), privacy), 1 / 32 + 1 / 8)
    scales |= {"excesses": 2.0**20}
    self.assertAlmostEqual(
        questions.mu_squared(_residuals(scales), privacy), 1 / 32 + 1 / 8 + 1 / 2 / 4
    )

  def test_of_points_of_views(self):
    federation = _federation((2, 3), sample_sites.VIEWS)
    kind = view_sums.KernelSums(federation.widths, point_grid.CONTRIBUTION_STEPS)
    sent = {"num_groups": np.int32(1), "centers": np.zeros((1, 5)), "rates": np.ones((1, 2)),
            "factors": np.ones((1, 2))}
    for log_residuals, log_excesses in ((20, 21), (21, 20)):
      asked = questions.Asked(secure_sums.Totals(kind, 1, False), sent, scales={
          "residual_sums": 2.0**log_residuals, "excesses": 2.0**log_excesses, "counts": 2.0**22
      })
      # Two views, and the smaller noise of the two parts.
      self.assertAlmostEqual(
          questions.mu_squared(asked, federation.privacy), 2 * (1 / 2) / 4 + 1 / 32
      )

  def test_of_clients(self):
    privacy = _federation((5,), sample_sites.CLIENTS).privacy
    scales = {"residual_sums": 2.0**20, "counts": 2.0**21, "excesses": 2.0**22}
    limits = np.array([1, 1, 1, 1, 2, 5, 9]) * 2.0**20
    # 2, 5 / 2 and 9 / 4, over the root of the three sites that count.
    self.assertAlmostEqual(
        questions.mu_squared(_residuals(scales, limits), privacy), 2.5**2 / 3
    )


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

  @parameterized.parameters(
      ("Start", "origin", (0, 0), (-1, 1)),
      ("Scores", "centers", (-3 * 2**24, 3 * 2**24), (-3 * 2**24 - 1, 3 * 2**24 + 1)),
      ("ChildSums", "directions", (-(2**26), 2**26), (-(2**26) - 1, 2**26 + 1)),
      ("ChildSums", "thresholds", (-(2**53), 2**53), (-(2**53) - 2, 2**53 + 2)),
      ("FineSums", "cells", (0, 2**20), (-1e-9, 2**20 + 1e-9)),
      ("ClippedResiduals", "clip_radii", (1, 2**27), (1 - 1e-7, 2**27 + 1e-7)),
      ("KernelSums", "rates", (0, 1), (-1e-15, 1 + 1e-15)),
      ("KernelSums", "factors", (0, 1), (-1e-15, 1 + 1e-15)),
      ("ColumnMoments", "shift", (-1e101, 1e101), (-1.001e101, 1.001e101)),
      ("Start", "factor", (0, 1e150), (-1e-9, 1.001e150)),
  )
  def test_arrays_have_no_number_beyond_the_ends(self, question, name, ends, beyond):
    federation = _federation((2, 3), None)
    header, arrays = _exact_message(np.random.default_rng(0), question)

    def read(value):
      array = np.zeros_like(arrays[name])
      array.flat[0] = value
      questions.read(header, {**arrays, name: array}, federation)

    for good, bad in zip(ends, beyond):
      read(good)
      with self.assertRaisesRegex(wire.Refused, name):
        read(bad)

  @parameterized.parameters(
      ("Scores", "centers", 3 * 2**24), ("ChildSums", "directions", 2**26)
  )
  def test_rows_are_of_integers_and_not_too_long(self, question, name, longest):
    federation = _federation((2, 3), None)
    header, arrays = _exact_message(np.random.default_rng(0), question)
    for row in ((longest, 2**13), (0.5, 0)):  # The first one's norm is .5 longer, or more.
      arrays[name][0] = (*row, 0, 0, 0)
      with self.assertRaisesRegex(wire.Refused, name):
        questions.read(header, arrays, federation)

  def test_settings_end_where_they_must(self):
    document = sample_sites.document_of(_IDENTITIES, (2, 3), limits={"centers": 2})
    federation, rng = federation_lib.Federation(document), np.random.default_rng(0)
    header, arrays = _exact_message(rng, "KernelSums", 2)
    for good in (1, 2**30):
      questions.read({**header, "fields": {"steps": good}}, arrays, federation)
    for name, bad in (
        ("steps", 0), ("steps", 2**30 + 1), ("capacity", 0), ("capacity", 3), ("capacity", 2.0),
        ("num_groups", 0), ("num_groups", 3), ("num_groups", True),
    ):
      wrong = {"fields": {"steps": bad}} if name == "steps" else {name: bad}
      with self.assertRaisesRegex(wire.Refused, name):
        questions.read({**header, **wrong}, arrays, federation)
    with self.assertRaisesRegex(wire.Refused, "numbers"):
      questions.read(header, {**arrays, "rates": np.ones((2, 2), np.int64)}, federation)

  def test_noise_and_limits_end_where_they_must(self):
    federation = _federation((5,), sample_sites.CLIENTS)

    def read(scale=64.0, limit=1.0):
      scales = {"residual_sums": 64.0, "counts": scale, "excesses": 64.0}
      limits = np.array([1, 1, 1, 1, 1, limit, 1.0])
      questions.read(*_residuals(scales, limits).to_message(), federation)

    # The noise of three sites is at most 2^57 together.
    for name, low, high in (("scale", 32, 2**57 / math.sqrt(3)), ("limit", 1e-100, 1e100)):
      for end, beyond in ((low, 0.999 * low), (high, 1.001 * high)):
        read(**{name: float(end)})
        with self.assertRaisesRegex(wire.Refused, name):
          read(**{name: beyond})

  def test_no_coordinate_is_infinite(self):
    federation = _federation((2, 3), None)
    header, arrays = _exact_message(np.random.default_rng(0), "ColumnMoments")
    arrays |= {"shift": np.ones(5), "factor": np.array([1, 1, 2, 1e150, 1e150])}
    scaling = questions.read(header, arrays, federation).scaling
    found = scaling.apply(np.array([[0, 3, 1e100, 1e100, -1e100]]))
    self.assertEqual(found.tolist(), [[-1, 2, 2e100, 1e120, -1e120]])

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

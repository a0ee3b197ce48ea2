"""Tests of sums that TFF's clients add up."""

import collections
import re
import unittest
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import tensorflow_federated as tff

from dp_clustering import noise
from fl_clustering import kmeans
from fl_clustering import runtime
from fl_clustering.engine.tff import point_files
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import sums_fit
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import secure_sums

# What TFF can do between the clients and the server that adds nothing up and tells nothing.
_HARMLESS = {
    "federated_broadcast", "federated_map", "federated_apply", "federated_zip_at_clients",
    "federated_zip_at_server", "federated_value_at_server",
}
_SECURE_SUM = "federated_secure_modular_sum"


def setUpModule():
  unittest.addModuleCleanup(runtime.LocalRuntime().close)


class TotalTest(absltest.TestCase):

  def test_is_over_all_clients_of_whom_few_are_held_at_a_time(self):
    asked, drawn = [], []

    def sum_round(query, clients):
      asked.append(len(clients))
      self.assertLen(drawn, sum(asked))  # No share waits for a later block.
      return np.int64(query) * sum(each["client"] + each["share"] for each in clients)

    def shares():
      for number in range(601):
        drawn.append(number)
        yield np.array([number, 1])

    total = point_files.total(sum_round, 2, range(601), shares())
    np.testing.assert_array_equal(total, [2 * 601 * 600, 601 * 600 + 2 * 601])
    self.assertLen(asked, 3)


def _intrinsics(computation):
  """Returns how often a computation has each of TFF's federated operators."""
  text = computation.to_building_block().compact_representation()
  return collections.Counter(re.findall(r"federated_\w+", text))


class WholeFitTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("exact", None),
      ("shares_of_clients", kmeans.ClientPrivacy(8.0, 1e-3, 4.0, 50, trust="none")),
  )
  def test_asks_for_secure_sums_alone_and_has_the_bits_of_this_process(self, privacy):
    rng = np.random.default_rng(0)
    clients = {f"site {i}": rng.normal(size=(700 + i, 2)) * [1.0, 3.0] for i in range(3)}
    config = kmeans_config.KMeansConfig(3, privacy=privacy)
    asked, simulate = [], tff.backends.test.replace_secure_intrinsics_with_bodies

    def noted(computation):
      asked.append(computation)
      return simulate(computation)

    def fit(hold):
      with mock.patch.object(noise, "SecureNoise", lambda: noise.SeededNoise(7)):
        return sums_fit.fit(config, privacy_lib.hold(clients, (2,), privacy, hold))

    point_files.build_question_round.cache_clear()  # What other tests made is not noted.
    folder = self.create_tempdir().full_path
    with mock.patch.object(
        tff.backends.test, "replace_secure_intrinsics_with_bodies", noted
    ):
      found = fit(lambda points: point_files.write_files(points, folder))
    expected = fit(secure_sums.hold)
    np.testing.assert_array_equal(found.centroids, expected.centroids)
    self.assertEqual(found.loss, expected.loss)
    self.assertEqual(found.simplified_silhouette, expected.simplified_silhouette)
    self.assertNotEmpty(asked)
    for computation in asked:
      intrinsics = _intrinsics(computation)
      self.assertEqual(intrinsics.pop(_SECURE_SUM), 1)
      self.assertContainsSubset(intrinsics, _HARMLESS)
      result = computation.type_signature.result.compact_representation()
      self.assertNotIn("@CLIENTS", result)

"""What a fit by sums asks TFF to compute: secure sums over the clients, and nothing else.

The computations are looked at before one machine's simulation takes the place of secure
aggregation (`secure_sums.build_round`).
"""

import collections
import re
import unittest
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import tensorflow_federated as tff

from fl_clustering import kmeans
from fl_clustering import multiview
from fl_clustering.kmeans import rounds
from fl_clustering.points import point_files
from fl_clustering import runtime
from tests import nightly
from tests.multiview import sample_views

# What TFF can do between the clients and the server that adds nothing up and tells nothing.
_HARMLESS = {
    "federated_broadcast", "federated_map", "federated_apply", "federated_zip_at_clients",
    "federated_zip_at_server", "federated_value_at_server",
}
_VIEW_NORMS = (20.0, 1500.0, 0.2)
_SECURE_SUM = "federated_secure_modular_sum"

# From every computation with a simulated secure sum to the one with the real one.
_real = {}
_invoked = []


def setUpModule():
  """Has TFF note every computation that is invoked, and those that are made for simulations."""
  for module in (point_files, rounds):  # Computations that other tests made are not noted.
    for build in vars(module).values():
      getattr(build, "cache_clear", lambda: None)()
  unittest.addModuleCleanup(runtime.LocalRuntime().close)
  simulate = tff.backends.test.replace_secure_intrinsics_with_bodies
  context = tff.framework.get_context_stack().current
  invoke = context.invoke

  def simulate_noted(computation):
    simulated = simulate(computation)
    _real[simulated] = computation
    return simulated

  def invoke_noted(computation, argument):
    _invoked.append(computation)
    return invoke(computation, argument)

  for patch in (
      mock.patch.object(
          tff.backends.test, "replace_secure_intrinsics_with_bodies", simulate_noted
      ),
      mock.patch.object(context, "invoke", invoke_noted),
  ):
    patch.start()
    unittest.addModuleCleanup(patch.stop)


def _intrinsics(computation):
  """Returns how often a computation has each of TFF's federated operators."""
  text = computation.to_building_block().compact_representation()
  return collections.Counter(re.findall(r"federated_\w+", text))


def _clients():
  rng = np.random.default_rng(0)
  return {f"site {i}": rng.normal(size=(60, 2)) for i in range(3)}


class SecrecyTest(parameterized.TestCase):

  def _fits_by_secure_sums(self, model, clients):
    _invoked.clear()
    model.fit(clients)
    self.assertNotEmpty(_invoked)
    for computation in _invoked:
      self.assertIn(computation, _real)
      found = _intrinsics(_real[computation])
      self.assertEqual(found.pop(_SECURE_SUM), 1)
      self.assertContainsSubset(found, _HARMLESS)
      result = _real[computation].type_signature.result.compact_representation()
      self.assertNotIn("@CLIENTS", result)

  @parameterized.named_parameters(
      ("exact", None),
      ("standardized", None, {"standardize": True}),
      ("noise_of_the_server", kmeans.PointPrivacy(1.0, 1e-3, 4.0)),
      ("noise_of_the_clients", kmeans.PointPrivacy(1.0, 1e-3, 4.0, trust="none")),
      ("private_clients", kmeans.ClientPrivacy(1.0, 1e-3, 4.0, 50)),
      ("private_clients_with_shares", kmeans.ClientPrivacy(1.0, 1e-3, 4.0, 50, trust="none")),
  )
  def test_k_means(self, privacy, options=None):
    # These two ask the clients for less, by the same computations.
    nightly.skip_by_day(self, self._testMethodName.endswith(("_exact", "_private_clients")))
    self._fits_by_secure_sums(
        kmeans.FederatedKMeans(3, privacy=privacy, **(options or {})), _clients()
    )

  @parameterized.named_parameters(
      ("exact", None),
      ("noise_of_the_server", multiview.ViewPrivacy(1.0, 1e-3, _VIEW_NORMS)),
      ("noise_of_the_clients", multiview.ViewPrivacy(1.0, 1e-3, _VIEW_NORMS, trust="none")),
  )
  def test_multi_view_k_means(self, privacy):
    nightly.skip_by_day(self, getattr(privacy, "trust", "") != "none")
    self._fits_by_secure_sums(
        multiview.FederatedMultiViewKMeans(
            3, n_init=1, standardize=privacy is None, num_rounds=4, privacy=privacy
        ),
        sample_views.sample_views()[0],
    )

  def test_other_algorithms_tell_more(self):
    with self.assertRaisesRegex(AssertionError, "not found in"):
      self._fits_by_secure_sums(kmeans.FederatedKMeans(3, algorithm="lloyd"), _clients())


if __name__ == "__main__":
  absltest.main()

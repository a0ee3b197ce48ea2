"""Spies on TFF in whole runs: only sums of all clients' messages reach the server."""

import tempfile
import unittest
from unittest import mock

from absl.testing import absltest
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.compiler import building_blocks
from tensorflow_federated.python.core.impl.compiler import tree_analysis

from bench import audited_clusters
from bench import watched_clusters
from fl_clustering.private_clusters import fitting
from fl_clustering.private_clusters import grouping
from fl_clustering.engine.tff import point_files
from fl_clustering import runtime

# They take nothing from the clients to the server.
_HARMLESS = {
    "federated_apply", "federated_broadcast", "federated_map", "federated_value_at_server",
    "federated_zip_at_clients",
}


def setUpModule():
  unittest.addModuleCleanup(runtime.LocalRuntime().close)


def _to_server(computation):
  """Returns the operators in a computation that take something to the server."""
  found = set()

  def visit(block):
    if isinstance(block, building_blocks.Intrinsic):
      found.add(block.uri)

  tree_analysis.visit_preorder(computation.to_building_block(), visit)
  return found - _HARMLESS


class DoorTest(absltest.TestCase):

  @classmethod
  def setUpClass(cls):
    """Runs one federation several times, with another last client."""
    super().setUpClass()
    replace, cls.operators = tff.backends.test.replace_secure_intrinsics_with_bodies, {}

    def replaced(computation):
      simulated = replace(computation)
      cls.operators[simulated] = _to_server(computation)
      return simulated

    for build in (
        point_files.build_question_round, fitting.build_questions,
        grouping.build_sum_of_sketches,
    ):
      build.cache_clear()
    cls.enterClassContext(mock.patch.object(
        tff.backends.test, "replace_secure_intrinsics_with_bodies", replaced
    ))
    folder = cls.enterClassContext(tempfile.TemporaryDirectory())
    run = watched_clusters.build_run(folder)
    cls.watches = []
    for client in ("canary", "no examples", "no examples for testing", "NaN"):
      audited_clusters.replace_last(run, audited_clusters.CLIENTS[client]())
      watch = watched_clusters.Watch(watched_clusters.SETTINGS, 1)
      cls.watches.append(watched_clusters.watched(run, watch))

  def test_the_server_gets_one_secure_sum_for_each_entry_of_the_ledger_and_nothing_else(self):
    for watch in self.watches:
      self.assertLen(watch.computations, len(watch.ledger.releases))
      for release, computation in zip(watch.ledger.releases, watch.computations):
        self.assertEqual(
            self.operators[computation], {"federated_secure_modular_sum"}, release.name
        )
      # The clients wrote their sketches, and said nothing.
      ((computation, found),) = watch.unasked
      self.assertEqual(_to_server(computation), {"federated_sum"})
      self.assertEqual(found, 0)

  def test_messages_have_the_same_type_whatever_a_client_holds(self):
    of_clients = [
        {
            release.name: str(computation.type_signature.parameter[1].member.share)
            for release, computation in zip(watch.ledger.releases, watch.computations)
        }
        for watch in self.watches
    ]
    for types in of_clients:
      self.assertEqual(types, of_clients[0])
    self.assertEqual(of_clients[0]["round 1"], "int64[33]")
    for message_type in of_clients[0].values():
      self.assertRegex(message_type, r"^int64\[[0-9,]*\]$")  # No size is left open.


if __name__ == "__main__":
  absltest.main()

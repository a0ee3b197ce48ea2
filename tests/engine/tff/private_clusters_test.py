"""Spies on TFF in whole private runs: only sums of all clients' messages reach the server."""

import contextlib
from unittest import mock

from absl.testing import absltest
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.compiler import building_blocks
from tensorflow_federated.python.core.impl.compiler import tree_analysis

from bench import audited_clusters
from bench import watched_clusters
from fl_clustering import runtime
from fl_clustering.engine import engines
from fl_clustering.engine.tff import bounded_sums
from fl_clustering.engine.tff import point_files
from fl_clustering.private_clusters import clients as clients_lib
from fl_clustering.private_clusters import fitting
from fl_clustering.private_clusters import releases as releases_lib
from fl_clustering.tasks import models
from tests import local_runtime

# They take nothing from the clients to the server.
_HARMLESS = {
    "federated_apply", "federated_broadcast", "federated_map", "federated_value_at_server",
    "federated_zip_at_clients",
}


def setUpModule():
  local_runtime.use()


def _to_server(computation):
  """Returns the operators in a computation that take something to the server."""
  found = set()

  def visit(block):
    if isinstance(block, building_blocks.Intrinsic):
      found.add(block.uri)

  tree_analysis.visit_preorder(computation.to_building_block(), visit)
  return found - _HARMLESS


class _Spy(tff.framework.SyncContext):
  """Notes which computations have what results."""

  def __init__(self, context):
    self._context = context
    self.seen = []

  def invoke(self, comp, arg):
    found = self._context.invoke(comp, arg)
    self.seen.append((comp, found))
    return found


def _played(sums, settings):
  """Returns what a run asks TFF for, and its releases."""
  releases = releases_lib.Releases(settings.epsilon, settings.delta, 1)
  stack = tff.framework.get_context_stack()
  spy = _Spy(stack.current)
  with stack.install(spy):
    run = fitting.Run(settings, sums, 0, releases)
    *_, (_, public) = run.states()
    run.report(public)
  return spy.seen, releases.ledger.releases


class WholeRunsTest(absltest.TestCase):

  @classmethod
  def setUpClass(cls):
    """Runs one federation several times, with another last client."""
    super().setUpClass()
    replace, cls.operators = tff.backends.test.replace_secure_intrinsics_with_bodies, {}

    def replaced(computation):
      simulated = replace(computation)
      cls.operators[simulated] = _to_server(computation)
      return simulated

    for build in (point_files.build_question_round, bounded_sums.build_rounds):
      build.cache_clear()
    cls.enterClassContext(mock.patch.object(
        tff.backends.test, "replace_secure_intrinsics_with_bodies", replaced
    ))
    # In the worker of all tests, which takes seconds to start.
    cls.workers = cls.enterClassContext(
        mock.patch.object(runtime, "LocalRuntime", side_effect=contextlib.nullcontext)
    )
    settings, cls.runs = audited_clusters.PLANTED.settings, []
    model = models.build(
        "logistic", (watched_clusters.NUM_FEATURES,), watched_clusters.NUM_CLASSES, "float32"
    )
    for name in ("canary", "no examples", "no examples for testing", "NaN"):
      clients = watched_clusters.clients_of(audited_clusters.CLIENTS[name]())
      with clients_lib.opened(engines.TFF, settings, model, clients) as sums:
        cls.runs.append(_played(sums, settings))

  def _answers(self, seen):
    """Returns the computations that sum up messages."""
    return [computation for computation, _ in seen if computation in self.operators]

  def test_each_run_has_a_worker(self):
    self.assertEqual(self.workers.call_count, len(self.runs))

  def test_the_server_gets_one_secure_sum_for_each_entry_of_the_ledger_and_nothing_else(self):
    for seen, releases in self.runs:
      answers = self._answers(seen)
      self.assertLen(answers, len(releases))
      for release, computation in zip(releases, answers):
        self.assertEqual(
            self.operators[computation], {"federated_secure_modular_sum"}, release.name
        )
      # The clients wrote their sketches, and said nothing.
      ((computation, found),) = [one for one in seen if one[0] not in self.operators]
      self.assertEqual(_to_server(computation), {"federated_sum"})
      self.assertEqual(found, 0)

  def test_messages_have_the_same_type_whatever_a_client_holds(self):
    of_clients = [
        {
            release.name: str(computation.type_signature.parameter[1].member.share)
            for release, computation in zip(releases, self._answers(seen))
        }
        for seen, releases in self.runs
    ]
    for types in of_clients:
      self.assertEqual(types, of_clients[0])
    self.assertEqual(of_clients[0]["round 1"], "int64[33]")
    for message_type in of_clients[0].values():
      self.assertRegex(message_type, r"^int64\[[0-9,]*\]$")  # No size is left open.

"""Tests for fl_clustering.sites.site: what an operator with its own code gets."""

from concurrent import futures
import math
import signal
import time

from absl.testing import parameterized
import numpy as np

from clustering_basics import atomic_file
from dp_clustering import cluster_statistics
from dp_clustering import noise
from dp_clustering import privacy_calculator
from fl_clustering.points import grid_scaling
from fl_clustering.points import secure_sums
from fl_clustering.sites import coordinator as coordinator_lib
from fl_clustering.sites import federation as federation_lib
from fl_clustering.sites import identity as identity_lib
from fl_clustering.sites import questions
from fl_clustering.sites import site_ledger
from fl_clustering.sites import wire
from tests.sites import sample_sites

_ONE = secure_sums.identity(5)
_ZERO = secure_sums.Scaling(np.zeros(5), np.zeros(5))


def _message(header, arrays, round_num=1):
  return wire.pack({"do": "ask", "round": round_num, **header}, arrays)


def _ask(round_num, asked):
  return _message(*asked.to_message(), round_num)


def _moments(scaling=_ONE):
  return questions.Asked(grid_scaling.ColumnMoments(), {}, scaling)


def _residuals(scale=2.0**32, num_centers=3, centers=None):
  """Returns a private question, about origins by default."""
  sent = {
      "num_groups": np.int32(num_centers),
      "centers": np.zeros((num_centers, 5)) if centers is None else centers,
      "clip_radii": np.full((num_centers, 1), 2.0**20),
  }
  question = secure_sums.Totals(cluster_statistics.ClippedResiduals(True), num_centers, False)
  parts = ("residual_sums", "counts", "excesses")
  return questions.Asked(question, sent, scales=dict.fromkeys(parts, scale))


class _TestCase(sample_sites.TestCase):

  def started(self, *args, **kwargs):
    """Returns sites in a session, and the first of them."""
    sites = self.make(*args, **kwargs)
    sites.coordinator().start()
    return sites, sites.by_name["east"]

  def assert_refused(self, answer, reason):
    header, arrays = wire.unpack(answer, 2**30)
    self.assertEqual((set(header), arrays), ({"refused"}, {}))
    self.assertRegex(header["refused"], reason)
    self.assertNotIn("\n", header["refused"])


class RequestTest(_TestCase):

  def test_sites_that_are_asked_different_things_give_noise(self):
    sites, _ = self.started()
    asked = {n: _ask(1, _moments(_ONE if n == "east" else _ZERO)) for n in sites.rows}
    total = sum(map(sample_sites.masked, sites.exchange(asked).values())).view(np.int64)

    own = secure_sums.PointArrays({0: sites.rows["east"]}, _ONE).total(
        grid_scaling.ColumnMoments(), {}
    )
    self.assertLess(np.abs(own).max(), 2**20)
    self.assertGreater(np.abs(total.astype(float)).min(), 2**40)

  def test_only_the_next_round_is_answered_and_to_one_request(self):
    _, site = self.started()
    answer = site.handle(_ask(1, _moments()))
    self.assertEqual(site.handle(_ask(1, _moments())), answer)
    for round_num, scaling in ((1, _ZERO), (3, _ONE)):
      self.assert_refused(site.handle(_ask(round_num, _moments(scaling))), "round 2 must be next")
    again = site.handle(_ask(2, _moments()))
    self.assertFalse(np.any(sample_sites.masked(again) == sample_sites.masked(answer)))
    for wrong in (1, True, 3.0, "3", None, -1, [3]):
      self.assert_refused(site.handle(_ask(wrong, _moments())), "round 3 must be next")

  def test_requests_at_the_same_time_are_one_round(self):
    _, site = self.started(privacy=sample_sites.PRIVATE)
    site._ledger.spend = lambda *args: time.sleep(0.2)
    requests = [_ask(1, _residuals(scale)) for scale in (2.0**32, 2.0**33, 2.0**34)]
    with futures.ThreadPoolExecutor(len(requests)) as pool:
      answers = list(pool.map(site.handle, requests))
    self.assertLen([a for a in answers if wire.unpack(a, 2**30)[1]], 1)

  def test_a_closed_site_answers_nothing(self):
    for privacy, asked in ((None, _moments()), (sample_sites.PRIVATE, _residuals())):
      sites, site = self.started(privacy=privacy)
      site.handle(_ask(1, asked))
      site.close()
      for message in (_ask(1, asked), _ask(2, asked), sites.sent[0][1]):
        self.assert_refused(site.handle(message), "closed|no such session")

  def test_another_federation_file_is_refused(self):
    sites = self.make()
    other = federation_lib.Federation(
        {**sites.federation.document, "limits": {"rounds": 10**6}}
    )
    sites.open("south", federation=other)
    with self.assertRaisesRegex(coordinator_lib.SiteRefused, "^south refused hello: .*another fed"):
      sites.fit()

    def exchange(requests):
      """An operator that tells every site what it wants to hear."""
      header, _ = wire.unpack(requests["south"], 2**30)
      if header["do"] == "hello":
        requests = {**requests, "south": wire.pack({**header, "federation": other.hash.hex()})}
      return sites.exchange(requests)

    with self.assertRaisesRegex(coordinator_lib.SiteRefused, "^east refused keys: south has not"):
      sites.fit(exchange=exchange)

  def test_keys_of_an_older_session_are_refused(self):
    sites, east = self.started()
    old = sites.sent[-1][1]
    sites.coordinator().start()
    self.assert_refused(east.handle(old), "once")
    east.handle(next(m for n, m, _ in sites.sent[6:] if n == "east"))  # The second hello.
    self.assert_refused(east.handle(old), "has not signed")

  @parameterized.parameters(
      ({}, "hello, keys or ask"), ({"do": ["hello"]}, "hello, keys or ask"),
      ({"do": "exec", "code": "1"}, "hello, keys or ask"),
      ({"do": "hello", "session": "00" * 16, "federation": "", "mu_squared": 0.0, "more": 1},
       "hello, keys or ask"),
      ({"do": "hello", "session": "00", "federation": "", "mu_squared": 0.0}, "federation file"),
      ({"do": "ask", "round": 1, "question": "Popen"}, "list"),
      ({"do": "ask", "round": 1, "question": ["ColumnMoments"]}, "list"),
      ({"do": "ask", "round": 1, "question": "ColumnMoments", "more": 1}, "nothing but"),
      ({"do": "ask", "round": 1, "question": "Scores", "fields": {}, "capacity": 2**20,
        "num_groups": 1}, "capacity"),
      ({"do": "ask", "round": 1, "question": "Scores", "fields": {"a": 1}, "capacity": 1,
        "num_groups": 1}, "fields"),
  )
  def test_what_is_not_on_the_list_is_refused(self, header, reason):
    _, site = self.started()
    arrays = {"shift": np.zeros(5), "factor": np.ones(5)} if header.get("do") == "ask" else {}
    self.assert_refused(site.handle(wire.pack(header, arrays)), reason)

  def test_hostile_coordinates_are_refused(self):
    _, site = self.started()
    for bad in (np.nan, np.inf, -np.inf, 1e300):
      for name in ("shift", "factor"):
        arrays = {"shift": np.zeros(5), "factor": np.ones(5)}
        arrays[name][2] = bad
        asked = _moments(secure_sums.Scaling(**arrays))
        self.assert_refused(site.handle(_ask(1, asked)), name)
    for wrong in (np.zeros(4), np.zeros((5, 1)), np.zeros(0)):
      asked = _moments(secure_sums.Scaling(wrong, wrong))
      self.assert_refused(site.handle(_ask(1, asked)), "shift")
    # And an extreme that is allowed is answered, whatever it means.
    extreme = secure_sums.Scaling(np.full(5, 1e101), np.full(5, 1e150))
    sample_sites.masked(site.handle(_ask(1, _moments(extreme))))

  def test_a_failure_ends_the_session_and_says_nothing(self):
    class Failing(noise.SecureNoise):

      def discrete_gaussian(self, shape, scale):
        raise ValueError("secret 12345")

    _, site = self.started(privacy=sample_sites.PRIVATE, noise_source=Failing())
    answer = site.handle(_ask(1, _residuals()))
    self.assert_refused(answer, "session has ended")
    self.assertNotIn(b"12345", answer)
    self.assert_refused(site.handle(_ask(1, _residuals())), "no such session")
    self.assertGreater(site.budget[0], 0)

  def test_only_a_closed_set_of_messages_leaves_a_site(self):
    for privacy in (None, sample_sites.PRIVATE):
      sites = self.make(privacy=privacy)
      sites.fit(3)
      words = []
      for _, message, answer in sites.sent:
        header, arrays = wire.unpack(answer, 2**30)
        do = wire.unpack(message, 2**30)[0]["do"]
        if do == "hello":
          self.assertEqual({k: len(v) for k, v in header["hello"].items()},
                           {"public": 64, "signature": 128})
          self.assertEqual((set(header), arrays), ({"hello"}, {}))
        elif do == "keys":
          self.assertEqual((header, arrays), ({"ready": True}, {}))
        else:
          self.assertEqual((header, set(arrays)), ({}, {"masked"}))
          words.append(arrays["masked"].ravel())
      octets = np.bincount(np.concatenate(words).view(np.uint8), minlength=256)
      expected = octets.sum() / 256
      # Chi-squared of 255 degrees of freedom: it exceeds 400 once in 10^8.
      self.assertLess(((octets - expected) ** 2 / expected).sum(), 400)

  def test_rows_and_keys_that_the_file_does_not_know_are_refused(self):
    sites = self.make()
    for rows in (np.full((3, 5), np.nan), np.full((3, 5), 1e200)):
      sites.rows = {**sites.rows, "east": rows}
      with self.assertRaisesRegex(ValueError, "`rows` must"):
        sites.open("east")
    sites.identities["north"] = identity_lib.Identity.create("north")
    with self.assertRaisesRegex(ValueError, "`identity` must"):
      sites.open("north")

  def test_sessions_and_rounds_are_limited(self):
    sites = self.make(limits={"rounds": 3, "sessions": 2})
    for reason in ("at most 3 rounds", "at most 3 rounds", "all of 2 sessions"):
      with self.assertRaisesRegex(coordinator_lib.SiteRefused, reason):
        sites.fit()
    _, site = self.started(limits={"rounds": 2})
    for round_num in (1, 2):
      sample_sites.masked(site.handle(_ask(round_num, _moments())))
    self.assert_refused(site.handle(_ask(3, _moments())), "at most 2 rounds")

  @parameterized.parameters((None, _moments()), (sample_sites.PRIVATE, _residuals()))
  def test_a_session_counts_from_its_first_answer(self, privacy, asked):
    sites = self.make(privacy=privacy, limits={"sessions": 2})
    with open(sites.ledger_path("east"), encoding="utf-8") as file:
      before = file.read()
    for _ in range(5):
      sites.coordinator().start()
    # What is refused is no answer.
    sites.by_name["east"].handle(_message({"question": "Popen"}, {}))
    with open(sites.ledger_path("east"), encoding="utf-8") as file:
      self.assertEqual(file.read(), before)
    for _ in range(2):
      sites.coordinator().start()
      for round_num in (1, 2):
        sample_sites.masked(sites.by_name["east"].handle(_ask(round_num, asked)))
    with self.assertRaisesRegex(coordinator_lib.SiteRefused, "^east .*all of 2 sessions"):
      sites.coordinator().start()


class PrivateSiteTest(_TestCase):

  @parameterized.parameters(
      *(("clip_radii", bad) for bad in (-1.0, 0.0, 0.5, np.nan, np.inf)),
      *(("centers", bad) for bad in (1e300, np.nan, np.inf, 0.5, 2.0**25)),
      *(("num_groups", bad) for bad in (0, 4)),
      *(("scales", bad) for bad in (0.0, -1.0, 31.0, 2.0**58, True, "1", None)),
      ("scales", 2.0**57),  # Of two sites, the sum has too much.
  )
  def test_a_hostile_number_is_refused_and_costs_nothing(self, name, bad):
    _, site = self.started(privacy=sample_sites.PRIVATE)
    header, arrays = _residuals().to_message()
    if name == "scales":
      header["scales"]["counts"] = bad
    elif name == "num_groups":
      header["num_groups"] = bad
    else:
      arrays[name][1] = bad
    self.assert_refused(site.handle(_message(header, arrays)), name)
    self.assertEqual(site.budget[0], 0.0)

  def test_noise_that_is_too_little_or_none_is_refused(self):
    _, site = self.started(privacy=sample_sites.PRIVATE)
    self.assert_refused(site.handle(_ask(1, _residuals(2.0**10))), "budget is spent")
    header, arrays = _residuals().to_message()
    for scales in ({}, {"counts": 1e9}, {**header["scales"], "more": 1e9}, [1e9]):
      self.assert_refused(site.handle(_message({**header, "scales": scales}, arrays)), "scales")
    self.assertEqual(site.budget[0], 0.0)

  def test_no_exact_question_is_answered_and_none_in_other_coordinates(self):
    _, site = self.started(privacy=sample_sites.PRIVATE)
    self.assert_refused(site.handle(_ask(1, _moments())), "list")
    header, arrays = _residuals().to_message()
    for name in {*questions._KINDS, *questions._PLAIN} - {*questions._PRIVATE}:
      self.assert_refused(site.handle(_message({**header, "question": name}, arrays)), "list")
    for more in ({"shift": np.zeros(5)}, {"factor": np.full(5, 1e9)}, {"limits": np.ones(7)}):
      self.assert_refused(site.handle(_message(header, {**arrays, **more})), "nothing but")

  def test_the_budget_is_that_of_all_sessions(self):
    sites = self.make(privacy=sample_sites.PRIVATE)
    sites.fit()
    spent = sites.spent()
    for name in sites.rows:
      sites.open(name)
    self.assertEqual(sites.spent(), spent)
    with self.assertRaisesRegex(coordinator_lib.SiteRefused, "^east refused hello: .*row.* 0.$"):
      sites.fit()

  def test_a_fit_that_one_site_can_not_pay_is_refused_before_anyone_pays(self):
    sites = self.make(privacy=sample_sites.PRIVATE)
    sites.fit(epsilon=1.0)
    (spent, budget), south = sites.by_name["east"].budget, sites.by_name["south"]
    left = privacy_calculator.gaussian_epsilon(math.sqrt(budget - spent), 1e-6)
    south._ledger.spend(0.1 * (budget - spent), budget)
    before = sites.spent()
    with self.assertRaisesRegex(coordinator_lib.SiteRefused, "^south refused hello: ") as caught:
      sites.fit(epsilon=left)

    self.assertEqual(sites.spent(), before)
    # South says what is left to it, and a fit can have all of that.
    said = float(f"{caught.exception}".rstrip(".").split()[-1])
    self.assertBetween(said, 0.9 * left, left - 1e-3)
    sites.fit(epsilon=said)
    self.assertBetween(south.budget[0] / budget, 0.998, 1 + 1e-9)

  def test_a_cost_for_clients_of_one_schema_bounds_none_for_those_of_another(self):
    sites = self.make(privacy=sample_sites.CLIENTS)
    sites.fit(epsilon=1.0)
    self.assertBetween(sites.spent()["east"], 0, 0.2)
    document = sites.federation.document
    other = federation_lib.Federation({**document, "schema": "1" * 64})
    for name in sites.rows:
      sites.open(name, federation=other)
    self.assertEqual(sites.spent(), dict.fromkeys(sites.rows, math.inf))
    sites.federation = other
    with self.assertRaisesRegex(coordinator_lib.SiteRefused, "^east .*client.* 0.$"):
      sites.fit(epsilon=1.0)

  def test_after_answers_with_noise_there_are_no_exact_ones(self):
    sites = self.make(privacy=sample_sites.PRIVATE)
    exact = self.make().federation
    sites.fit(epsilon=1.0)
    for name in sites.rows:
      sites.open(name, federation=exact)
    sites.federation = exact
    with self.assertRaisesRegex(coordinator_lib.SiteRefused, "^east refused hello: .*noise"):
      sites.fit()

  def test_a_session_must_say_what_its_fit_costs(self):
    site = self.make(privacy=sample_sites.PRIVATE).by_name["east"]
    federation = site._federation.hash.hex()
    for cost in (-1.0, True, 1, "0", None, [0.0]):
      message = {"do": "hello", "session": "00" * 16, "federation": federation, "mu_squared": cost}
      self.assert_refused(site.handle(wire.pack(message)), "costs")
    self.assertEqual(site._ledger.num_sessions(federation), 0)

  @parameterized.named_parameters(
      ("before_the_cost_is_entered", site_ledger.SiteLedger, "spend", 0),
      ("while_it_is_entered", atomic_file.os, "replace", 0),
      ("while_noise_is_drawn", noise.SecureNoise, "discrete_gaussian", 1),
      ("before_the_answer_is_sent", wire, "pack", 1),
  )
  def test_kill_9(self, owner, name, num_paid):
    folder = self.create_tempdir().full_path

    def answer():
      sites = sample_sites.make(folder, privacy=sample_sites.PRIVATE)
      sites.coordinator().start()
      message = _ask(1, _residuals())
      setattr(owner, name, sample_sites.kill)
      sites.by_name["east"].handle(message)

    self.assertEqual(sample_sites.ending(answer), -signal.SIGKILL)
    sites = sample_sites.make(folder, privacy=sample_sites.PRIVATE)
    cost = questions.mu_squared(_residuals(), sites.federation.privacy)
    before = sites.spent()
    self.assertAlmostEqual(before["east"] / cost, num_paid)
    self.assert_refused(sites.by_name["east"].handle(_ask(1, _residuals())), "no such session")
    # A new fit goes on from there.
    fit = sites.fit(epsilon=1.0)
    for name, after in sites.spent().items():
      self.assertAlmostEqual((after - before[name]) / fit.ledger.mu_spent**2, 1)

  def test_noise_is_every_sites_and_new_in_every_round(self):
    # The audit of a planted fault: shares that are missing, or drawn once.
    scale, num_rounds, num_centers = 2.0**33, 8, 128
    sites, _ = self.started(privacy=sample_sites.PRIVATE)
    centers = np.zeros((num_centers, 5))
    centers[1:, 0] = 2.0**25  # So that all points are of the first.
    totals = []
    for round_num in range(1, num_rounds + 1):
      asked = _residuals(scale, num_centers, centers)
      answers = sites.exchange(dict.fromkeys(sites.rows, _ask(round_num, asked)))
      total = sum(map(sample_sites.masked, answers.values())).view(np.int64)
      totals.append(total[1:].ravel() / scale)
    # 8 x 889 numbers: their variance, which would be 2 with a share missing, is outside of 10%
    # with a probability of 4e-9, and one of 28 correlations of 889 is above .2 with one of 7e-8.
    self.assertBetween(np.var(totals), 2.7, 3.3)
    correlations = np.corrcoef(totals)[np.triu_indices(num_rounds, 1)]
    self.assertLess(np.abs(correlations).max(), 0.2)

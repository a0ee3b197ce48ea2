"""Tests for fl_clustering.sites.site: what an operator with its own code gets."""

from concurrent import futures
import json
import math
import pickle
import signal
import time

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from clustering_basics import atomic_file
from dp_clustering import cluster_statistics
from dp_clustering import noise
from dp_clustering import privacy_calculator
from fl_clustering.kmeans import kmeans_config
from fl_clustering.points import grid_scaling
from fl_clustering.points import secure_sums
from fl_clustering.sites import coordinator as coordinator_lib
from fl_clustering.sites import federation as federation_lib
from fl_clustering.sites import identity as identity_lib
from fl_clustering.sites import questions
from fl_clustering.sites import site as site_lib
from fl_clustering.sites import site_ledger
from fl_clustering.sites import wire
from tests.sites import sample_sites

_MOST = 2**30
_ONE = secure_sums.identity(5)
_ZERO = secure_sums.Scaling(np.zeros(5), np.zeros(5))


def _ask(round_num, asked):
  header, arrays = asked.to_message()
  return wire.pack({"do": "ask", "round": round_num, **header}, arrays)


def _moments(scaling=_ONE):
  return questions.Asked(grid_scaling.ColumnMoments(), {}, scaling)


def _residuals(scale=2.0**32, num_centers=3, **changes):
  """Returns a private question, about origins."""
  sent = {
      "num_groups": np.int32(num_centers), "centers": np.zeros((num_centers, 5)),
      "clip_radii": np.full((num_centers, 1), 2.0**20), **changes,
  }
  question = secure_sums.Totals(cluster_statistics.ClippedResiduals(True), num_centers, False)
  parts = ("residual_sums", "counts", "excesses")
  return questions.Asked(question, sent, scales=dict.fromkeys(parts, scale))


def _masked(answer):
  return wire.unpack(answer, _MOST)[1]["masked"]


class SiteTest(parameterized.TestCase):

  def _make(self, *args, **kwargs):
    return sample_sites.make(self.create_tempdir().full_path, *args, **kwargs)

  def _started(self, *args, **kwargs):
    sites = self._make(*args, **kwargs)
    sites.coordinator().start()
    return sites

  def assert_refused(self, answer, reason):
    header, arrays = wire.unpack(answer, _MOST)
    self.assertEqual((set(header), arrays), ({"refused"}, {}))
    self.assertRegex(header["refused"], reason)
    self.assertNotIn("\n", header["refused"])

  def test_a_key_in_the_middle_is_refused(self):
    sites = self._make()
    stranger = identity_lib.Identity.create("south")

    def exchange(requests):
      changed = {}
      for name, message in requests.items():
        header, _ = wire.unpack(message, _MOST)
        if header["do"] == "keys":
          header["hellos"]["south"]["public"] = stranger.public.hex()
        changed[name] = wire.pack(header)
      return sites.exchange(changed)

    with self.assertRaisesRegex(coordinator_lib.SiteRefused, "^east refused keys: south has not"):
      sites.coordinator(exchange).start()

  def test_an_own_key_that_was_replaced_is_refused(self):
    # The same site has signed both, in one session's name.
    sites = self._make()
    session = "00" * 16
    hello = wire.pack({"do": "hello", "session": session, "mu_squared": 0.0,
                       "federation": sites.federation.hash.hex()})
    first = {n: wire.unpack(a, _MOST)[0]["hello"]
             for n, a in sites.exchange(dict.fromkeys(sites.rows, hello)).items()}
    for name in sites.rows:
      sites.by_name[name]._last = None  # Or else it would repeat its answer.
    second = {n: wire.unpack(a, _MOST)[0]["hello"]
              for n, a in sites.exchange(dict.fromkeys(sites.rows, hello)).items()}
    self.assertNotEqual(first["east"]["public"], second["east"]["public"])
    answer = sites.by_name["east"].handle(
        wire.pack({"do": "keys", "hellos": {**second, "east": first["east"]}})
    )
    self.assert_refused(answer, "own key")

  def test_sites_that_are_asked_different_things_give_noise(self):
    sites = self._started()
    asked = {n: _ask(1, _moments(_ONE if n == "east" else _ZERO)) for n in sites.rows}
    answers = sites.exchange(asked)
    total = sum(map(_masked, answers.values())).view(np.int64)

    own = secure_sums.PointArrays({0: sites.rows["east"]}, _ONE).total(
        grid_scaling.ColumnMoments(), {}
    )
    self.assertLess(np.abs(own).max(), 2**20)
    self.assertGreater(np.abs(total.astype(float)).min(), 2**40)

  def test_only_the_next_round_is_answered_and_to_one_request(self):
    sites = self._started()
    site = sites.by_name["east"]
    answer = site.handle(_ask(1, _moments()))
    self.assertEqual(site.handle(_ask(1, _moments())), answer)
    self.assert_refused(site.handle(_ask(1, _moments(_ZERO))), "round 2 must be next")
    self.assert_refused(site.handle(_ask(3, _moments())), "round 2 must be next")
    again = site.handle(_ask(2, _moments()))
    self.assertFalse(np.any(_masked(again) == _masked(answer)))
    self.assert_refused(site.handle(_ask(1, _moments())), "round 3 must be next")
    for wrong in (True, 3.0, "3", None, -1, [3]):
      self.assert_refused(site.handle(_ask(wrong, _moments())), "round 3 must be next")

  def test_requests_at_the_same_time_are_one_round(self):
    site = self._started(privacy=sample_sites.PRIVATE).by_name["east"]
    site._ledger.spend = lambda *args: time.sleep(0.2)
    requests = [_ask(1, _residuals(scale)) for scale in (2.0**32, 2.0**33, 2.0**34)]
    with futures.ThreadPoolExecutor(len(requests)) as pool:
      answers = list(pool.map(site.handle, requests))
    self.assertLen([a for a in answers if wire.unpack(a, _MOST)[1]], 1)

  def test_a_closed_site_answers_nothing(self):
    for privacy in (None, sample_sites.PRIVATE):
      sites = self._started(privacy=privacy)
      site = sites.by_name["east"]
      asked = _moments() if privacy is None else _residuals()
      site.handle(_ask(1, asked))
      site.close()
      for message in (_ask(1, asked), _ask(2, asked), sites.sent[0][1]):
        self.assert_refused(site.handle(message), "closed")

  def test_another_federation_file_is_refused(self):
    sites = self._make()
    other = federation_lib.Federation(
        {**sites.federation.document, "limits": {"rounds": 10**6}}
    )
    sites.open("south", federation=other)
    with self.assertRaisesRegex(coordinator_lib.SiteRefused, "^south refused hello: .*another fed"):
      sites.coordinator().start()

    def exchange(requests):
      """An operator that tells every site what it wants to hear."""
      changed = dict(requests)
      header, _ = wire.unpack(requests["south"], _MOST)
      if header["do"] == "hello":
        changed["south"] = wire.pack({**header, "federation": other.hash.hex()})
      return sites.exchange(changed)

    with self.assertRaisesRegex(coordinator_lib.SiteRefused, "^east refused keys: south has not"):
      sites.coordinator(exchange).start()

  def test_fewer_and_more_sites_are_refused(self):
    sites = self._make(5)
    stranger = identity_lib.Identity.create("strange")
    for change in (lambda h: h.pop("west"), lambda h: h.update(strange=h["west"]), dict.clear):

      def exchange(requests, change=change):
        header, _ = wire.unpack(next(iter(requests.values())), _MOST)
        if header["do"] == "keys":
          change(header["hellos"])
        return sites.exchange(dict.fromkeys(requests, wire.pack(header)))

      with self.assertRaisesRegex(coordinator_lib.SiteRefused, "east, north, south, up, west"):
        sites.coordinator(exchange).start()
    self.assertNotIn(stranger.name, sites.federation.sites)

  def test_keys_of_an_older_session_are_refused(self):
    sites = self._started()
    old = sites.sent[-1][1]
    sites.coordinator().start()
    self.assert_refused(sites.by_name["east"].handle(old), "once")
    hello = next(m for n, m, _ in sites.sent[6:] if n == "east")
    sites.by_name["east"].handle(hello)
    self.assert_refused(sites.by_name["east"].handle(old), "has not signed")

  @parameterized.parameters(
      ({"do": "exec", "code": "1"}, "hello, keys or ask"),
      ({"do": "ask", "round": 1, "question": "Popen"}, "list"),
      ({"do": "ask", "round": 1, "question": ["ColumnMoments"]}, "list"),
      ({"do": "ask", "round": 1, "question": "__class__"}, "list"),
      ({"do": "ask", "round": 1, "question": "ColumnMoments", "more": 1}, "nothing but"),
      ({"do": "ask", "round": 1, "question": "Scores", "fields": {}, "capacity": 2**20,
        "num_groups": 1}, "capacity"),
      ({"do": "ask", "round": 1, "question": "Scores", "fields": {"a": 1}, "capacity": 1,
        "num_groups": 1}, "fields"),
      ({"do": "hello", "session": "00" * 16, "federation": "", "mu_squared": 0.0, "more": 1},
       "hello, keys or ask"),
      ({"do": "hello", "session": "00", "federation": "", "mu_squared": 0.0},
       "another federation file"),
      ({"do": ["hello"]}, "hello, keys or ask"),
      ({}, "hello, keys or ask"),
  )
  def test_what_is_not_on_the_list_is_refused(self, header, reason):
    sites = self._started()
    arrays = {"shift": np.zeros(5), "factor": np.ones(5)} if header.get("do") == "ask" else {}
    self.assert_refused(sites.by_name["east"].handle(wire.pack(header, arrays)), reason)

  def test_bytes_that_are_no_message_are_refused(self):
    site = self._started().by_name["east"]
    for message in (b"", b"123", pickle.dumps({"do": "hello"}), b"\xff" * 100, None, "text",
                    bytes(site._federation.most_bytes + 1)):
      self.assert_refused(site.handle(message), "a message must")

  def test_hostile_coordinates_are_refused(self):
    site = self._started().by_name["east"]
    for bad in (np.nan, np.inf, -np.inf, 1e300):
      for name in ("shift", "factor"):
        arrays = {"shift": np.zeros(5), "factor": np.ones(5)}
        arrays[name][2] = bad
        self.assert_refused(
            site.handle(_ask(1, _moments(secure_sums.Scaling(**arrays)))), "finite"
        )
    for wrong in (np.zeros(4), np.zeros((5, 1)), np.zeros(0)):
      self.assert_refused(site.handle(_ask(1, _moments(secure_sums.Scaling(wrong, wrong)))), "for")
    # And an extreme that is allowed is answered, whatever it means.
    extreme = secure_sums.Scaling(np.full(5, 1e101), np.full(5, 1e150))
    _masked(site.handle(_ask(1, _moments(extreme))))

  @parameterized.parameters(
      ("clip_radii", -1.0), ("clip_radii", 0.0), ("clip_radii", 0.5), ("clip_radii", np.nan),
      ("clip_radii", np.inf), ("centers", 1e300), ("centers", np.nan), ("centers", np.inf),
      ("centers", 0.5), ("centers", 2.0**25), ("num_groups", 0), ("num_groups", 4),
  )
  def test_hostile_numbers_of_a_private_question_are_refused(self, name, value):
    sites = self._started(privacy=sample_sites.PRIVATE)
    sent = dict(_residuals().sent)
    changed = np.int32(value) if name == "num_groups" else np.array(sent[name])
    if name != "num_groups":
      changed[1] = value
    site = sites.by_name["east"]
    self.assert_refused(site.handle(_ask(1, _residuals(**{name: changed}))), name)
    self.assertEqual(site._ledger.spent("row"), 0.0)

  def test_noise_that_is_too_little_or_none_is_refused(self):
    site = self._started(privacy=sample_sites.PRIVATE).by_name["east"]
    for bad in (0.0, -1.0, 31.0, 2.0**58, True, "1", None):
      self.assert_refused(site.handle(_ask(1, _residuals(bad))), "scales")
    self.assert_refused(site.handle(_ask(1, _residuals(2.0**10))), "budget is spent")
    asked = _residuals()
    for scales in ({}, {"counts": 1e9}, {**asked.scales, "more": 1e9}, [1e9]):
      header, arrays = asked.to_message()
      message = wire.pack({"do": "ask", "round": 1, **header, "scales": scales}, arrays)
      self.assert_refused(site.handle(message), "scales")
    self.assertEqual(site._ledger.spent("row"), 0.0)

  def test_a_private_site_answers_no_exact_question_in_no_coordinates_but_its_own(self):
    site = self._started(privacy=sample_sites.PRIVATE).by_name["east"]
    self.assert_refused(site.handle(_ask(1, _moments())), "list")
    header, arrays = _residuals().to_message()
    for name in {*questions._KINDS, *questions._PLAIN} - {*questions._PRIVATE}:
      message = wire.pack({"do": "ask", "round": 1, **header, "question": name}, arrays)
      self.assert_refused(site.handle(message), "list")
    for more in ({"shift": np.zeros(5)}, {"factor": np.full(5, 1e9)}, {"limits": np.ones(7)}):
      message = wire.pack({"do": "ask", "round": 1, **header}, {**arrays, **more})
      self.assert_refused(site.handle(message), "nothing but")

  def test_the_budget_is_that_of_all_sessions(self):
    sites = self._make(privacy=sample_sites.PRIVATE)
    config = kmeans_config.KMeansConfig(2)
    coordinator_lib.fit_kmeans(config, sites.coordinator())
    spent = {n: site._ledger.spent("row") for n, site in sites.by_name.items()}
    for name in sites.rows:
      sites.open(name)
    self.assertEqual({n: site._ledger.spent("row") for n, site in sites.by_name.items()}, spent)
    with self.assertRaisesRegex(coordinator_lib.SiteRefused, "^east refused hello: .*epsilon of 0"):
      coordinator_lib.fit_kmeans(config, sites.coordinator())
    # Nor does another file refill it, but a larger budget has a rest.
    document = sites.federation.document
    for epsilon, reason in ((4.0, "budget is spent"), (8.0, None)):
      document = {**document, "name": "new", "privacy": {**document["privacy"], "epsilon": epsilon}}
      sites.federation = federation_lib.Federation(document)
      for name in sites.rows:
        sites.open(name)
      sites.coordinator().start()
      answer = sites.by_name["east"].handle(_ask(1, _residuals(2.0**23)))
      if reason:
        self.assert_refused(answer, reason)
      else:
        _masked(answer)

  def test_a_fit_that_one_site_can_not_pay_is_refused_before_anyone_pays(self):
    sites, config = self._make(privacy=sample_sites.PRIVATE), kmeans_config.KMeansConfig(2)
    coordinator_lib.fit_kmeans(config, sites.coordinator(), epsilon=1.0)
    (spent, budget), south = sites.by_name["east"].budget, sites.by_name["south"]
    left = privacy_calculator.gaussian_epsilon(math.sqrt(budget - spent), 1e-6)
    south._ledger.spend(0.1 * (budget - spent), budget)
    before = {name: site.budget for name, site in sites.by_name.items()}
    with self.assertRaisesRegex(coordinator_lib.SiteRefused, "^south refused hello: ") as caught:
      coordinator_lib.fit_kmeans(config, sites.coordinator(), epsilon=left)

    self.assertEqual({name: site.budget for name, site in sites.by_name.items()}, before)
    # South says what is left to it, and a fit can have all of that.
    said = float(f"{caught.exception}".rstrip(".").split()[-1])
    self.assertBetween(said, 0.9 * left, left - 1e-3)
    coordinator_lib.fit_kmeans(config, sites.coordinator(), epsilon=said)
    self.assertBetween(south._ledger.spent("row") / budget, 0.998, 1 + 1e-9)

  def test_a_session_must_say_what_its_fit_costs(self):
    site = self._make(privacy=sample_sites.PRIVATE).by_name["east"]
    federation = site._federation.hash.hex()
    for cost in (-1.0, True, 1, "0", None, [0.0]):
      message = {"do": "hello", "session": "00" * 16, "federation": federation, "mu_squared": cost}
      self.assert_refused(site.handle(wire.pack(message)), "costs")
    self.assertEqual(site._ledger.num_sessions(federation), 0)

  def test_the_cost_is_on_the_disk_before_noise_is_drawn(self):
    seen = []

    class Watching(noise.SecureNoise):

      def discrete_gaussian(self, shape, scale):
        with open(sites.ledger_path("east"), encoding="utf-8") as file:
          seen.append(json.load(file)["sessions"][-1]["mu_squared"])
        return super().discrete_gaussian(shape, scale)

    sites = self._make(privacy=sample_sites.PRIVATE)
    sites.open("east", Watching())
    sites.coordinator().start()
    asked = _residuals()
    sites.by_name["east"].handle(_ask(1, asked))
    self.assertLen(seen, 3)
    self.assertGreater(min(seen), questions.mu_squared(asked, sites.federation.privacy))

  def test_a_killed_site_has_paid_and_refuses(self):
    sites = self._started(privacy=sample_sites.PRIVATE)
    message = _ask(1, _residuals())
    answer = sites.by_name["east"].handle(message)
    spent = sites.by_name["east"]._ledger.spent("row")
    self.assertGreater(spent, 0)
    sites.open("east")
    self.assert_refused(sites.by_name["east"].handle(message), "no such session")
    self.assertEqual(sites.by_name["east"]._ledger.spent("row"), spent)
    sites.coordinator().start()
    self.assertFalse(np.any(_masked(sites.by_name["east"].handle(message)) == _masked(answer)))
    self.assertAlmostEqual(sites.by_name["east"]._ledger.spent("row") / spent, 2)

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
    spent, _ = sites.by_name["east"].budget
    self.assertAlmostEqual(spent / cost, num_paid)
    # A new fit goes on from there.
    config = kmeans_config.KMeansConfig(2)
    fit = coordinator_lib.fit_kmeans(config, sites.coordinator(), epsilon=1.0)
    for name, before in (("east", spent), ("north", 0.0)):
      after, _ = sites.by_name[name].budget
      self.assertAlmostEqual((after - before) / fit.ledger.mu_spent**2, 1)

  def test_a_failure_ends_the_session_and_says_nothing(self):
    class Failing(noise.SecureNoise):

      def discrete_gaussian(self, shape, scale):
        raise ValueError("secret 12345")

    sites = self._started(privacy=sample_sites.PRIVATE, noise_source=Failing())
    site = sites.by_name["east"]
    answer = site.handle(_ask(1, _residuals()))
    self.assert_refused(answer, "session has ended")
    self.assertNotIn(b"12345", answer)
    self.assert_refused(site.handle(_ask(1, _residuals())), "no such session")
    self.assertGreater(site._ledger.spent("row"), 0)

  def test_noise_is_every_sites_and_new_in_every_round(self):
    # The audit of a planted fault: shares that are missing, or drawn once.
    scale, num_rounds, num_centers = 2.0**33, 8, 128
    sites = self._started(privacy=sample_sites.PRIVATE)
    centers = np.zeros((num_centers, 5))
    centers[1:, 0] = 2.0**25  # So that all points are of the first.
    totals = []
    for round_num in range(1, num_rounds + 1):
      asked = _residuals(scale, num_centers, centers=centers)
      answers = sites.exchange(dict.fromkeys(sites.rows, _ask(round_num, asked)))
      totals.append(sum(map(_masked, answers.values())).view(np.int64)[1:].ravel())
    totals = np.array(totals) / scale
    # 8 x 889 numbers: a variance is known to 2%, and it would be 2 with a share missing.
    self.assertBetween(totals.var(), 2.7, 3.3)
    correlations = np.corrcoef(totals)[np.triu_indices(num_rounds, 1)]
    self.assertLess(np.abs(correlations).max(), 0.2)

  def test_only_a_closed_set_of_messages_leaves_a_site(self):
    for privacy in (None, sample_sites.PRIVATE):
      sites = self._make(privacy=privacy)
      coordinator_lib.fit_kmeans(kmeans_config.KMeansConfig(3), sites.coordinator())
      words = []
      for name, message, answer in sites.sent:
        header, arrays = wire.unpack(answer, _MOST)
        do = wire.unpack(message, _MOST)[0]["do"]
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

  def test_rows_that_the_file_does_not_know_are_refused(self):
    sites = self._make()
    for rows in (np.zeros((3, 4)), np.full((3, 5), np.nan), np.full((3, 5), 1e200)):
      sites.rows = {**sites.rows, "east": rows}
      with self.assertRaisesRegex(ValueError, "`rows` must"):
        sites.open("east")
    with self.assertRaisesRegex(ValueError, "`rows` must"):
      site_lib.held({}, sites.federation)
    sites.identities["north"] = identity_lib.Identity.create("north")
    with self.assertRaisesRegex(ValueError, "`identity` must"):
      sites.open("north")

  def test_private_rows_may_hold_anything(self):
    rows = sample_sites.rows_of(3)
    rows["east"][:3] = np.array([[np.nan], [np.inf], [-1e308]])
    sites = self._make(rows=rows, privacy=sample_sites.PRIVATE)
    fit = coordinator_lib.fit_kmeans(kmeans_config.KMeansConfig(2), sites.coordinator())
    self.assertTrue(np.isfinite(fit.centroids).all())

  def test_sessions_and_rounds_are_limited(self):
    sites = self._make(limits={"rounds": 3, "sessions": 2})
    for _ in range(2):
      with self.assertRaisesRegex(coordinator_lib.SiteRefused, "at most 3 rounds"):
        coordinator_lib.fit_kmeans(kmeans_config.KMeansConfig(2), sites.coordinator())
    with self.assertRaisesRegex(coordinator_lib.SiteRefused, "all of 2 sessions"):
      sites.coordinator().start()


if __name__ == "__main__":
  absltest.main()

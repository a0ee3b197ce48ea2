"""Tests for fl_clustering.sites.coordinator: the bits are those of one process."""

import itertools
import struct
from unittest import mock

from absl.testing import parameterized
import numpy as np

from dp_clustering import noise
from fl_clustering import fits
from fl_clustering.kmeans import FederatedKMeans
from fl_clustering.kmeans import kmeans_config
from fl_clustering.multiview import estimator as view_estimator
from fl_clustering.multiview import multiview_config
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.sites import coordinator as coordinator_lib
from fl_clustering.sites import wire
from tests import nightly
from tests.sites import sample_sites


def _with_arrays(answer, change):
  """Returns an answer with changed arrays."""
  header, arrays = wire.unpack(answer, 2**30)
  return wire.pack(header, {name: change(array) for name, array in arrays.items()})


def _same_bits(one, other):
  np.testing.assert_array_equal(np.asarray(one).view(np.uint8), np.asarray(other).view(np.uint8))


class OneProcessTest(sample_sites.TestCase):

  @parameterized.parameters(
      (1, False, 3), (3, False, 3), (3, True, 5), (8, False, 5), (8, True, 3)
  )
  def test_kmeans(self, k, standardize, num_sites):
    sites = self.make(num_sites)
    one = FederatedKMeans(k, standardize=standardize).fit(sites.rows)
    fit = sites.fit(k, standardize=standardize)

    _same_bits(fit.centroids, one.cluster_centers_)
    self.assertEqual(fit.loss, one.inertia_)
    self.assertEqual(fit.simplified_silhouette, one.simplified_silhouette_)
    self.assertEqual(fit.num_rounds, one.n_iter_)
    # Beside hello and keys, all sites are asked once for a round.
    self.assertLen(sites.sent, num_sites * (fit.num_rounds + 2))

  @parameterized.parameters(
      ("equal", False, 3), ("mvkm", True, 5), ("regret", False, 5), ("regret", True, 3)
  )
  def test_views(self, rule, standardize, num_sites):
    # By day, each rule once.
    nightly.skip_by_day(self, rule == "regret" and standardize)
    sites = self.make(num_sites, widths=sample_sites.WIDTHS)
    settings = {"view_weights": rule, "standardize": standardize, "n_init": 2}
    views = {
        name: np.split(rows, [sample_sites.WIDTHS[0]], axis=1) for name, rows in sites.rows.items()
    }
    one = view_estimator.FederatedMultiViewKMeans(4, **settings).fit(views)
    config = multiview_config.MultiViewConfig(4, **settings)
    fit = coordinator_lib.fit_kmeans(config, sites.coordinator())

    _same_bits(fit.centroids, np.concatenate(one.cluster_centers_, axis=1))
    _same_bits(fit.model.on_grid.view_weights, one.view_weights_)
    self.assertEqual((fit.loss, fit.num_rounds), (one.objective_, one.n_iter_))

  @parameterized.parameters((sample_sites.PRIVATE,), (sample_sites.CLIENTS,))
  def test_private_kmeans_with_the_same_noise(self, privacy):
    sites = self.make(privacy=privacy, noise_source=noise.SeededNoise(3))
    config = kmeans_config.KMeansConfig(4, privacy=sites.federation.privacy)
    self._check_same(config, sites)

  def test_private_views_with_the_same_noise(self):
    widths = sample_sites.WIDTHS
    sites = self.make(
        widths=widths, privacy=sample_sites.VIEWS, noise_source=noise.SeededNoise(3)
    )
    self._check_same(multiview_config.MultiViewConfig(
        4, standardize=False, privacy=sites.federation.privacy,
        **multiview_config.PRIVATE_DEFAULTS,
    ), sites)

  def _check_same(self, config, sites):
    """Also that every site has entered what the operator says, which is all of the budget."""
    widths = sites.federation.widths
    held = privacy_lib.hold(sites.rows, widths, config.privacy)
    one, fit = fits.fit(config, held, widths, noise.SeededNoise(3)), sites.fit(4)
    _same_bits(fit.centroids, one.centroids)
    self.assertEqual(fit.ledger.releases, one.ledger.releases)
    self.assertTrue(fit.ledger.is_private)  # Sites draw the noise, with no seed but a test's.
    self.assertEqual(fit.privacy_spent["min_sites"], sites.federation.privacy.min_clients)
    for spent in sites.spent().values():
      self.assertAlmostEqual(spent / fit.ledger.mu_spent**2, 1, places=9)
      self.assertAlmostEqual(spent / fit.ledger.mu**2, 1, places=9)


def _answers(rng, num):
  """Yields answers that no site gives: JSON of any kind in the place of any part."""
  texts = (
      "1e999", "-1e999", "NaN", "9" * 4000, "[" * 900 + "]" * 900, "[" * 10**5, "null", "true",
      "{}", '"\\ud800"', '"\\u0000"', '"\\u001b[2J\\r\\nerror: \\u202e"', '["a"]',
      f'"{"x" * 10**5}"',
      "1.5", f'"{"0" * 64}"', f'"{" " * 10**5}{"0" * 64}"', f'"{"0" * 128}"', '"\u00fc\u4e2d"',
  )
  forms = (
      '{"hello": %s}', '{"hello": {"public": %s, "signature": %s}}', '{"refused": %s}',
      '{"ready": %s}', '{"hello": {"public": %s, "signature": %s}, "refused": %s}', "%s",
      '{"masked": %s}', '{"hello": {"public": %s}}', '{%s: 0}',
  )
  for _ in range(num):
    form = rng.choice(forms)
    header = form % tuple(rng.choice(texts) for _ in range(form.count("%s")))
    arrays = '[["masked", "<u8", [1, %s]]]' % rng.choice(texts) if rng.random() < 0.3 else "[]"
    text = f'{{"header": {header}, "arrays": {arrays}}}'.encode()
    yield struct.pack("<I", len(text)) + text + bytes(8 * rng.integers(2))


class SitesThatFailTest(sample_sites.TestCase):

  @parameterized.parameters(0, 1, 5)  # At hello, at keys, in a round.
  def test_a_lost_site_is_named(self, num_exchanges):
    sites, lost = self.make(), []

    def exchange(requests):
      is_there = len(sites.sent) < 3 * num_exchanges
      lost.extend(name for name in requests if not is_there)
      return sites.exchange({n: m for n, m in requests.items() if n != "north" or is_there})

    with self.assertRaisesRegex(coordinator_lib.SiteLost, "^north: "):
      sites.fit(3, exchange)
    # It was asked once more, alone.
    self.assertEqual(lost, ["east", "north", "south", "north"])

  def test_an_answer_that_was_lost_on_the_way_is_given_again(self):
    sites, turns = self.make(), iter(range(10**6))

    def exchange(requests):
      answers = sites.exchange(requests)
      if next(turns) % 2 == 0:
        answers.popitem()
      return answers

    one = FederatedKMeans(3).fit(sites.rows)
    _same_bits(sites.fit(3, exchange).centroids, one.cluster_centers_)

  @parameterized.parameters(
      lambda answer: answer[:-8], lambda answer: b"", lambda answer: None,
      # Of another shape or type, which only what is masked has.
      lambda answer: _with_arrays(answer, lambda words: words[:, :1]),
      lambda answer: _with_arrays(answer, lambda words: words.astype(float)),
  )
  def test_an_answer_that_is_none_is_refused_by_name(self, change):
    sites = self.make()

    def exchange(requests):
      answers = sites.exchange(requests)
      return {**answers, "east": change(answers["east"])}

    with self.assertRaisesRegex(coordinator_lib.SiteRefused, "^east: "):
      sites.fit(3, exchange)

  @parameterized.product(do=("hello", "keys", "ask"), arrays=({}, {"more": np.ones(1)}))
  def test_an_answer_with_more_is_refused_by_name(self, do, arrays):
    sites = self.make()

    def exchange(requests):
      answers = sites.exchange(requests)
      if wire.unpack(requests["east"], 2**30)[0]["do"] == do:
        header, own = wire.unpack(answers["east"], 2**30)
        more = {} if arrays else {"more": 1}
        answers["east"] = wire.pack({**header, **more}, {**own, **arrays})
      return answers

    with self.assertRaisesRegex(coordinator_lib.SiteRefused, "^east: "):
      sites.fit(3, exchange)
    # At once: nothing else was sent afterwards.
    self.assertEqual(wire.unpack(sites.sent[-1][1], 2**30)[0]["do"], do)

  def test_the_log_says_what_was_sent_and_how_long_it_took(self):
    sites = self.make()
    coordinator = sites.coordinator()
    with mock.patch.object(coordinator_lib.time, "perf_counter", itertools.count(5).__next__):
      coordinator.start()
    self.assertEqual(coordinator.log, [
        {"what": what, "bytes_down": len(sent[0][1]), "seconds": 1,
         "most_bytes_up": max(len(answer) for *_, answer in sent)}
        for what, sent in (("hello", sites.sent[:3]), ("keys", sites.sent[3:]))
    ])

  @parameterized.parameters(0, 1, 2)  # In the place of hello, of keys, of a round.
  def test_whatever_a_site_answers_is_one_line_that_names_it(self, num_before):
    rng = np.random.default_rng(num_before)
    for number, own in enumerate(_answers(rng, nightly.either(50, 1000))):
      if number % 100 == 0:
        sites = self.make()  # Which take part in so many sessions.
      turns = iter(range(10**6))

      def exchange(requests, sites=sites, turns=turns, own=own):
        answers = sites.exchange(requests)
        return {**answers, "north": own} if next(turns) >= num_before else answers

      with self.assertRaises(coordinator_lib.SiteRefused) as caught:
        sites.fit(3, exchange)
      line = f"{caught.exception}"
      line.encode()
      self.assertRegex(line, "^north(:| refused )")
      self.assertTrue(line.isprintable(), line)
      self.assertLess(len(line), 500)

  @parameterized.parameters((None,), (sample_sites.PRIVATE,), (sample_sites.CLIENTS,))
  def test_what_no_rows_add_up_to_is_refused(self, privacy):
    old, rng = [], np.random.default_rng(0)
    for change in (
        lambda words: rng.integers(2**64, size=words.shape, dtype=np.uint64),
        # Of another round, so masks stay.
        lambda words: old.append(words) or next(w for w in old if w.shape == words.shape),
        lambda words: words - np.uint64(2**50),
        lambda words: words + np.uint64(2**61),
        lambda words: words + (np.arange(words.shape[1]) == 0) * np.uint64(2**58),  # Of sums alone.
    ):
      sites = self.make(privacy=privacy)

      def exchange(requests, sites=sites, change=change):
        answers = sites.exchange(requests)
        header, arrays = wire.unpack(answers.get("east", wire.pack({})), 2**30)
        if "masked" in arrays:
          answers["east"] = wire.pack(header, {"masked": change(arrays["masked"])})
        return answers

      with self.assertRaisesRegex(coordinator_lib.SiteRefused, "no rows can have"):
        sites.fit(3, exchange)

  @parameterized.parameters("ColumnExponents", "NormExponents")
  def test_sums_that_contradict_each_other_are_refused(self, question):
    sites = self.make()

    def exchange(requests):
      answers = sites.exchange(requests)
      header, _ = wire.unpack(requests["east"], 2**30)
      if header.get("question") == question:  # East knows what the others add, and takes it away.
        others = sum(sample_sites.masked(answers[name]) for name in ("north", "south"))
        answers["east"] = wire.pack({}, {"masked": np.zeros_like(others) - others})
      return answers

    with self.assertRaisesRegex(coordinator_lib.SiteRefused, "no rows can have"):
      sites.fit(3, exchange, standardize=True)

  @parameterized.parameters((sample_sites.PRIVATE,), (sample_sites.CLIENTS,), (sample_sites.VIEWS,))
  def test_no_honest_fit_is_refused_whatever_its_noise_is(self, privacy):
    widths = sample_sites.WIDTHS if privacy == sample_sites.VIEWS else (5,)
    for num_rows in nightly.either((1,), (0, 1, 200)):
      rows = {name: own[:num_rows] for name, own in sample_sites.rows_of(3).items()}
      for epsilon in (1e-3, 100.0):
        self.make(rows=rows, widths=widths, privacy={**privacy, "epsilon": epsilon}).fit(4)

  def test_the_epsilon_of_a_fit_is_a_part_of_the_files(self):
    exact, private = (self.make(privacy=one).federation for one in (None, sample_sites.PRIVATE))
    config = kmeans_config.KMeansConfig(2)
    of_file = private.privacy
    for epsilon in (0.5, of_file.epsilon):
      found = coordinator_lib.with_privacy(config, private, epsilon).privacy
      self.assertEqual((found.epsilon, found.delta), (epsilon, of_file.delta))
    for federation, epsilon in (
        (private, 1.01 * of_file.epsilon), (private, 0.0), (exact, 1.0)
    ):
      with self.assertRaisesRegex(ValueError, "^`epsilon`"):
        coordinator_lib.with_privacy(config, federation, epsilon)

  def test_the_log_has_the_largest_answer(self):
    sites, sizes = self.make(), []

    def exchange(requests):
      answers = sites.exchange(requests)
      (length,) = struct.unpack("<I", answers["east"][:4])  # Of a header, which may have blanks.
      header, rest = answers["east"][4 : 4 + length], answers["east"][4 + length :]
      answers["east"] = struct.pack("<I", length + 1) + header + b" " + rest
      sizes.append(max(map(len, answers.values())))
      return answers

    coordinator = coordinator_lib.Coordinator(sites.federation, exchange)
    coordinator.start()
    self.assertEqual([one["most_bytes_up"] for one in coordinator.log], sizes)

  @parameterized.parameters(
      (None, kmeans_config.KMeansConfig(2, "lloyd"), "algorithm"),
      (sample_sites.VIEWS, kmeans_config.KMeansConfig(2), "radius"),
      (sample_sites.PRIVATE, multiview_config.MultiViewConfig(2), "view_norms"),
      (sample_sites.PRIVATE, kmeans_config.KMeansConfig(2, standardize=True), "standardize"),
      (None, kmeans_config.KMeansConfig(
          2, privacy=privacy_lib.PointPrivacy(1.0, 1e-6, 1.0)), "privacy"),
  )
  def test_a_fit_that_does_not_go_with_the_file_is_refused(self, privacy, config, name):
    widths = sample_sites.WIDTHS if privacy == sample_sites.VIEWS else (5,)
    federation = self.make(widths=widths, privacy=privacy).federation
    with self.assertRaisesRegex(ValueError, name):
      coordinator_lib.with_privacy(config, federation)

  @parameterized.parameters(
      # By noise, three centers of each cluster are asked about at once; exactly, also 32.
      (sample_sites.PRIVATE, (5,), 2, 3), (sample_sites.VIEWS, sample_sites.WIDTHS, 2, 3),
      (None, (5,), 10, 11), (None, sample_sites.WIDTHS, 10, 11),
  )
  def test_no_fit_asks_about_more_centers_than_the_file_allows(self, privacy, widths, most, beyond):
    limits = {"centers": 6 if privacy else 32}
    of_views = {"standardize": False, "tol": 0.0, "n_init": 1}
    settings = of_views if privacy == sample_sites.VIEWS else {}
    kind = kmeans_config.KMeansConfig if len(widths) == 1 else multiview_config.MultiViewConfig
    federation = self.make(widths=widths, privacy=privacy, limits=limits).federation
    coordinator_lib.with_privacy(kind(most, **settings), federation)
    with self.assertRaisesRegex(ValueError, "^`n_clusters` must"):
      coordinator_lib.with_privacy(kind(beyond, **settings), federation)

  def test_a_fit_costs_what_the_file_allows_or_less(self):
    config, exact = kmeans_config.KMeansConfig(2), self.make().federation
    private = self.make(privacy=sample_sites.PRIVATE).federation
    for epsilon, expected in ((None, 4.0), (4.0, 4.0), (1.5, 1.5)):
      found = coordinator_lib.with_privacy(config, private, epsilon).privacy
      self.assertEqual((found.epsilon, found.delta, found.min_clients), (expected, 1e-6, 2))
    for federation, epsilon in ((private, 4.001), (private, 0.0), (exact, 1.0)):
      with self.assertRaisesRegex(ValueError, "`epsilon` must"):
        coordinator_lib.with_privacy(config, federation, epsilon)

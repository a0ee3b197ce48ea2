from absl.testing import parameterized
import numpy as np

from clustering_basics import randomness


class RandomnessTest(parameterized.TestCase):

  def test_same_arguments_give_the_same_numbers(self):
    draws = [randomness.generator(7, "partition").random(5) for _ in range(2)]
    np.testing.assert_array_equal(*draws)

  @parameterized.named_parameters(
      ("seed", (8, "train", 3, "a")),
      ("purpose", (7, "draw", 3, "a")),
      ("round", (7, "train", 4, "a")),
      ("client", (7, "train", 3, "b")),
      ("where_the_purpose_ends", (7, "traina", 3, "")),
  )
  def test_every_argument_matters(self, other):
    base = (7, "train", 3, "a")
    for draw in (randomness.stateless_seed, lambda *key: randomness.generator(*key).random(5)):
      self.assertFalse(np.array_equal(draw(*base), draw(*other)))

  def test_seeds_of_many_clients_and_rounds_differ(self):
    seeds = {
        tuple(randomness.stateless_seed(0, "train", r, f"f{c:04d}"))
        for r in range(20)
        for c in range(100)
    }
    self.assertEqual(randomness.stateless_seed(0, "train", 1, "a").dtype, np.int32)
    # 64-bit seeds: the chance that two of 2,000 agree is about 1e-13.
    self.assertLen(seeds, 2000)

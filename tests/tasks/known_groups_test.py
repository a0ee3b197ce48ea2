from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import known_groups
from fl_clustering.tasks import partition
from tests.tasks import data_files


def _images(num_images, size=12, channels=1):
  """Returns images of bright bars, two to four pixels wide, on dark ground."""
  rng = np.random.default_rng(0)
  images = np.zeros((num_images, size, size, channels), np.uint8)
  for image in images:
    start, width = rng.integers(1, size - 5), rng.integers(2, 5)
    image[2:-2, start : start + width] = rng.integers(150, 256, channels)
  return images


def _pool(num_examples=300, num_test=200):
  labels = (np.arange(num_examples + num_test) % 10).astype(np.uint8)
  everything = examples_lib.Examples(_images(len(labels)), labels)
  return data_files.pool_of(everything, num_examples)


def _transformations(num_groups=5, seed=0):
  return known_groups.feature_shifts(None, num_groups, np.random.default_rng(seed))


def _shifted(name, images, seed=0):
  transformation = _transformations(seed=seed)[list(known_groups.SHIFTS).index(name)]
  labels = np.arange(len(images), dtype=np.uint8)
  found = transformation(examples_lib.Examples(images, labels))
  np.testing.assert_array_equal(found.labels, labels)
  return found.features


class ShiftTest(parameterized.TestCase):

  @parameterized.product(name=list(known_groups.SHIFTS), channels=[1, 3])
  def test_treats_every_image_and_channel_alone(self, name, channels):
    images = _images(7, channels=channels)
    before = images.copy()
    shifted = _shifted(name, images)
    np.testing.assert_array_equal(images, before)
    self.assertEqual((shifted.shape, shifted.dtype), (images.shape, np.uint8))
    is_changed = np.any(shifted != images, axis=(1, 2, 3))
    np.testing.assert_array_equal(is_changed, name != "unchanged")
    np.testing.assert_array_equal(_shifted(name, images[2:3]), shifted[2:3])
    if name != "noisy":
      np.testing.assert_array_equal(_shifted(name, images[..., -1:]), shifted[..., -1:])
    self.assertEmpty(_shifted(name, images[:0]))

  def test_group_0_is_unchanged_and_each_further_group_adds_a_shift(self):
    self.assertEqual(list(known_groups.SHIFTS)[0], "unchanged")
    all_groups = [t(_pool().pool).features for t in _transformations()]
    for num_groups in range(2, 6):
      groups = [t(_pool().pool).features for t in _transformations(num_groups)]
      np.testing.assert_array_equal(groups, all_groups[:num_groups])

  def test_inverts_ink_and_paper(self):
    images = np.array([0, 1, 200, 255], np.uint8).reshape(1, 2, 2, 1)
    self.assertEqual(_shifted("inverted", images).ravel().tolist(), [255, 254, 55, 0])

  @parameterized.parameters(("eroded", 4, 2), ("dilated", 6, 4))
  def test_strokes_change_by_a_pixel(self, name, height, width):
    image = np.zeros((1, 9, 9, 1), np.uint8)
    image[0, 2:7, 3:6] = 200
    shifted = _shifted(name, image)[0, :, :, 0]
    self.assertEqual((np.sum(shifted.any(axis=1)), np.sum(shifted.any(axis=0))), (height, width))
    self.assertEqual((np.sum(shifted == 200), np.sum(shifted > 0)), (height * width,) * 2)

  def test_noise_has_its_size_and_stays_in_range(self):
    noise = _shifted("noisy", np.full((20, 20, 20, 1), 128, np.uint8)).astype(int) - 128
    # 8,000 draws, of which one in ten is cut off at 128 (1.6 standard deviations).
    self.assertBetween(np.abs(noise.mean()), 0, 4)
    self.assertBetween(noise.std(), 65, 80)
    for level in (0, 255):
      noisy = _shifted("noisy", np.full((5, 20, 20, 1), level, np.uint8))
      # Nothing wraps around: half of the pixels stay, none jumps to the other side.
      self.assertBetween(np.mean(noisy == level), 0.45, 0.55)

  def test_noise_follows_from_the_seed_and_the_image(self):
    images = _images(6)
    noisy = _shifted("noisy", images)
    np.testing.assert_array_equal(_shifted("noisy", images[::-1]), noisy[::-1])
    self.assertTrue(np.any(_shifted("noisy", images, seed=1) != noisy, axis=(1, 2, 3)).all())
    images = np.full((2, 12, 12, 1), 100, np.uint8)
    images[1, 0, 0] = 101
    first, second = _shifted("noisy", images).astype(int)
    self.assertLess(np.mean(np.abs(first - second) <= 1), 0.2)


class PartitionTest(absltest.TestCase):

  def _images_of(self, group, num_clients):
    split = partition.FeatureShift(num_groups=5)(_pool(), num_clients, seed=3)
    return np.concatenate([
        examples.features
        for client in split.clients
        if client.group == group
        for examples in (client.train, client.test)
    ])

  def test_clients_have_the_shift_of_their_group(self):
    whole = {image.tobytes() for image in _pool().pool.features}
    groups = [self._images_of(group, 10) for group in range(5)]
    self.assertContainsSubset({image.tobytes() for image in groups[0]}, whole)
    self.assertContainsSubset({image.tobytes() for image in 255 - groups[1]}, whole)
    means = [images.mean() / groups[0].mean() for images in groups]
    self.assertEqual([mean > 1.2 for mean in means], [False, True, True, False, True])
    self.assertLess(means[3], 0.8)

  def test_an_example_has_the_same_noise_whoever_has_it(self):
    # Ten clients and thirty: about a fifth of the noisy group's examples are the same.
    few, many = ({one.tobytes() for one in self._images_of(2, number)} for number in (10, 30))
    self.assertGreater(len(few & many), 6)

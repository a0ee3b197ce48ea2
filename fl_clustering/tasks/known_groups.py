"""Known groups of clients that differ in kind: each group transforms its examples.

A group's images are turned, its labels are permuted, or its images look different (a feature
shift): they are unchanged, have their contrast inverted, are noisy, or have thinner (eroded) or
thicker (dilated) strokes.  The shifts come in the order of their strength, so that few groups are
the clearest case and each further group is harder to tell apart: logistic regression that learned
the unchanged digits names .91 of the unchanged test digits, .01 of the inverted ones, .70 of the
noisy, .74 of the eroded and .82 of the dilated.

`rotations`, `label_permutations` and `feature_shifts` return a transformation per group: a function
from `Examples` to as many new ones.

References:
  Avishek Ghosh, Jichan Chung, Dong Yin, Kannan Ramchandran. An Efficient
  Framework for Clustered Federated Learning. NeurIPS 2020 (rotated images as
  known groups). https://arxiv.org/abs/2006.04088
  Jean Serra. Image Analysis and Mathematical Morphology. Academic Press, 1982 (erosion and
  dilation of grey images).
"""

import functools
import hashlib
import math
from typing import Callable

import numpy as np

from clustering_basics import validate
from fl_clustering.tasks import examples as examples_lib

Transformation = Callable[[examples_lib.Examples], examples_lib.Examples]

# Strokes of MNIST are two to four pixels wide: a larger window would rub thin ones out.
_WINDOW = (1, 2, 2, 1)
# Standard deviation; 255 lies between paper and ink.
_NOISE = 80


def _of_images(change: Callable[[np.ndarray], np.ndarray]) -> Transformation:
  return lambda examples: examples_lib.Examples(change(examples.features), examples.labels)


def rotations(
    pool: examples_lib.ImagePool, num_groups: int, unused_rng: np.random.Generator
) -> list[Transformation]:
  """Turns the images of group g by g * 90 degrees."""
  height, width = pool.pool.features.shape[1:3]
  if height != width:
    raise ValueError(
        "`partition` must not be 'rotated' where the images are not square, got images of "
        f"{height}x{width} from {pool.source}."
    )

  def turned(quarter_turns: int, images: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.rot90(images, quarter_turns, axes=(1, 2)))

  return [_of_images(functools.partial(turned, group)) for group in range(num_groups)]


def label_permutations(
    pool: examples_lib.ImagePool, num_groups: int, rng: np.random.Generator
) -> list[Transformation]:
  """Gives each group a permutation of the labels that no other has; group 0 keeps its labels."""
  num_classes = pool.num_classes
  if num_groups > math.factorial(num_classes):
    raise validate.error(
        "num_groups", f"be at most the permutations of {num_classes} labels", num_groups
    )
  permutations = [tuple(range(num_classes))]
  while len(permutations) < num_groups:
    permutation = tuple(map(int, rng.permutation(num_classes)))
    if permutation not in permutations:
      permutations.append(permutation)

  def relabeled(
      permutation: tuple[int, ...], examples: examples_lib.Examples
  ) -> examples_lib.Examples:
    return examples_lib.Examples(
        examples.features, np.array(permutation, np.uint8)[examples.labels]
    )

  return [functools.partial(relabeled, permutation) for permutation in permutations]


def _noisy(noise_key: bytes, images: np.ndarray) -> np.ndarray:
  """Adds noise to every pixel, and keeps the result within what a byte can hold.

  An image's noise follows from the image and the key, so it depends neither on the client
  that has the image nor on the images beside it.
  """
  noisy = np.empty_like(images)
  for place, image in enumerate(images):
    digest = hashlib.sha256(noise_key + image.tobytes()).digest()
    rng = np.random.default_rng(np.frombuffer(digest, np.uint32))
    noise = np.rint(_NOISE * rng.standard_normal(image.shape))
    noisy[place] = np.clip(image + noise, 0, 255)
  return noisy


def _filtered(name: str, images: np.ndarray) -> np.ndarray:
  # Here, since SciPy takes long to import: the flags read this module.
  from scipy import ndimage  # pylint: disable=g-import-not-at-top

  return getattr(ndimage, name)(images, size=_WINDOW)


# From a shift's name to a function from a key from which noise is drawn, and images, uint8 of
# shape (num_examples, height, width, channels), to as many images.
SHIFTS: dict[str, Callable[[bytes, np.ndarray], np.ndarray]] = {
    "unchanged": lambda _, images: images,
    "inverted": lambda _, images: 255 - images,
    "noisy": _noisy,
    "eroded": lambda _, images: _filtered("grey_erosion", images),
    "dilated": lambda _, images: _filtered("grey_dilation", images),
}


def feature_shifts(
    unused_pool: examples_lib.ImagePool | None, num_groups: int, rng: np.random.Generator
) -> list[Transformation]:
  """Gives group g the g-th of `SHIFTS`; there are no more groups than these."""
  noise_key = rng.bytes(16)
  shifts = list(SHIFTS.values())[:num_groups]
  return [_of_images(functools.partial(shift, noise_key)) for shift in shifts]

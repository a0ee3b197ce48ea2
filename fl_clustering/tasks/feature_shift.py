"""Known groups of clients whose images look different: the same digits, other features.

A group's images are unchanged, have their contrast inverted, are noisy, or have thinner
(eroded) or thicker (dilated) strokes.  Group 0's are unchanged.  The other shifts come in
the order of their strength, so that few groups are the clearest case and each further group
is harder to tell apart: logistic regression that learned the unchanged digits names .91 of
the unchanged test digits, .01 of the inverted ones, .70 of the noisy, .74 of the eroded and
.82 of the dilated.

References:
  Jean Serra. Image Analysis and Mathematical Morphology. Academic Press, 1982 (erosion and
  dilation of grey images).
"""

import functools
import hashlib

import numpy as np

from fl_clustering.tasks import federated_task

# Strokes of MNIST are two to four pixels wide: a larger window would rub thin ones out.
_WINDOW = (1, 2, 2, 1)
# Standard deviation; 255 lies between paper and ink.
_NOISE = 80


def _unchanged(images, noise_key):
  del noise_key
  return images


def _inverted(images, noise_key):
  del noise_key
  return 255 - images


def _noisy(images, noise_key):
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


def _eroded(images, noise_key):
  del noise_key
  # Here, since SciPy takes long to import: the flags read this module.
  from scipy import ndimage  # pylint: disable=g-import-not-at-top

  return ndimage.grey_erosion(images, size=_WINDOW)


def _dilated(images, noise_key):
  del noise_key
  from scipy import ndimage  # pylint: disable=g-import-not-at-top

  return ndimage.grey_dilation(images, size=_WINDOW)


# From a shift's name to a function from images, uint8 of shape (num_examples, height, width,
# channels), and a key of bytes from which noise is drawn, to as many images.
SHIFTS = {
    "unchanged": _unchanged,
    "inverted": _inverted,
    "noisy": _noisy,
    "eroded": _eroded,
    "dilated": _dilated,
}


def transformations(pool, num_groups, rng):
  """Returns a transformation per group: group g gets the g-th of `SHIFTS`.

  Args:
    pool: A `federated_task.ImagePool`, not used.
    num_groups: Number of groups, at most as many as there are `SHIFTS`.
    rng: A `np.random.Generator`, from which the noise follows.
  """
  del pool  # Any images can be shifted.
  noise_key = rng.bytes(16)
  return [
      functools.partial(_shift, shift, noise_key) for shift in list(SHIFTS.values())[:num_groups]
  ]


def _shift(shift, noise_key, examples):
  return federated_task.Examples(shift(examples.features, noise_key), examples.labels)

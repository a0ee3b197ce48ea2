"""Four views of a picture of a digit, each blind to something that another one sees."""

import numpy as np
from scipy import ndimage

_CELLS = 4
_ORIENTATIONS = 8
_LOWEST_FREQUENCIES = 8
# So that an empty picture stays one.
_LEAST_INK = 1e-12


def upright(images: np.ndarray) -> np.ndarray:
  """Returns the pictures with their ink in the middle and sheared so that it stands upright.

  Otherwise a view shows above all how a digit leans.  As in Yann LeCun, Leon Bottou,
  Yoshua Bengio, Patrick Haffner. Gradient-Based Learning Applied to Document
  Recognition. Proceedings of the IEEE, 1998, section III, every row is moved sideways.
  """
  rows, columns = np.indices(images.shape[1:])
  middle = (np.array(images.shape[1:]) - 1) / 2
  moved = []
  for picture in images:
    ink = max(picture.sum(), _LEAST_INK)
    center = np.array([(rows * picture).sum(), (columns * picture).sum()]) / ink
    down, right = rows - center[0], columns - center[1]
    lean = (down * right * picture).sum() / max((down**2 * picture).sum(), _LEAST_INK)
    shear = np.array([[1, 0], [lean, 1]])
    moved.append(
        ndimage.affine_transform(picture, shear, center - shear @ middle, order=1)
    )
  return np.array(moved)


def pixels(images: np.ndarray) -> np.ndarray:
  """Returns means over 2x2 pixels: what is where, but not how it joins."""
  count, height, width = images.shape
  return images.reshape(count, height // 2, 2, width // 2, 2).mean(axis=(2, 4)).reshape(count, -1)


def fourier(images: np.ndarray) -> np.ndarray:
  """Returns the magnitudes of the low frequencies: shape wherever in the picture it is.

  A real picture's frequency (-u, -v) has the magnitude of (u, v), so that one half of
  the plane is all there is.
  """
  magnitudes = np.abs(np.fft.rfft2(images))
  rows = np.r_[0:_LOWEST_FREQUENCIES, -_LOWEST_FREQUENCIES + 1:0]
  return magnitudes[:, rows][:, :, :_LOWEST_FREQUENCIES].reshape(len(images), -1)


def gradients(images: np.ndarray) -> np.ndarray:
  """Returns histograms of stroke directions in 4x4 cells, in the manner of HOG.

  Navneet Dalal, Bill Triggs. Histograms of Oriented Gradients for Human Detection. CVPR
  2005, section 6; without overlapping blocks.
  """
  vertical, horizontal = np.gradient(images, axis=(1, 2))
  strength = np.hypot(vertical, horizontal)
  # A stroke's two edges have opposite gradients and one direction.
  turn = np.mod(np.arctan2(vertical, horizontal), np.pi) / np.pi * _ORIENTATIONS
  direction = np.minimum(turn.astype(int), _ORIENTATIONS - 1)
  count, height, width = images.shape
  size = height // _CELLS, width // _CELLS
  histograms = [
      np.where(direction == index, strength, 0)
      .reshape(count, _CELLS, size[0], _CELLS, size[1])
      .sum(axis=(2, 4))
      for index in range(_ORIENTATIONS)
  ]
  cells = np.stack(histograms, axis=-1)
  # As in HOG, so that a thick stroke counts like a thin one.
  return np.sqrt(cells / (cells.sum(axis=(1, 2, 3), keepdims=True) + 1e-12)).reshape(count, -1)


def projections(images: np.ndarray) -> np.ndarray:
  """Returns the ink in every row, column and diagonal: profiles, not places."""
  height, width = images.shape[1:]
  offsets = range(-height + 1, width)
  diagonals = [
      [np.trace(picture, offset, axis1=1, axis2=2) for offset in offsets]
      for picture in (images, images[:, :, ::-1])
  ]
  return np.concatenate(
      [images.sum(axis=1), images.sum(axis=2), *(np.transpose(d) for d in diagonals)], axis=1
  )


DIGIT_VIEWS = {
    "pixels": pixels,
    "fourier": fourier,
    "gradients": gradients,
    "projections": projections,
}


def digit_views(images: np.ndarray) -> dict[str, np.ndarray]:
  """Returns the views by name, float64 of shape (n, d_h).

  Args:
    images: Of shape (n, height, width); height and width divisible by four.
  """
  images = upright(np.asarray(images, np.float64) / 255.0)
  return {name: view(images) for name, view in DIGIT_VIEWS.items()}

"""What a client's sketch is: what a linear probe learns of its data, in a few numbers.

The probe is softmax regression from zero, whatever the model, and its loss weighs all of the
client's labels alike.  So the sketch tells how features and labels go together, and little of how
often each label occurs.  Its rate fits features of size 1, so the client divides its own by their
root mean square.  A public random projection, which each engine draws its own way, makes the update
short, and its norm 1.
"""

import numpy as np

SIZE = 256
# Of the probe.
STEPS = 20
RATE = 0.05
# The output of a label that the client lacks.
FAR_BELOW = -1e9
PROJECTION_SEED = (20, 23)
# A shorter update has no direction.
LEAST_NORM = 1e-12


def unit(vectors: np.ndarray) -> np.ndarray:
  """Returns vectors (n, d) of norm 1, float64; zeros for one that is not finite or too short."""
  wide = np.where(np.isfinite(vectors).all(axis=1, keepdims=True), vectors, 0).astype(np.float64)
  norms = np.linalg.norm(wide, axis=1, keepdims=True)
  return np.where(norms > LEAST_NORM, wide / np.maximum(norms, LEAST_NORM), 0.0)

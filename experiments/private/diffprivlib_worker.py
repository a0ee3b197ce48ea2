"""IBM's k-means, run by a Python that has diffprivlib, which ours does not.

It imports nothing of this project.  It reads requests from its standard input and
answers on its standard output, one line of JSON each.  Where a line has the shape of an
array, its float64 values follow.  It ends when its input does.
"""

import json
import sys

import numpy as np


def _answer(document, array=None):
  if array is not None:
    document["shape"] = array.shape
  sys.stdout.buffer.write(json.dumps(document).encode() + b"\n")
  if array is not None:
    sys.stdout.buffer.write(np.ascontiguousarray(array, np.float64))
  sys.stdout.buffer.flush()


def _centers(points, k, epsilon, seed):
  from diffprivlib import models

  # The largest coordinate, as in the comparisons of the source; this is not private.
  bound = float(np.abs(points).max())
  model = models.KMeans(
      n_clusters=k, epsilon=epsilon, bounds=(-bound, bound), random_state=seed
  )
  return model.fit(points).cluster_centers_


def main():
  try:
    import diffprivlib
    import sklearn
  except ImportError as e:
    _answer({"error": str(e)})
    return
  _answer({"versions": {
      "diffprivlib": diffprivlib.__version__,
      "scikit-learn": sklearn.__version__,
      "numpy": np.__version__,
  }})
  points = None
  for line in sys.stdin.buffer:
    request = json.loads(line)
    shape = request.pop("shape", None)
    if shape is not None:
      values = sys.stdin.buffer.read(8 * shape[0] * shape[1])
      points = np.frombuffer(values).reshape(shape)
    _answer({}, _centers(points, **request))


if __name__ == "__main__":
  main()

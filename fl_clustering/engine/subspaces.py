"""The subspaces that the features of a client's examples of each label span.

Clients whose data are alike have subspaces at small principal angles (Vahidian et al., "Efficient
Distribution Similarity Identification in Clustered Federated Learning via Principal Angles Between
Client Data Subspaces", AAAI 2023).

What a client returns are directions of its raw data: the first of them looks like the label's mean
example.
"""

import numpy as np

from fl_clustering.tasks import examples as examples_lib

# Singular values below this part of the largest one count as zero.  They come from a Gram
# matrix in float64, whose rounding errors are about 1e-8 of the largest one.
LEAST_SINGULAR_VALUE = 1e-5


def left_singular_vectors(rows: np.ndarray, num_vectors: int) -> np.ndarray:
  """Returns the first left singular vectors of a matrix whose columns are these rows.

  Args:
    rows: float64 of shape (n, m), n >= 1.
    num_vectors: The most vectors to return.

  Returns:
    float64 of shape (m, r): the singular vectors in columns, the largest singular value first,
    each with its largest component positive.  r is at most the rank.
  """
  # The smaller of the two Gram matrices has the same non-zero eigenvalues.
  is_wide = len(rows) <= rows.shape[1]
  squares, found = np.linalg.eigh(rows @ rows.T if is_wide else rows.T @ rows)
  kept = np.flatnonzero(squares > LEAST_SINGULAR_VALUE**2 * squares[-1])[::-1][:num_vectors]
  vectors = rows.T @ found[:, kept] if is_wide else found[:, kept]
  vectors /= np.linalg.norm(vectors, axis=0)
  largest = np.argmax(np.abs(vectors), axis=0)
  return vectors * np.sign(vectors[largest, np.arange(len(kept))])


def of_client(examples: examples_lib.Examples, num_vectors: int) -> dict[int, np.ndarray]:
  """Returns a client's `left_singular_vectors` by label, float32 of shape (num_features, r).

  Args:
    examples: The client's; bytes count in [0, 1].
    num_vectors: The most vectors per label.
  """
  labels = examples.labels
  rows = examples.features.reshape(len(labels), -1).astype(np.float64)
  if examples.features.dtype == np.uint8:
    rows /= 255
  return {
      int(label): left_singular_vectors(rows[labels == label], num_vectors).astype(np.float32)
      for label in np.unique(labels)
  }

"""The mathematics of multi-view k-means with a rectified Gaussian kernel, by sums.

With x_i^h the point i in view h, a_k^h the center of cluster k there, v_h the view's
weight and beta_h its bandwidth, MVKM-ED minimises

  J = sum_h v_h^alpha sum_i (1 - exp(-beta_h ||x_i^h - a_k(i)^h||^2)),

where k(i) is the point's cluster, the same in all views.  One iteration assigns every
point to its cheapest cluster and moves every center to the mean of its points, in which
point i weighs w_i^h = exp(-beta_h ||x_i^h - a_k(i)^h||^2).  All of it needs sums over
the points only, so that a round over many clients is one iteration over all of their
points.  No view's cost rises in that step: 1 - exp(-beta d) is concave in d, and the
weighted mean minimises its tangent at the present distance.

Everything is in float64.  In float32, the order of a sum can decide to which of two
clusters a point between them belongs, and the centers then differ in the third digit; in
float64 that takes a tie in the fifteenth.

References:
  Kristina P. Sinaga. Rectified Gaussian Kernel Multi-View K-Means Clustering. 2024.
  https://arxiv.org/abs/2405.05619
  Miin-Shen Yang, Kristina P. Sinaga. Federated Multi-View K-Means Clustering. IEEE
  Transactions on Pattern Analysis and Machine Intelligence 47(4), 2025.
  https://doi.org/10.1109/TPAMI.2024.3520708
"""

import collections

import tensorflow as tf

from fl_clustering.points import distances


def _squared_distances(points, centers):
  """Returns the squared distances of shape (n, K) of n points to K centers."""
  return distances.squared_distances(points, centers[tf.newaxis])[:, 0]


def project(points, widths):
  """Returns points with every view's rows moved into the unit ball.

  Args:
    points: float64 of shape (n, D).
    widths: The views' numbers of columns.
  """
  return tf.concat(
      [tf.clip_by_norm(view, 1.0, axes=[1]) for view in tf.split(points, widths, axis=1)],
      axis=1,
  )


def assign(points, centers, betas, view_factors, widths):
  """Gives every point to the cluster in which it costs least over all views.

  Args:
    points: float64 of shape (n, D), the views beside one another.
    centers: float64 of shape (K, D), likewise.
    betas: float64 of shape (H,), the kernels' bandwidths.
    view_factors: float64 of shape (H,), the views' v_h^alpha.
    widths: The views' numbers of columns, which sum to D.

  Returns:
    The clusters, int64 of shape (n,), and every view's kernel values of shape (n, K).
  """
  kernels = [
      tf.exp(-betas[view] * _squared_distances(view_points, view_centers))
      for view, (view_points, view_centers) in enumerate(
          zip(tf.split(points, widths, axis=1), tf.split(centers, widths, axis=1))
      )
  ]
  costs = tf.add_n(
      [view_factors[view] * (1.0 - kernel) for view, kernel in enumerate(kernels)]
  )
  return tf.argmin(costs, axis=1), kernels


def kernel_sums(points, centers, betas, view_factors, widths):
  """Returns all that an iteration needs to know of the points.

  Args:
    points: float64 of shape (n, D), the views beside one another.
    centers: float64 of shape (K, D), likewise.
    betas: float64 of shape (H,), the kernels' bandwidths.
    view_factors: float64 of shape (H,), the views' v_h^alpha.
    widths: The views' numbers of columns, which sum to D.

  Returns:
    A dict of float64 sums over the points: `weighted_points` (K, D), each view's
    columns weighted by its kernel; `kernel_weights` (K, H), the sums of these weights;
    `view_costs` (H,); `counts` (K,).
  """
  clusters, kernels = assign(points, centers, betas, view_factors, widths)
  members = tf.one_hot(clusters, tf.shape(centers)[0], dtype=points.dtype)
  weighted_points, kernel_weights, view_costs = [], [], []
  for view_points, kernel in zip(tf.split(points, widths, axis=1), kernels):
    weights = members * kernel
    weighted_points.append(tf.matmul(weights, view_points, transpose_a=True))
    kernel_weights.append(tf.reduce_sum(weights, axis=0))
    view_costs.append(tf.reduce_sum(members - weights))
  return collections.OrderedDict(
      weighted_points=tf.concat(weighted_points, axis=1),
      kernel_weights=tf.stack(kernel_weights, axis=1),
      view_costs=tf.stack(view_costs),
      counts=tf.reduce_sum(members, axis=0),
  )


def kernel_sums_apart(points, centers, betas, unused_view_factors, widths):
  """Returns the sums for every view clustered alone, all at the same time.

  Args:
    points: float64 of shape (n, D), the views beside one another.
    centers: float64 of shape (K, D); center k is another cluster in every view.
    betas: float64 of shape (H,), the kernels' bandwidths.
    unused_view_factors: No view competes with another.
    widths: The views' numbers of columns, which sum to D.

  Returns:
    What `kernel_sums` does, but `counts` are of shape (K, H).
  """
  alone = tf.ones([1], points.dtype)
  by_view = [
      kernel_sums(view_points, view_centers, betas[view : view + 1], alone, (widths[view],))
      for view, (view_points, view_centers) in enumerate(
          zip(tf.split(points, widths, axis=1), tf.split(centers, widths, axis=1))
      )
  ]
  joined = lambda name: tf.concat([sums[name] for sums in by_view], axis=-1)
  return collections.OrderedDict(
      weighted_points=joined("weighted_points"),
      kernel_weights=joined("kernel_weights"),
      view_costs=joined("view_costs"),
      counts=tf.stack([sums["counts"] for sums in by_view], axis=1),
  )


def projected_sums(points, centers, betas, view_factors, widths):
  """Returns `kernel_sums` of projected points, as float32.

  One point changes them by `multiview_config.sensitivity` at most, in L2 norm.

  Args:
    points: float64 of shape (n, D), in units of the views' norms.
    centers: float64 of shape (K, D), in the same units.
    betas: float64 of shape (H,), the kernels' bandwidths.
    view_factors: float64 of shape (H,), the views' v_h^alpha.
    widths: The views' numbers of columns, which sum to D.
  """
  sums = kernel_sums(project(points, widths), centers, betas, view_factors, widths)
  # TFF's noisy aggregator takes nothing but float32.
  return collections.OrderedDict((name, tf.cast(s, tf.float32)) for name, s in sums.items())

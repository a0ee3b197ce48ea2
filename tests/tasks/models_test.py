import functools

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import tensorflow as tf

from fl_clustering.tasks import models


def _keras_cnn_small():
  return tf.keras.Sequential([
      tf.keras.layers.Conv2D(16, 3, activation="relu"),
      tf.keras.layers.MaxPool2D(),
      tf.keras.layers.Conv2D(32, 3, activation="relu"),
      tf.keras.layers.MaxPool2D(),
      tf.keras.layers.Flatten(),
      tf.keras.layers.Dense(64, activation="relu"),
      tf.keras.layers.Dense(10),
  ])


def _keras_mlp():
  return tf.keras.Sequential([
      tf.keras.layers.Flatten(),
      tf.keras.layers.Dense(200, activation="relu"),
      tf.keras.layers.Dense(10),
  ])


def _keras_logistic():
  return tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)])


def _keras_cnn():
  return tf.keras.Sequential([
      tf.keras.layers.Conv2D(32, 3, activation="relu"),
      tf.keras.layers.Conv2D(64, 3, activation="relu"),
      tf.keras.layers.MaxPool2D(),
      tf.keras.layers.Dropout(0.25),
      tf.keras.layers.Flatten(),
      tf.keras.layers.Dense(128, activation="relu"),
      tf.keras.layers.Dropout(0.5),
      tf.keras.layers.Dense(10),
  ])


class ModelsTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("cnn_small", _keras_cnn_small, 56_714),
      ("cnn", _keras_cnn, 1_199_882),
      ("mlp", _keras_mlp, 159_010),
      ("logistic", _keras_logistic, 7_850),
  )
  def test_is_the_keras_model_on_the_same_weights(self, build_keras, num_parameters):
    rng = np.random.default_rng(0)
    model = models.build(self._testMethodName.rpartition("weights_")[2], (28, 28, 1), 10)
    self.assertEqual(model.num_parameters, num_parameters)
    parameters = model.initial_parameters(rng)
    # Biases that are not zero, so that a forgotten one shows.
    parameters = [p + rng.normal(0, 0.1, p.shape).astype(np.float32) for p in parameters]
    images = rng.random((5, 28, 28, 1), np.float32)
    keras_model = build_keras()
    keras_model.build((None, 28, 28, 1))
    keras_model.set_weights(parameters)
    np.testing.assert_allclose(
        model.logits(parameters, images), keras_model(images, training=False), atol=1e-4
    )

  def test_initial_kernels_are_glorot_uniform(self):
    model = models.build("cnn", (28, 28, 1), 10)
    values = dict(zip(model.parameter_shapes, model.initial_parameters(np.random.default_rng(0))))
    for name, fan_in, fan_out in (
        ("conv_2/kernel", 9 * 32, 9 * 64),
        ("dense_1/kernel", 9216, 128),
    ):
      limit = np.sqrt(6 / (fan_in + fan_out))
      self.assertLessEqual(np.abs(values[name]).max(), limit)
      # The standard deviation of a uniform variable on [-limit, limit].
      self.assertAlmostEqual(values[name].std() / (limit / np.sqrt(3)), 1, delta=0.02)
    self.assertFalse(values["dense_2/bias"].any())

  def test_dropout_masks_are_independent_of_each_other(self):
    # A network of which nothing is left but its two masks: after the second one,
    # logit i is hidden unit i.  Layer 0 has 64 units, layer 1 has 128.
    model = models.build("cnn", (6, 6, 1), 128)
    image = np.zeros((1, 6, 6, 1), np.float32)

    def logits(step, **changed):
      values = {name: np.zeros(shape, np.float32) for name, shape in model.parameter_shapes.items()}
      values["dense_2/kernel"] = np.eye(128, dtype=np.float32)
      values.update({name.replace("__", "/"): value for name, value in changed.items()})
      return model.logits(list(values.values()), image, tf.constant([7, step]))[0].numpy()

    steps = range(60)
    second = np.array([logits(step, dense_1__bias=np.ones(128, "f")) for step in steps])
    self.assertContainsSubset(second.ravel(), (0, 2))
    self.assertAlmostEqual(np.mean(second > 0), 0.5, delta=0.03)
    both = np.array([
        logits(step, conv_2__bias=np.ones(64, "f"), dense_1__kernel=np.eye(64, 128, dtype="f"))
        for step in steps
    ])[:, :64]
    np.testing.assert_allclose(both.max(), 2 / 0.75, rtol=1e-6)
    # The first mask shows where the second one keeps, and loses a quarter there;
    # also where the second one kept in the step before, as a caller may count
    # its seeds up.
    shown = second[:, :64] > 0
    lost = both == 0
    self.assertAlmostEqual(np.mean(lost[shown]), 0.25, delta=0.04)
    self.assertAlmostEqual(np.mean(lost[1:][shown[1:] & shown[:-1]]), 0.25, delta=0.05)

  @parameterized.parameters(("cnn_small", 10), ("cnn", 6))
  def test_smallest_image(self, name, size):
    build = functools.partial(models.build, name)
    model = build((size, size, 3), 4)
    parameters = model.initial_parameters(np.random.default_rng(0))
    self.assertEqual(model.logits(parameters, np.zeros((2, size, size, 3), "f")).shape, (2, 4))
    for too_small in ((size - 1, size, 1), (size, size - 1, 1), (size, size, 0)):
      with self.assertRaisesRegex(ValueError, f"`input_shape` .*{size}x{size}x1 .*{name}, got"):
        build(too_small, 4)

  @parameterized.parameters(*models.MODELS)
  def test_refuses_a_single_class(self, name):
    with self.assertRaisesRegex(ValueError, "`num_classes` must be an integer >= 2, got 1"):
      models.build(name, (28, 28, 1), 1)

  @parameterized.parameters("cnn", "cnn_small")
  def test_networks_for_images_refuse_the_rest(self, name):
    for shape, dtype in (((13,), "float32"), ((28, 28), "uint8"), ((28, 28, 1), "int32")):
      message = f"`model` must be .*mlp.* for features of shape .* {dtype}, got '{name}'"
      with self.assertRaisesRegex(ValueError, message):
        models.build(name, shape, 3, dtype)

  def test_hidden_units(self):
    shapes = models.build("mlp", (5, 2), 3, "float32", hidden_units="7, 4").parameter_shapes
    self.assertEqual(list(shapes.values()), [(10, 7), (7,), (7, 4), (4,), (4, 3), (3,)])
    for wrong in ("", "0", "3,,4", "-2", "1.5", "many", "100001"):
      with self.assertRaisesRegex(ValueError, f"`hidden_units` must be .*, got '{wrong}'"):
        models.choose("mlp", hidden_units=wrong)
    with self.assertRaisesRegex(ValueError, "`hidden_units` must be left out unless .*mlp"):
      models.choose("cnn", hidden_units="3")

  def test_integers_count_as_numbers(self):
    model = models.build("mlp", (3,), 2, "int32")
    parameters = model.initial_parameters(np.random.default_rng(0))
    inputs = np.array([[1, 0, 7]], np.int32)
    np.testing.assert_array_equal(
        model.logits(parameters, inputs), model.logits(parameters, inputs.astype(np.float32))
    )


if __name__ == "__main__":
  absltest.main()

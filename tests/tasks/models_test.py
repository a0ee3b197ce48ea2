from unittest import mock

from absl.testing import parameterized
import numpy as np
import tensorflow as tf

from fl_clustering.tasks import models
from fl_clustering.tasks import networks

_layers = tf.keras.layers
# From a model's name to its layers in Keras.
_KERAS = {
    "cnn_small": lambda: [
        _layers.Conv2D(16, 3, activation="relu"), _layers.MaxPool2D(),
        _layers.Conv2D(32, 3, activation="relu"), _layers.MaxPool2D(), _layers.Flatten(),
        _layers.Dense(64, activation="relu"), _layers.Dense(10),
    ],
    "cnn": lambda: [
        _layers.Conv2D(32, 3, activation="relu"), _layers.Conv2D(64, 3, activation="relu"),
        _layers.MaxPool2D(), _layers.Dropout(0.25), _layers.Flatten(),
        _layers.Dense(128, activation="relu"), _layers.Dropout(0.5), _layers.Dense(10),
    ],
    "mlp": lambda: [_layers.Flatten(), _layers.Dense(200, activation="relu"), _layers.Dense(10)],
    "logistic": lambda: [_layers.Flatten(), _layers.Dense(10)],
}


class ModelsTest(parameterized.TestCase):

  @parameterized.parameters(*models.MODELS)
  def test_is_the_keras_model_on_the_same_weights(self, name):
    rng = np.random.default_rng(0)
    model = models.build(name, (28, 28, 1), 10)
    # Biases that are not zero, so that a forgotten one shows.
    parameters = [
        p + rng.normal(0, 0.1, p.shape).astype(np.float32) for p in model.initial_parameters(rng)
    ]
    images = rng.random((5, 28, 28, 1), np.float32)
    keras_model = tf.keras.Sequential(_KERAS[name]())
    keras_model.build((None, 28, 28, 1))
    self.assertEqual(model.num_parameters, keras_model.count_params())
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
    model = models.build(name, (size, size, 3), 4)
    parameters = model.initial_parameters(np.random.default_rng(0))
    self.assertEqual(model.logits(parameters, np.zeros((2, size, size, 3), "f")).shape, (2, 4))
    for too_small in ((size - 1, size, 1), (size, size - 1, 1), (size, size, 0)):
      with self.assertRaisesRegex(ValueError, "^`input_shape`"):
        models.build(name, too_small, 4)

  @parameterized.parameters(*models.MODELS)
  def test_refuses_a_single_class(self, name):
    with self.assertRaisesRegex(ValueError, "^`num_classes`"):
      models.build(name, (28, 28, 1), 1)

  def test_hidden_units(self):
    shapes = models.build("mlp", (5, 2), 3, "float32", hidden_units="7, 4").parameter_shapes
    self.assertEqual(list(shapes.values()), [(10, 7), (7,), (7, 4), (4,), (4, 3), (3,)])
    wrong = ("", "0", "3,,4", "-2", "1.5", "many", "100001")
    for name, hidden_units in (("cnn", "3"), *(("mlp", value) for value in wrong)):
      with self.assertRaisesRegex(ValueError, "^`hidden_units`"):
        models.choose(name, hidden_units=hidden_units)

  def test_a_model_has_the_name_by_which_it_is_found(self):

    class Mine(networks.Mlp):

      def __call__(self, input_shape, num_classes, input_dtype):
        return models.build("logistic", input_shape, num_classes, input_dtype)

    with mock.patch.dict(models.MODELS, {"mine": Mine}):
      self.assertEqual(models.build("mine", (4,), 2, "float32").name, "mine")

  def test_integers_count_as_numbers(self):
    model = models.build("mlp", (3,), 2, "int32")
    parameters = model.initial_parameters(np.random.default_rng(0))
    inputs = np.array([[1, 0, 7]], np.int32)
    np.testing.assert_array_equal(
        model.logits(parameters, inputs), model.logits(parameters, inputs.astype(np.float32))
    )

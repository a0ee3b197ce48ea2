"""What holds for every model, every partition and every data set."""

import functools
import os
import shutil
import tempfile
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import tensorflow as tf

from fl_clustering import options as options_lib
from fl_clustering.engine import objectives
from fl_clustering.tables import label_scale
from fl_clustering.tables import table_options
from fl_clustering.tasks import digits
from fl_clustering.tasks import emnist
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import keras_model
from fl_clustering.tasks import models
from fl_clustering.tasks import partition
from fl_clustering.tasks import registry
from tests.tasks import data_files

_NUM_CLASSES = 7
_OF_NUMBERS = "_of_numbers"

# Examples' shape and type.
_INPUTS = {
    "images": ((14, 14, 1), "uint8"),
    "float_images": ((14, 14, 1), "float32"),
    "table": ((20,), "float32"),
    "series": ((10, 2), "float32"),
    "counts": ((20,), "int32"),
}


def _keras_table():
  layers = tf.keras.layers
  return tf.keras.Sequential([
      layers.Input((20,)), layers.Dense(16, "relu"), layers.LayerNormalization(),
      layers.Dropout(0.3), layers.Dense(_NUM_CLASSES),
  ])


def _keras_images():
  layers = tf.keras.layers
  return tf.keras.Sequential([
      layers.Input((14, 14, 1)), layers.Conv2D(8, 3, activation="relu"),
      layers.GroupNormalization(4), layers.MaxPool2D(), layers.Flatten(),
      layers.Dense(_NUM_CLASSES),
  ])


def _keras_tokens():
  layers = tf.keras.layers
  return tf.keras.Sequential([
      layers.Input((20,), dtype=tf.int32), layers.Embedding(10, 8), layers.Flatten(),
      layers.Dense(_NUM_CLASSES),
  ])


# From a name to a function that returns the model.
_MODELS = {
    f"{model}_{inputs}{ending}": functools.partial(
        models.build, model, shape, num_classes, dtype, scale
    )
    for task, ending, num_classes, scale in (
        (table_options.CLASSIFICATION, "", _NUM_CLASSES, None),
        (table_options.REGRESSION, _OF_NUMBERS, 1, label_scale.LabelScale(50, 3)),
    )
    for model, row in models.MODELS.items()
    for inputs, (shape, dtype) in _INPUTS.items()
    if row.takes(shape, dtype) and task in row.learns
} | {
    build.__name__.lstrip("_"): functools.partial(
        keras_model.keras_model, build, build.__name__.lstrip("_")
    )
    for build in (_keras_table, _keras_images, _keras_tokens)
}


def _labels(model, num_examples):
  """Returns classes, or as many numbers of mean zero and about variance one."""
  labels = np.arange(num_examples) % _NUM_CLASSES
  return labels if model.label_scale is None else ((labels - 3) / 2).astype(np.float32)


@parameterized.named_parameters(*((name, name) for name in _MODELS))
class ModelContractTest(parameterized.TestCase):

  def _build(self, name):
    self._rng = np.random.default_rng(0)
    model = _MODELS[name]()
    return model, model.initial_parameters(self._rng)

  def _inputs(self, model, num_examples):
    shape = (num_examples, *model.input_shape)
    if model.input_dtype == "int32":
      return self._rng.integers(10, size=shape, dtype=np.int32)
    return self._rng.random(shape, np.float32)

  def test_describes_itself(self, name):
    model, parameters = self._build(name)
    self.assertStartsWith(name, model.name)
    self.assertEqual(model.num_classes, 1 if name.endswith(_OF_NUMBERS) else _NUM_CLASSES)
    if "keras" not in name:
      shape, dtype = _INPUTS[name.removeprefix(f"{model.name}_").removesuffix(_OF_NUMBERS)]
      self.assertEqual((model.input_shape, model.input_dtype), (shape, dtype))
    self.assertEqual([p.shape for p in parameters], list(model.parameter_shapes.values()))
    self.assertEqual({p.dtype for p in parameters}, {np.dtype(np.float32)})
    self.assertEqual(model.num_parameters, sum(p.size for p in parameters))

  def test_names_its_last_layer(self, name):
    model, parameters = self._build(name)
    self.assertLen(model.head, 2)
    without = [
        np.zeros_like(p) if one in model.head else p
        for one, p in zip(model.parameter_shapes, parameters, strict=True)
    ]
    # A bias of zero at first would hide that it is missing.
    bias = [np.ones_like(p) if p.ndim == 1 else p for p in without]
    inputs = self._inputs(model, 3)
    self.assertFalse(np.any(model.logits(without, inputs, None)))
    self.assertTrue(np.all(np.asarray(model.logits(bias, inputs, None)) == 1))

  def test_initial_parameters_follow_the_generator(self, name):
    model, parameters = self._build(name)
    for same, first in zip(model.initial_parameters(np.random.default_rng(0)), parameters):
      np.testing.assert_array_equal(same, first)
    other = model.initial_parameters(np.random.default_rng(1))
    self.assertFalse(np.array_equal(other[0], parameters[0]))

  def test_logits_of_an_example_do_not_depend_on_its_batch(self, name):
    model, parameters = self._build(name)
    inputs = self._inputs(model, 5)
    logits = model.logits(parameters, inputs, None)
    self.assertEqual(logits.shape, (5, model.num_classes))
    np.testing.assert_allclose(model.logits(parameters, inputs[2:3], None), logits[2:3], atol=1e-5)

  def test_only_a_seed_makes_dropout(self, name):
    model, parameters = self._build(name)
    inputs = self._inputs(model, 5)
    evaluated = model.logits(parameters, inputs, None).numpy()
    np.testing.assert_array_equal(model.logits(parameters, inputs, None), evaluated)
    first, same, other = (
        model.logits(parameters, inputs, tf.constant([1, seed])).numpy() for seed in (2, 2, 3)
    )
    np.testing.assert_array_equal(same, first)
    self.assertEqual(not np.array_equal(first, evaluated), model.uses_dropout)
    self.assertEqual(not np.array_equal(first, other), model.uses_dropout)

  def test_every_parameter_has_a_finite_gradient(self, name):
    model, parameters = self._build(name)
    inputs, labels = self._inputs(model, 32), _labels(model, 32)
    variables = [tf.constant(p) for p in parameters]
    with tf.GradientTape() as tape:
      tape.watch(variables)
      logits = model.logits(variables, inputs, tf.constant([1, 2]))
      loss = tf.reduce_mean(objectives.of(model).losses(labels, logits))
    for parameter_name, gradient in zip(model.parameter_shapes, tape.gradient(loss, variables)):
      gradient = tf.convert_to_tensor(gradient)
      self.assertTrue(np.all(np.isfinite(gradient)), parameter_name)
      self.assertTrue(np.any(gradient != 0), parameter_name)

  def test_runs_in_a_graph_with_a_batch_of_any_size(self, name):
    model, parameters = self._build(name)
    inputs, seed = self._inputs(model, 4), tf.constant([3, 4])
    logits = tf.function(
        model.logits,
        input_signature=[
            [tf.TensorSpec(shape, tf.float32) for shape in model.parameter_shapes.values()],
            tf.TensorSpec((None, *model.input_shape), inputs.dtype),
            tf.TensorSpec((2,), tf.int32),
        ],
    )
    parameters = [tf.constant(p) for p in parameters]
    np.testing.assert_allclose(
        logits(parameters, inputs, seed), model.logits(parameters, inputs, seed), atol=1e-5
    )
    for compute in (logits, model.logits):
      self.assertEqual(compute(parameters, inputs[:0], seed).shape, (0, model.num_classes))

  def test_learns(self, name):
    model, parameters = self._build(name)
    labels, places = _labels(model, 28), np.arange(28) % _NUM_CLASSES
    # A class is a bright row, or a column that is one; it takes a model that uses its input
    # to see that.
    dtype = np.int32 if model.input_dtype == "int32" else np.float32
    inputs = np.zeros((28, *model.input_shape), dtype)
    inputs.reshape(28, model.input_shape[0], -1)[np.arange(28), places] = 1

    @tf.function
    def step(parameters):
      with tf.GradientTape() as tape:
        tape.watch(parameters)
        loss = tf.reduce_mean(
            objectives.of(model).losses(labels, model.logits(parameters, inputs, None))
        )
      gradients = map(tf.convert_to_tensor, tape.gradient(loss, parameters))
      return [p - 0.3 * g for p, g in zip(parameters, gradients)]

    parameters = [tf.constant(p) for p in parameters]
    for _ in range(100):
      parameters = step(parameters)
    outputs = np.asarray(model.logits(parameters, inputs, None))
    if model.label_scale is not None:
      np.testing.assert_allclose(outputs[:, 0], labels, atol=0.5)
    else:
      np.testing.assert_array_equal(np.argmax(outputs, axis=1), labels)


class ModelRowsTest(parameterized.TestCase):

  @parameterized.parameters(*models.MODELS)
  def test_takes_what_it_says_it_takes(self, name):
    for shape, dtype in _INPUTS.values():
      classes = table_options.CLASSIFICATION in models.MODELS[name].learns
      kind = (_NUM_CLASSES, dtype) if classes else (1, dtype, label_scale.LabelScale(0, 1))
      if models.MODELS[name].takes(shape, dtype):
        self.assertEqual(models.build(name, shape, *kind).input_shape, shape)
      else:
        with self.assertRaisesRegex(ValueError, rf"`model` must be mlp .*, got '{name}'"):
          models.build(name, shape, *kind)

  @parameterized.parameters(*models.MODELS)
  def test_learns_what_it_says_it_learns(self, name):
    kinds = {
        table_options.CLASSIFICATION: (_NUM_CLASSES, "float32"),
        table_options.REGRESSION: (1, "float32", label_scale.LabelScale(0, 1)),
    }
    for task in kinds.keys() - set(models.MODELS[name].learns):
      with self.assertRaisesRegex(ValueError, f"`model` must be .* for a {task}, got '{name}'"):
        models.build(name, (14, 14, 1), *kinds[task])

  @parameterized.parameters(*models.MODELS)
  def test_documents_its_options(self, name):
    row = models.MODELS[name]
    self.assertRegex(row.about, r"^\w.*\w$")
    for option in options_lib.of(row):
      self.assertIn(f"{option}: ", row.__doc__)


_BLOCK = 5  # Pixels.
_BITS = 16


def _numbered_pool(num_examples=1500, num_test=300):
  """Returns images that say their number in all four corners, whichever way up.

  A bit is a block of 5x5 pixels, so that it is still there if the image is noisy, or if its
  bright parts grew or shrank by a pixel.  The highest bit is always bright, which shows
  whether bright and dark were exchanged.
  """
  numbers = np.arange(num_examples + num_test)
  bits = (numbers | 1 << _BITS - 1)[:, np.newaxis] >> np.arange(_BITS) & 1
  corners = np.kron(bits.reshape(-1, 4, 4), np.full((_BLOCK, _BLOCK), 255)).astype(np.uint8)
  side = corners.shape[1]
  images = np.zeros((len(numbers), 2 * side, 2 * side, 1), np.uint8)
  for turn in range(4):
    np.rot90(images, turn, axes=(1, 2))[:, :side, :side, 0] = corners
  everything = examples_lib.Examples(images, (numbers % 10).astype(np.uint8))
  return examples_lib.ImagePool(
      name="numbered",
      source="made up",
      pool=everything.take(slice(num_examples)),
      global_test=everything.take(slice(num_examples, None)),
      global_test_source="made up",
      num_classes=10,
  )


def _numbers(examples):
  side = 4 * _BLOCK
  blocks = examples.features[:, :side, :side, 0].reshape(-1, 4, _BLOCK, 4, _BLOCK)
  # Without the blocks' edges, which their neighbours may have reached.
  bits = blocks[:, :, 1:-1, :, 1:-1].mean(axis=(2, 4)).reshape(-1, _BITS) > 127
  bits ^= ~bits[:, -1:]
  return bits[:, :-1] @ (1 << np.arange(_BITS - 1))


@parameterized.named_parameters(*((name, name) for name in partition.PARTITIONS))
class PartitionContractTest(parameterized.TestCase):

  _pool = _numbered_pool()

  def _split(self, name, seed=0, num_clients=30, **options):
    return partition.split(name, self._pool, num_clients, seed, **options)

  def _client_numbers(self, split):
    return [
        np.concatenate([_numbers(client.train), _numbers(client.test)]).tolist()
        for client in split.clients
    ]

  def _options(self, name):
    """Returns a value for every option that the partition takes."""
    values = {"dirichlet_alpha": 3.0, "num_groups": 3}
    return {option: values[option] for option in options_lib.of(partition.PARTITIONS[name])}

  def test_every_example_is_one_clients(self, name):
    for options in ({}, self._options(name)):
      numbers = sum(self._client_numbers(self._split(name, **options)), [])
      self.assertCountEqual(numbers, range(len(self._pool.pool)))

  def test_every_client_has_training_and_test_data(self, name):
    split = self._split(name)
    for client in split.clients:
      num_examples = len(client.train) + len(client.test)
      self.assertGreaterEqual(num_examples, 2)
      self.assertBetween(len(client.train), 1, num_examples - 1)
      self.assertAlmostEqual(len(client.test), max(1, 0.2 * num_examples), delta=0.51)

  def test_as_few_examples_as_there_may_be(self, name):
    pool = _numbered_pool(num_examples=60)
    if name == "dirichlet":
      # Of two examples a client the draw leaves too many with none or one.
      with self.assertRaisesRegex(ValueError, "`num_clients` .*larger `dirichlet_alpha`"):
        partition.split(name, pool, 30, seed=0)
      return
    split = partition.split(name, pool, 30, seed=0)
    self.assertEqual({len(c.train) + len(c.test) for c in split.clients}, {2})

  def test_refuses_more_clients_than_it_has_data_for(self, name):
    with self.assertRaisesRegex(ValueError, "`num_clients` must be at most 750, .*1500.*got 751"):
      self._split(name, num_clients=751)

  def test_ids_sort_as_they_stand(self, name):
    ids = [client.client_id for client in self._split(name).clients]
    self.assertLen(set(ids), 30)
    self.assertEqual(ids, sorted(ids))

  def test_is_a_function_of_the_seed(self, name):
    options = self._options(name)
    first = self._client_numbers(self._split(name, seed=1, **options))
    self.assertEqual(self._client_numbers(self._split(name, seed=1, **options)), first)
    self.assertNotEqual(self._client_numbers(self._split(name, seed=2, **options)), first)

  def test_leaves_the_pool_as_it_is(self, name):
    pool = _numbered_pool()
    split = partition.split(name, pool, 30, seed=0)
    for client in split.clients:
      client.train.features[:], client.train.labels[:] = 0, 0
    np.testing.assert_array_equal(pool.pool.features, self._pool.pool.features)
    np.testing.assert_array_equal(pool.pool.labels, self._pool.pool.labels)
    np.testing.assert_array_equal(pool.global_test.features, self._pool.global_test.features)

  def test_global_test_set_holds_the_pools(self, name):
    split = self._split(name)
    np.testing.assert_array_equal(_numbers(split.global_test), _numbers(self._pool.global_test))

  def test_groups_are_known_or_not(self, name):
    groups = {client.group for client in self._split(name).clients}
    if "num_groups" in options_lib.of(partition.PARTITIONS[name]):
      self.assertEqual(groups, {0, 1, 2, 3})
    else:
      self.assertEqual(groups, {None})

  def test_uses_the_options_it_takes_and_refuses_the_others(self, name):
    plain = self._client_numbers(self._split(name))
    groups = [client.group for client in self._split(name).clients]
    for option, value in (("dirichlet_alpha", 3.0), ("num_groups", 3)):
      if option not in options_lib.of(partition.PARTITIONS[name]):
        with self.assertRaisesRegex(ValueError, f"`{option}` must be left out .*got {value}"):
          self._split(name, **{option: value})
        continue
      split = self._split(name, **{option: value})
      if option == "num_groups":
        self.assertNotEqual([client.group for client in split.clients], groups)
      else:
        self.assertNotEqual(self._client_numbers(split), plain)


class DatasetContractTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    # Parsed once: the package's file takes seconds.
    cls._digits = digits.load()
    root = tempfile.mkdtemp(dir=absltest.get_default_test_tmpdir())
    cls.addClassCleanup(shutil.rmtree, root)
    cls._options = {
        "auto": {"data_dir": os.path.join(root, "empty")},
        "digits": {},
        "emnist": {"data_dir": os.path.join(root, "emnist")},
        "idx": {"data_dir": os.path.join(root, "idx")},
        "files": {
            "data_dir": os.path.join(root, "files"),
            "tables": table_options.TableOptions(label_column="y"),
        },
    }
    for name in ("auto", "emnist", "idx", "files"):
      os.mkdir(cls._options[name]["data_dir"])
    data_files.write_emnist_file(cls._options["emnist"]["data_dir"], data_files.writer_examples())
    data_files.write_idx_files(
        cls._options["idx"]["data_dir"], data_files.idx_arrays(num_train=400, num_test=50)
    )
    for i in range(5):
      rows = "".join(f"{row},{row * i % 7},{row % 3}\n" for row in range(20))
      with open(os.path.join(root, "files", f"{i}.csv"), "w", encoding="utf-8") as file:
        file.write(f"a,b,y\n{rows}")

  def setUp(self):
    super().setUp()
    # A port where nobody answers: no test depends on the network.
    self.enter_context(mock.patch.object(emnist, "URL", "http://127.0.0.1:9/emnist.lzma"))
    self.enter_context(mock.patch.object(digits, "load", return_value=self._digits))

  @parameterized.parameters(*registry.DATASETS)
  def test_makes_a_task(self, name):
    def load(**options):
      return registry.load_task(
          dataset=name, num_clients=5, **self._options[name], **{"seed": 1, **options}
      )

    task = load()
    self.assertLen(task.clients, 5)
    self.assertIn(task.name, registry.DATASETS)
    self.assertIn(task.partition, registry.PARTITION_NAMES)
    self.assertEqual(task.model.name, registry.DATASETS[name].default_model)
    self.assertEqual(task.model.input_shape, (2,) if name == "files" else (28, 28, 1))
    for text in (task.source, task.global_test_source, *task.warnings):
      self.assertRegex(text, r"^\S.*\S$")
    self.assertEqual(task.fallback_reason is not None, name == "auto")
    self.assertEqual(load().fingerprint(), task.fingerprint())
    self.assertNotEqual(load(seed=2).fingerprint(), task.fingerprint())
    other = "logistic" if name == "files" else "cnn"
    self.assertEqual(load(model=other).model.name, other)

  @parameterized.product(dataset=list(registry.DATASETS), partition_name=registry.PARTITION_NAMES)
  def test_takes_the_partitions_that_its_check_lets_pass(self, dataset, partition_name):
    options = {"dataset": dataset, "partition": partition_name}
    try:
      registry.check_options(**options)
    except ValueError as error:
      self.assertRegex(str(error), "^`partition` must ")
      return
    if dataset == "auto" and partition_name == registry.NATURAL:
      # Natural is EMNIST's, and that is not to be had here.
      with self.assertRaises(emnist.EmnistUnavailable):
        registry.load_task(num_clients=5, **self._options[dataset], **options)
      return
    task = registry.load_task(num_clients=5, **self._options[dataset], **options)
    self.assertEqual(task.partition, partition_name)


if __name__ == "__main__":
  absltest.main()

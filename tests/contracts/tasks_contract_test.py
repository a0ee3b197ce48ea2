"""What holds for every model, every partition and every data set."""

import contextlib
import functools
import os
import tempfile
from unittest import mock

from absl.testing import parameterized
import numpy as np
import tensorflow as tf

from clustering_basics import options as options_lib
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tasks import digits
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import keras_model
from fl_clustering.tasks import models
from fl_clustering.tasks import partition
from fl_clustering.tasks import registry
from tests.contracts import toy_rows
from tests.tasks import data_files

_NUM_CLASSES = 7

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
    f"{model}_{inputs}": functools.partial(models.build, model, shape, _NUM_CLASSES, dtype)
    for model, row in models.MODELS.items()
    for inputs, (shape, dtype) in _INPUTS.items()
    # Models compute with floats, whichever type images have.
    if row.takes(shape, dtype) and inputs != "float_images"
} | {
    build.__name__.lstrip("_"): functools.partial(
        keras_model.keras_model, build, build.__name__.lstrip("_")
    )
    for build in (_keras_table, _keras_images, _keras_tokens)
}


@functools.cache
def _built(name):
  """Returns a model and the parameters that it starts from with seed 0."""
  model = _MODELS[name]()
  return model, model.initial_parameters(np.random.default_rng(0))


@parameterized.named_parameters(*((name, name) for name in _MODELS))
class ModelContractTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self._rng = np.random.default_rng(1)

  def _inputs(self, model, num_examples):
    shape = (num_examples, *model.input_shape)
    if model.input_dtype == "int32":
      return self._rng.integers(10, size=shape, dtype=np.int32)
    return self._rng.random(shape, np.float32)

  def test_describes_itself(self, name):
    model, parameters = _built(name)
    self.assertStartsWith(name, model.name)
    self.assertEqual(model.num_classes, _NUM_CLASSES)
    if "keras" not in name:
      shape, dtype = _INPUTS[name.removeprefix(f"{model.name}_")]
      self.assertEqual((model.input_shape, model.input_dtype), (shape, dtype))
    self.assertEqual([p.shape for p in parameters], list(model.parameter_shapes.values()))
    self.assertEqual({p.dtype for p in parameters}, {np.dtype(np.float32)})
    self.assertEqual(model.num_parameters, sum(p.size for p in parameters))

  def test_names_its_last_layer(self, name):
    model, parameters = _built(name)
    self.assertNotEmpty(model.head)
    inputs = self._inputs(model, 3)

    def logits(ones):
      """Returns those where the last layer is zero but for some parameters, which are ones."""
      return model.logits([
          np.ones_like(p) if one in ones else np.zeros_like(p) if one in model.head else p
          for one, p in zip(model.parameter_shapes, parameters, strict=True)
      ], inputs, None)

    # A bias of zero at first would hide that it is missing.
    biases = {one for one, shape in model.parameter_shapes.items() if len(shape) == 1}
    self.assertFalse(np.any(logits(biases - set(model.head))))
    for one in model.head:
      self.assertTrue(np.any(logits({one})), one)

  def test_initial_parameters_follow_the_generator(self, name):
    model, parameters = _built(name)
    for same, first in zip(model.initial_parameters(np.random.default_rng(0)), parameters):
      np.testing.assert_array_equal(same, first)
    other = model.initial_parameters(np.random.default_rng(1))
    self.assertFalse(np.array_equal(other[0], parameters[0]))

  def test_logits_of_an_example_do_not_depend_on_its_batch(self, name):
    model, parameters = _built(name)
    inputs = self._inputs(model, 5)
    logits = model.logits(parameters, inputs, None)
    self.assertEqual(logits.shape, (5, model.num_classes))
    np.testing.assert_allclose(model.logits(parameters, inputs[2:3], None), logits[2:3], atol=1e-5)

  def test_only_a_seed_makes_dropout(self, name):
    model, parameters = _built(name)
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
    model, parameters = _built(name)
    inputs, labels = self._inputs(model, 32), np.arange(32) % _NUM_CLASSES
    variables = [tf.constant(p) for p in parameters]
    with tf.GradientTape() as tape:
      tape.watch(variables)
      logits = model.logits(variables, inputs, tf.constant([1, 2]))
      loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    for parameter_name, gradient in zip(model.parameter_shapes, tape.gradient(loss, variables)):
      gradient = tf.convert_to_tensor(gradient)
      self.assertTrue(np.all(np.isfinite(gradient)), parameter_name)
      self.assertTrue(np.any(gradient != 0), parameter_name)

  def test_runs_in_a_graph_with_a_batch_of_any_size(self, name):
    model, parameters = _built(name)
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
    model, parameters = _built(name)
    labels = np.arange(28) % _NUM_CLASSES
    # A class is a bright row, or a column that is one; it takes a model that uses its input
    # to see that.
    dtype = np.int32 if model.input_dtype == "int32" else np.float32
    inputs = np.zeros((28, *model.input_shape), dtype)
    inputs.reshape(28, model.input_shape[0], -1)[np.arange(28), labels] = 1

    @tf.function
    def step(parameters):
      with tf.GradientTape() as tape:
        tape.watch(parameters)
        logits = model.logits(parameters, inputs, None)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
      gradients = map(tf.convert_to_tensor, tape.gradient(loss, parameters))
      return [p - 0.3 * g for p, g in zip(parameters, gradients)]

    parameters = [tf.constant(p) for p in parameters]
    for _ in range(100):
      parameters = step(parameters)
    logits = model.logits(parameters, inputs, None)
    np.testing.assert_array_equal(np.argmax(logits, axis=1), labels)


class ModelRowsTest(parameterized.TestCase):

  @parameterized.parameters(*models.MODELS)
  def test_takes_what_it_says_it_takes(self, name):
    for shape, dtype in _INPUTS.values():
      if models.MODELS[name].takes(shape, dtype):
        self.assertEqual(models.build(name, shape, _NUM_CLASSES, dtype).input_shape, shape)
      else:
        with self.assertRaisesRegex(ValueError, "^`model`"):
          models.build(name, shape, _NUM_CLASSES, dtype)

  @parameterized.parameters(*models.MODELS)
  def test_documents_its_options(self, name):
    row = models.MODELS[name]
    self.assertRegex(row.about, r"^\w.*\w$")
    for option in options_lib.of(row):
      self.assertIn(f"{option}: ", row.__doc__)


def _make_pools(num_examples=1500, num_test=300):
  """Returns pools of the same labels whose images say, together, an example's number.

  In the first, all images are the same.  In each other, those whose number has a bit of its own
  are another.  So a number can still be read when a partition has changed the images, in whatever
  way, as long as who gets which example follows from the labels.
  """
  numbers = np.arange(num_examples + num_test)
  # Squares in turns, so that the two differ wherever one looks.
  squares = np.indices((4, 4)).sum(axis=0) % 2
  grey = np.kron(squares, np.full((3, 3), 255)).astype(np.uint8)
  one = np.stack([grey, grey, 255 - grey], axis=-1)
  other = 255 - one
  pools = []
  for bit in (0, *(1 << np.arange(int(numbers[-1]).bit_length()))):
    is_set = (numbers & bit).astype(bool)
    images = np.where(is_set[:, np.newaxis, np.newaxis, np.newaxis], other, one)
    everything = examples_lib.Examples(images, (numbers % 10).astype(np.uint8))
    pools.append(data_files.pool_of(everything, num_examples))
  return pools


_pools = functools.cache(_make_pools)


def _split(name, pool, num_clients=30, seed=0, **options):
  return partition.choose(name, num_clients, **options)(pool, num_clients, seed)


@functools.cache
def _splits(name, seed, **options):
  """Returns the same split of every pool."""
  return [_split(name, pool, seed=seed, **options) for pool in _pools()]


def _numbers(same, *others):
  """Returns the numbers of examples, as they come from each of the pools."""
  bits = [np.any(other.features != same.features, axis=(1, 2, 3)) for other in others]
  return (1 << np.arange(len(bits))) @ np.array(bits, int)


def _other_value(row, option):
  """Returns a value that an option can have beside its default; None if it has but one."""
  for value in option.values or {int: (3, 2), float: (3.0, 0.3), bool: (True, False)}[option.kind]:
    if value != option.default:
      with contextlib.suppress(ValueError):
        row(**{option.name: value})
        return value
  return None


@parameterized.named_parameters(*((name, name) for name in toy_rows.PARTITIONS))
class PartitionContractTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.enter_context(toy_rows.registered())

  def _client_numbers(self, splits):
    return [
        np.concatenate([
            _numbers(*(client.train for client in same)),
            _numbers(*(client.test for client in same)),
        ]).tolist()
        for same in zip(*(split.clients for split in splits), strict=True)
    ]

  def _options(self, name):
    """Returns another value than the default for every option that can have one.

    Clients that draw their images share out no pool.
    """
    row = partition.PARTITIONS[name]
    values = {option.name: _other_value(row, option) for option in options_lib.of(row).values()}
    return {
        option: value for option, value in values.items()
        if value is not None and option != "examples_per_client"
    }

  def test_every_example_is_one_clients_for_training_or_for_testing(self, name):
    for options in ({}, self._options(name)):
      splits = _splits(name, 0, **options)
      numbers = sum(self._client_numbers(splits), [])
      self.assertCountEqual(numbers, range(len(_pools()[0].pool)))
      for client in splits[0].clients:
        num_examples = len(client.train) + len(client.test)
        self.assertGreaterEqual(num_examples, 2)
        self.assertBetween(len(client.train), 1, num_examples - 1)
        self.assertAlmostEqual(len(client.test), max(1, 0.2 * num_examples), delta=0.51)
    # The global test set holds the pool's.
    numbers = _numbers(*(split.global_test for split in splits))
    self.assertEqual(numbers.tolist(), list(range(1500, 1800)))

  def test_as_few_examples_as_there_may_be(self, name):
    pool = _make_pools(num_examples=60)[0]
    try:
      split = _split(name, pool)
    except ValueError:
      # Of two examples a client, a skewed draw may leave too many with none or one.
      self.assertIsNotNone(partition.PARTITIONS[name]().dirichlet_alpha)
    else:
      self.assertEqual({len(c.train) + len(c.test) for c in split.clients}, {2})

  def test_refuses_more_clients_than_it_has_data_for(self, name):
    with self.assertRaisesRegex(ValueError, "^`num_clients`"):
      _split(name, _pools()[0], num_clients=751)

  def test_ids_sort_as_they_stand(self, name):
    ids = [client.client_id for client in _split(name, _pools()[0]).clients]
    self.assertLen(set(ids), 30)
    self.assertEqual(ids, sorted(ids))

  def test_is_a_function_of_the_seed(self, name):
    def content(seed):
      split = _split(name, _pools()[0], seed=seed, **self._options(name))
      return [(c.train.features.tobytes(), c.train.labels.tobytes()) for c in split.clients]

    self.assertEqual(content(0), content(0))
    self.assertNotEqual(content(2), content(0))

  def test_leaves_the_pool_as_it_is(self, name):
    pool, same = _make_pools()[1], _pools()[1]
    split = _split(name, pool)
    for client in split.clients:
      client.train.features[:], client.train.labels[:] = 0, 0
    np.testing.assert_array_equal(pool.pool.features, same.pool.features)
    np.testing.assert_array_equal(pool.pool.labels, same.pool.labels)
    np.testing.assert_array_equal(pool.global_test.features, same.global_test.features)

  def test_groups_are_known_or_not(self, name):
    for options in ({}, self._options(name)):
      num_groups = getattr(partition.PARTITIONS[name](**options), "num_groups", None)
      self.assertEqual(
          {client.group for client in _split(name, _pools()[0], **options).clients},
          {None} if num_groups is None else set(range(num_groups)),
      )

  def test_uses_the_options_it_takes_and_refuses_the_others(self, name):
    def made(**options):
      clients = _split(name, _pools()[0], **options).clients
      content = [(c.group, c.train.features.tobytes(), c.train.labels.tobytes()) for c in clients]
      return content, self._client_numbers(_splits(name, 0, **options))

    plain = made()
    for option, value in self._options(name).items():
      self.assertNotEqual(made(**{option: value}), plain, option)
    for option in partition.OPTIONS.keys() - options_lib.of(partition.PARTITIONS[name]).keys():
      with self.assertRaisesRegex(ValueError, f"^`{option}`"):
        _split(name, _pools()[0], **{option: 3})


class DatasetContractTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    # Parsed once: the package's file takes seconds.
    cls._digits = digits.load()
    root = cls.enterClassContext(tempfile.TemporaryDirectory())
    # Of those that read a folder.
    cls._options = {
        "emnist": {"data_dir": os.path.join(root, "emnist")},
        "idx": {"data_dir": os.path.join(root, "idx")},
        "npz": {"data_dir": os.path.join(root, "npz")},
        "files": {
            "data_dir": os.path.join(root, "files"),
            "schema": schema_lib.strict(("a", "b", "y"), label="y"),
        },
    }
    for options in cls._options.values():
      os.mkdir(options["data_dir"])
    data_files.write_emnist_file(cls._options["emnist"]["data_dir"], data_files.writer_examples())
    data_files.write_idx_files(
        cls._options["idx"]["data_dir"], data_files.idx_arrays(num_train=400, num_test=50)
    )
    np.savez(
        os.path.join(cls._options["npz"]["data_dir"], "photos.npz"), **data_files.photo_arrays()
    )
    cls._options["npz"]["data_dir"] += "/photos.npz"
    for i in range(5):
      rows = "".join(f"{row},{row * i % 7},{row % 3}\n" for row in range(20))
      with open(os.path.join(root, "files", f"{i}.csv"), "w", encoding="utf-8") as file:
        file.write(f"a,b,y\n{rows}")

  def setUp(self):
    super().setUp()
    self.enter_context(data_files.no_network())
    self.enter_context(mock.patch.object(digits, "load", return_value=self._digits))
    self.enter_context(toy_rows.registered())

  def _load(self, dataset, **options):
    given = {"num_clients": 5, **self._options.get(dataset, {}), **options}
    data_dir = given.pop("data_dir", None)
    return registry.load_task(registry.TaskOptions(dataset=dataset, **given), data_dir)

  @parameterized.parameters(*toy_rows.DATASETS)
  def test_makes_a_task(self, name):
    load = functools.partial(self._load, name, seed=1)

    task = load()
    self.assertLen(task.clients, 5)
    self.assertIn(task.partition, toy_rows.PARTITION_NAMES)
    self.assertEqual(task.model.name, registry.DATASETS[name].default_model)
    shape = task.clients[0].train.feature_shape
    self.assertEqual(task.model.input_shape, shape)
    for text in (task.source, task.global_test_source, *task.warnings):
      self.assertRegex(text, r"^\S.*\S$")
    self.assertEqual(task.name, name)
    self.assertEqual(load().fingerprint(), task.fingerprint())
    self.assertNotEqual(load(seed=2).fingerprint(), task.fingerprint())
    # Not a small network of convolutions in place of another: images may be too small.
    *_, other = (
        model for model, row in models.MODELS.items()
        if model != task.model.name and row.takes(shape, task.model.input_dtype)
    )
    self.assertEqual(load(model=other).model.name, other)

  @parameterized.parameters(*toy_rows.DATASETS)
  def test_takes_a_folder_or_refuses_it(self, name):
    if name not in self._options:
      with self.assertRaisesRegex(ValueError, "^`data_dir`"):
        self._load(name, data_dir="/x")

  @parameterized.parameters(*toy_rows.DATASETS)
  def test_draws_images_where_clients_must_be_made(self, name):
    load = functools.partial(self._load, name, partition="permuted_labels", examples_per_client=3)
    if registry.DATASETS[name].own_clients is None:
      self.assertEqual({len(client.train) for client in load().clients}, {3})
    else:
      with self.assertRaisesRegex(ValueError, "`(partition|examples_per_client)`"):
        load()

  @parameterized.product(dataset=list(toy_rows.DATASETS), partition_name=toy_rows.PARTITION_NAMES)
  def test_takes_the_partitions_that_its_check_lets_pass(self, dataset, partition_name):
    options = {"dataset": dataset, "partition": partition_name}
    try:
      registry.TaskOptions(**options)
    except ValueError as error:
      self.assertRegex(str(error), "^`partition` must ")
      return
    task = self._load(**options)
    self.assertEqual(task.partition, partition_name)

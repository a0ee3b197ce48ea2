import dataclasses

from absl.testing import absltest
import numpy as np

from bench.contest import job as job_lib
from tests.bench import sample_job


class JobTest(absltest.TestCase):

  def test_is_the_same_after_writing_and_reading(self):
    _, job = sample_job.small_job()
    folder = self.create_tempdir().full_path
    job.write(folder)

    read = job_lib.read(folder)

    for field in dataclasses.fields(job):
      np.testing.assert_array_equal(getattr(read, field.name), getattr(job, field.name))

  def test_a_round_orders_each_clients_own_examples(self):
    task, job = sample_job.small_job()
    client = task.clients[2]

    images, labels = job.examples(2, 1)

    order = job.order(2, 1)
    self.assertCountEqual(order, range(len(client.train)))
    np.testing.assert_array_equal(labels, client.train.labels[order])
    np.testing.assert_allclose(images, client.train.features[order] / 255, atol=1e-7)
    self.assertFalse(np.array_equal(order, job.order(2, 2)))

  def test_parameters_have_the_models_shapes_and_are_flat_again(self):
    _, job = sample_job.small_job()

    parameters = job.parameters(job.vector)

    self.assertEqual(
        [p.shape for p in parameters], list(job.model().parameter_shapes.values())
    )
    np.testing.assert_array_equal(job_lib.flat(parameters), job.vector)

  def test_some_clients_take_part_in_a_round(self):
    _, job = sample_job.small_job(rounds=6, clients_per_round=2)

    rounds = [tuple(job.clients_of(number)) for number in range(1, 7)]

    self.assertEqual({len(set(clients)) for clients in rounds}, {2})
    self.assertGreater(len(set(rounds)), 1)
    self.assertEqual(job.num_rounds, 6)


if __name__ == "__main__":
  absltest.main()

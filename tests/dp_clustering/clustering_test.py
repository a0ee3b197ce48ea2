import subprocess
import sys

from absl.testing import absltest

from dp_clustering import clustering
from dp_clustering import clustering_algorithm


class ModuleTest(absltest.TestCase):

  def test_alias(self):
    for name in (
        "ClusteringMetrics", "ClusteringResult", "private_clustering",
        "private_lsh_clustering",
    ):
      self.assertIs(getattr(clustering_algorithm, name), getattr(clustering, name))

  def test_estimator_is_found_here(self):
    self.assertEqual(clustering.PrivateKMeans.__name__, "PrivateKMeans")
    with self.assertRaisesRegex(AttributeError, "no attribute 'PrivateKMedians'"):
      clustering.PrivateKMedians  # pylint: disable=pointless-statement

  def test_import_is_light(self):
    code = (
        "import sys; from dp_clustering import clustering; "
        "print([m for m in ('tensorflow', 'tensorflow_federated', 'sklearn', "
        "'dp_accounting') if m in sys.modules])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    ).stdout
    self.assertEqual(printed, "[]\n")


if __name__ == "__main__":
  absltest.main()

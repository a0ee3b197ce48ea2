"""Whether pyproject.toml, which pip and uv read, agrees with the lock that Bazel reads."""

import ast
import re

from absl.testing import absltest

from clustering_basics import extras


def _names(requirements):
  """Returns the names of packages, without versions and comments."""
  lines = (re.split("[#=<>~ ]", line.strip())[0] for line in requirements)
  return {line for line in lines if line}


def _read(name):
  with open(name, encoding="utf-8") as file:
    return file.read()


def _list(key):
  """Returns a list of text in pyproject.toml, which is written as in Python."""
  found = re.search(rf"^{key} = (\[.*?^\])", _read("pyproject.toml"), re.M | re.S)
  return ast.literal_eval(found[1])


class PackagingTest(absltest.TestCase):

  def test_knows_the_modules_of_the_extra(self):
    modules = {name.replace("-", "_") for name in _names(_list("federated"))}
    self.assertEqual(set(extras.FEDERATED), modules - {"grpcio"} | {"grpc"})

  def test_offers_every_direct_requirement(self):
    locked = _names(_read("requirements.in").splitlines())
    offered = [_names(_list(name)) for name in ("dependencies", "federated", "notebooks", "cluster")]
    self.assertEqual(set.union(*offered), locked)

  def test_private_clustering_needs_no_tensorflow(self):
    without = [name for name in _list("dependencies") if "tensor" in name or "jax" in name]
    self.assertEmpty(without)

  def test_same_pins(self):
    locked = _read("requirements.in").splitlines()
    pinned = [name for name in _list("federated") if "==" in name]
    self.assertNotEmpty(pinned)
    self.assertContainsSubset(pinned, locked)

  def test_same_version(self):
    version = re.search(r'^version = "(.*)"$', _read("pyproject.toml"), re.M)[1]
    self.assertIn(f"\nversion: {version}\n", _read("CITATION.cff"))
    heading = rf"(?m)^## {re.escape(version)} - \d{{4}}-\d\d-\d\d$"
    self.assertRegex(_read("docs/CHANGELOG.md"), heading)

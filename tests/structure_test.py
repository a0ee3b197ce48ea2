"""Who imports whom: no circle of folders, and TensorFlow Federated and JAX in their rooms only."""

import ast
import collections
import glob
import graphlib
import os

from absl.testing import parameterized

# From the top.  `bench` is imported by none, and `dp_clustering/demo` is a program.
_PROGRAMS = ("bench", "tools", "experiments", "dp_clustering/demo")
_LIBRARIES = ("fl_clustering", "dp_clustering", "clustering_basics")
_SHELL = "experiment_shell"
# Where a change of a library's interface can be felt: folders, and files beside them.
_ROOMS = {
    "tensorflow_federated": (
        ("bench/", "fl_clustering/engine/tff/", "fl_clustering/runtime/"),
        {"fl_clustering/tasks/emnist.py"},
    ),
    "jax": (("bench/", "fl_clustering/engine/jax/"), {"fl_clustering/tasks/own_model.py"}),
}


def _imported(node):
  """Returns the names that a node of a syntax tree imports: modules, or what is in them."""
  if isinstance(node, ast.Import):
    return [alias.name for alias in node.names]
  if isinstance(node, ast.ImportFrom):
    return [f"{node.module}.{alias.name}" for alias in node.names]
  if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "LazyModule":
    return [node.args[0].value]
  return []


def _imports():
  """Returns the names that every file imports, by path, wherever in the file it does."""
  found = {}
  for package in ("bench", "tools", "experiments", *_LIBRARIES, _SHELL):
    for path in glob.glob(f"{package}/**/*.py", recursive=True):
      with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
      found[path] = [name for node in ast.walk(tree) for name in _imported(node)]
  return found


def _folder(name):
  """Returns the folder of a module, or of one with something in it; None if it is not ours."""
  path = name.replace(".", "/")
  for module in (path, os.path.dirname(path)):
    if os.path.isfile(f"{module}.py"):
      return os.path.dirname(module)
    if os.path.isfile(f"{module}/__init__.py"):
      return module
  return None


def _package(folder):
  """Returns which of the packages a folder is in."""
  packages = (*_PROGRAMS, *_LIBRARIES, _SHELL)
  return next(name for name in packages if f"{folder}/".startswith(f"{name}/"))


class StructureTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.imports = _imports()
    cls.folders = collections.defaultdict(set)
    for path, names in cls.imports.items():
      folder = os.path.dirname(path)
      cls.folders[folder] |= {_folder(name) for name in names} - {None, folder}

  def test_there_is_no_circle_of_folders(self):
    self.assertIn("fl_clustering/points", self.folders["fl_clustering/kmeans"])
    graphlib.TopologicalSorter(self.folders).prepare()

  def test_packages_import_those_below(self):
    for folder, imported in self.folders.items():
      own = _package(folder)
      if own in _PROGRAMS:
        allowed = {own, *_PROGRAMS[_PROGRAMS.index(own) + 1:], *_LIBRARIES, _SHELL}
      elif own == _SHELL:
        allowed = {own, "clustering_basics"}
      else:
        allowed = {own, *_LIBRARIES[_LIBRARIES.index(own) + 1:]}
      self.assertContainsSubset(set(map(_package, imported)), allowed, folder)

  def test_programs_are_imported_by_none_in_their_folders(self):
    for folder, imported in self.folders.items():
      if folder.startswith("experiments/"):
        self.assertNotIn("experiments", imported, folder)

  @parameterized.parameters(*_ROOMS)
  def test_a_library_is_known_in_its_rooms_only(self, library):
    folders, files = _ROOMS[library]
    knowing = {
        path for path, names in self.imports.items()
        if any(name.split(".")[0] == library for name in names)
    }
    self.assertEqual({path for path in knowing if not path.startswith(folders)}, files)

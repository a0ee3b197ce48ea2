"""What works without the extra `federated`, on any system: in the project's environment, and in
the venv of `tools:check_wheel`, where this file is all that there is beside the wheel."""

import contextlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from absl.testing import absltest
from absl.testing import parameterized

from clustering_basics import extras
from fl_clustering.engine import engines
from fl_clustering.kmeans import kmeans_config
from fl_clustering.methods import registry as method_registry
from fl_clustering.tables import schema as schema_lib

# By day tools:check_wheel tests it, with the wheel alone; what needs JAX is tested by night.
_is_elsewhere = absltest.skipUnless(
    importlib.util.find_spec("tests") is None or os.environ.get("NIGHTLY") == "1",
    "runs in the wheel's environment, or with --config=nightly",
)
_PACKAGES = (
    "clustering_basics", "dp_clustering", "experiment_shell", "experiments", "fl_clustering",
)
# What only some systems have.
_NOT_EVERYWHERE = ("fcntl", "grp", "pwd", "resource", "termios")
# Python runs a module of this name first.  The packages that have branches of their own for other
# systems are imported before those are blocked.
_SITE = f"""
import importlib.machinery, os, sys
import joblib, matplotlib, pandas, psutil, pyarrow.parquet, sklearn.cluster
import pty, subprocess, tempfile, webbrowser
class Finder(importlib.machinery.PathFinder):

  @classmethod
  def find_spec(cls, name, path=None, target=None):
    if name.partition(".")[0] not in {extras.FEDERATED}:
      return super().find_spec(name, path, target)

sys.meta_path = [f for f in sys.meta_path if f is not importlib.machinery.PathFinder] + [Finder]
for name in {_NOT_EVERYWHERE}:
  sys.modules[name] = None  # So its import fails.
if hasattr(os, "sched_getaffinity"):
  del os.sched_getaffinity
"""
# Forks a process for every line, which has imported that already: a program, or lines of Python.
_RUN = """
import json, os, runpy, sys
for line in sys.stdin:
  folder, *sys.argv = json.loads(line)
  pid = os.fork()
  if not pid:
    os.environ["BUILD_WORKING_DIRECTORY"] = folder
    os.chdir(folder)
    for fd, name in ((1, "stdout"), (2, "stderr")):
      os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), fd)
    if len(sys.argv) == 1:
      exec(sys.argv[0], {"__name__": "__main__"})
    else:
      runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    sys.exit()
  print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
_IMPORT_ALL = f"""
import importlib, pkgutil
from absl import flags
for top in {_PACKAGES}:
  package = importlib.import_module(top)
  for module in pkgutil.walk_packages(package.__path__, top + "."):
    try:
      importlib.import_module(module.name)
    except flags.DuplicateFlagError:
      pass  # No two programs run in one process.
    except ModuleNotFoundError as e:
      # TFF's worker and sites are for Linux.  Without a name, it is raised on purpose.
      known = {(*extras.FEDERATED, 'jax')}
      if any(one in module.name for one in (".runtime.", ".site", ".at_sites", ".federation")):
        known += {(*_NOT_EVERYWHERE, 'nvflare')}
      if e.name and e.name.partition(".")[0] not in known:
        print(module.name, e)
"""
_FITS = """
import numpy as np
from dp_clustering import private_kmeans
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans.estimator import FederatedKMeans
from fl_clustering.multiview.estimator import FederatedMultiViewKMeans

rng = np.random.default_rng(0)
places = rng.integers(2, size=(4, 50, 1))
clients = [rng.normal(6 * own, size=(50, 2)) for own in places]
found = FederatedKMeans(2, random_state=0).fit(clients)
print(np.sort(found.cluster_centers_[:, 0]).round().astype(int))
views = [[own, own + 1] for own in clients]
print(FederatedMultiViewKMeans(2, random_state=0).fit(views).n_clusters)
private = private_kmeans.PrivateKMeans(2, 8.0, delta=1e-6, radius=12.0)
print(private.fit(np.concatenate(clients)).cluster_centers_.shape)
for algorithm in kmeans_config.ALGORITHMS:
  print(algorithm, FederatedKMeans(2, algorithm).fit(clients).cluster_centers_.shape)
"""
# A program that locks files, as some systems can't.
_LOCKING = """
import runpy, sys
del sys.modules["fcntl"]
sys.argv = {}
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
# Three sites by function calls, and with NVFlare their kits.
_SITES = """
import importlib.machinery, importlib.util, sys
for name in [name for name, module in sys.modules.items() if module is None]:
  del sys.modules[name]  # Sites are for Linux.
sys.meta_path.append(importlib.machinery.PathFinder)  # NVFlare and TFF need some packages alike.
import numpy as np
from fl_clustering.kmeans import FederatedKMeans, kmeans_config
from fl_clustering.sites import (
    coordinator, federation, identity, nvflare_kit, site, site_ledger)

rng = np.random.default_rng(0)
keys = {name: identity.Identity.create(name) for name in ("east", "north", "south")}
agreed = federation.Federation({
    "format": 1, "name": "trial", "schema": "0" * 64, "widths": [2], "exact": True,
    "sites": {name: key.public.hex() for name, key in keys.items()}})
rows = {name: rng.normal(size=(50, 2)) for name in keys}
sites = {
    name: site.Site(key, agreed, {name: rows[name]}, site_ledger.SiteLedger.create(name))
    for name, key in keys.items()}
operator = coordinator.Coordinator(
    agreed, lambda sent: {name: sites[name].handle(message) for name, message in sent.items()})
fit = coordinator.fit_kmeans(kmeans_config.KMeansConfig(2), operator)
print(np.array_equal(fit.centroids, FederatedKMeans(2).fit(rows).cluster_centers_))
has_nvflare = importlib.util.find_spec("nvflare") is not None
print(len(nvflare_kit.provision(keys, "localhost", 8002, "kits")) if has_nvflare else 3)
"""


@_is_elsewhere
class LightInstallTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    stack = contextlib.ExitStack()
    cls.addClassCleanup(stack.close)
    site = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
    (site / "sitecustomize.py").write_text(_SITE, encoding="utf-8")
    path = os.pathsep.join([str(site), *filter(None, map(os.path.abspath, sys.path))])
    cls._process = stack.enter_context(subprocess.Popen(
        [sys.executable, "-c", _RUN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        # One that Matplotlib makes itself would be removed by the first process that ends.
        env={**os.environ, "PYTHONPATH": path, "MPLCONFIGDIR": str(site)},
    ))

  def setUp(self):
    super().setUp()
    self.folder = pathlib.Path(self.create_tempdir().full_path)

  def _run(self, *arguments, code=0):
    """Returns what a program, or lines of Python, print to standard output and error."""
    print(json.dumps([str(self.folder), *arguments]), file=self._process.stdin, flush=True)
    found = self._process.stdout.readline()
    printed = [(self.folder / name).read_text(encoding="utf-8") for name in ("stdout", "stderr")]
    self.assertEqual(found, f"{code}\n", printed[1])
    return printed

  def test_imports_nothing_that_only_some_systems_have_and_estimators_fit(self):
    said = self._run(_IMPORT_ALL + _FITS)[0].splitlines()
    self.assertEqual(said[:3], ["[0 6]", "2", "(2, 2)"])  # None is missing.
    self.assertEqual(said[3:], [f"{algorithm} (2, 2)" for algorithm in kmeans_config.ALGORITHMS])

  def _write_clients(self, folder, file):
    for client in range(3):
      rows = "".join(f"{i % 2 * 9 + client / 9},{i % 7}\n" for i in range(30))
      path = self.folder / folder / file.format(client)
      path.parent.mkdir(parents=True, exist_ok=True)
      path.write_text(f"a,b\n{rows}", encoding="utf-8")

  @parameterized.named_parameters(
      ("rows", "{}.csv"), ("views", "{}/x.csv", "{}/y.csv"),
  )
  def test_clusters_tables_and_predicts(self, *files):
    for file in files:
      self._write_clients("data", file)
    self._run(
        "experiments.cluster_tables", "--data_dir=data", "--num_clusters=2", "--output_dir=out"
    )
    self._run("experiments.predict", "--run=out", "--data_dir=data", "--output=predicted.csv")
    self.assertTrue((self.folder / "out" / "report.html").exists())
    self.assertLen((self.folder / "predicted.csv").read_text(encoding="utf-8").splitlines(), 91)

  def test_papers_of_federated_kmeans(self):
    self._run(
        "experiments.federated_kmeans", "--figures=regular", "--num_seeds=1", "--output_dir=out"
    )
    self.assertTrue((self.folder / "out" / "report.html").exists())

  def test_benchmark_of_private_methods(self):
    self._run(
        "experiments.dp_benchmark", "--datasets=sklearn_digits", "--methods=sklearn,refine",
        "--k_to_try=4", "--epsilon_to_try=", "--runs=1", "--output_dir=out",
    )
    self.assertTrue((self.folder / "out" / "report.html").exists())

  @absltest.skipUnless(engines.is_installed(engines.JAX), "JAX is an extra")
  def test_three_phases_without_tensorflow_take_the_other_engine(self):
    self._write_clients("data", "{}.csv")
    printed = self._run(
        "experiments.three_phase_emnist", "--dataset=files", "--data_dir=data",
        "--label_column=b", "--model=logistic", "--num_clusters=2",
        f"--methods={','.join(method_registry.METHODS)}", "--personal=ditto,apfl,mr_mtl",
        "--pretrain_rounds=1", "--cluster_rounds=1", "--control_repeats=0", "--output_dir=out",
    )[0]
    self.assertStartsWith(printed, "engine: jax")
    self.assertRegex(printed, "K-means  +2 ")
    self.assertTrue((self.folder / "out" / "report.html").exists())
    self._run("experiments.predict", "--run=out", "--data_dir=data", "--output=predicted.csv")
    self.assertLen((self.folder / "predicted.csv").read_text(encoding="utf-8").splitlines(), 91)

  @absltest.skipUnless(engines.is_installed(engines.JAX), "JAX is an extra")
  def test_private_clusters_without_tensorflow(self):
    self._write_clients("data", "{}.csv")
    schema_lib.Schema(
        (
            schema_lib.Field("a", center=4.5, scale=4.5),
            schema_lib.Field("b", "string", enum=tuple(map(str, range(7)))),
        ),
        label="b",
    ).write(str(self.folder / "schema.json"))
    arguments = [
        "experiments.private_clusters", "--dataset=files", "--data_dir=data",
        "--schema=schema.json", "--num_clusters=2", "--clients_per_round=2", "--rounds=2",
        "--delta=0.3", "--output_dir=out",
    ]
    self.assertIn("`output_dir` must", self._run(*arguments, code=2)[1])
    self._run(_LOCKING.format(arguments))
    released = self.folder / "out" / "released"
    before = {path.name: path.read_bytes() for path in released.iterdir() if path.is_file()}
    self.assertContainsSubset(("ledger.csv", "models.npz", "report.html"), before)
    settings = json.loads((released / "config.json").read_text(encoding="utf-8"))["config"]
    self.assertEqual((settings["engine"], settings["simulation"]), ("jax", False))
    (self.folder / "out" / "report.html").unlink()
    for name in before:
      (released / name).unlink()
    self._run(_LOCKING.format([*arguments, "--resume"]))
    self.assertEqual({name: (released / name).read_bytes() for name in before}, before)

  @absltest.skipUnless(engines.is_installed(engines.JAX), "JAX is an extra")
  def test_devices_that_are_not_there_are_one_line_and_no_folder(self):
    self._write_clients("data", "{}.csv")
    for program, *data in (
        ("three_phase_emnist", "--dataset=files", "--data_dir=data", "--label_column=b"),
        ("private_clusters", "--dataset=digits", "--num_clients=9"),
    ):
      arguments = [program, *data, "--engine=jax", "--model=logistic", "--output_dir=out"]
      error = self._run(
          "import os, runpy, sys; os.environ['JAX_PLATFORMS'] = 'another'; "
          f"sys.argv = {arguments}; runpy.run_module('experiments.{program}', "
          "run_name='__main__', alter_sys=True)",
          code=2,
      )[1]
      self.assertRegex(error, r"\Aerror: `JAX_PLATFORMS` .*'another'\.\n\Z")
      self.assertFalse((self.folder / "out").exists())

  @absltest.skipUnless(importlib.util.find_spec("cryptography"), "it is of the extra for sites")
  def test_sites_fit(self):
    self.assertEqual(self._run(_SITES)[0].split(), ["True", "3"])

  def test_a_missing_extra_is_one_line_that_says_how_to_get_it(self):
    self._write_clients("data", "{}.csv")
    error = self._run(
        "experiments.three_phase_emnist", "--engine=tff", "--dataset=files", "--data_dir=data",
        "--label_column=b", "--output_dir=out", code=2,
    )[1]
    self.assertFalse((self.folder / "out").exists())
    # The extra is for some versions of Python.
    advice = "uv pip install" if sys.version_info < (3, 12) else "needs Python"
    self.assertRegex(error, rf"\Aerror: .*`federated`.*{advice}.*\n\Z")


if __name__ == "__main__":
  absltest.main()

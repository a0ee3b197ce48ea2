"""The program `tools:site`, with real processes on this machine's own addresses."""

import json
import os
import signal
import subprocess
import sys

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import portpicker
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering import runtime
from fl_clustering.distribution import announcement
from fl_clustering.distribution import pool
from fl_clustering.distribution import site as site_lib
from fl_clustering.distribution import site_paths
from fl_clustering.distribution import sites
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import sums_fit
from fl_clustering.points import point_files
from fl_clustering.tables import client_tables
from fl_clustering.tables import table_options
from tests.distribution import data_folders
from tests.distribution import worker_program
from tools import site as site_program

_FLAGS = ("--categories=sex", "--id_column=nr")
_OPTIONS = table_options.TableOptions(categories=("sex",), id_column="nr")
_CONFIG = kmeans_config.KMeansConfig(n_clusters=3, standardize=True)


def _table(rng, num_rows):
  """Returns the text of a table of three groups."""
  lines = ["nr,age,pressure,sex"]
  for row, group in enumerate(rng.integers(3, size=num_rows)):
    age, pressure = rng.normal([20 + 25 * group, 140 - 20 * group], 5)
    lines.append(f"{row},{age:.3f},{pressure:.4f},{'fm'[group % 2]}")
  return "\n".join(lines) + "\n"


@tff.tensorflow.computation(np.str_)
def _write_file(path):
  with tf.control_dependencies([tf.io.write_file(path, "content")]):
    return tf.constant(True)


@tff.federated_computation(tff.FederatedType(np.str_, tff.CLIENTS))
def _write_files(paths):
  return tff.federated_map(_write_file, paths)


class SiteProgramTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    rng = np.random.default_rng(3)
    self.files = {f"site_{i}.csv": _table(rng, 40 + i) for i in (1, 2, 3, 10)}

  def _start(self, names, folder, port=None):
    """Starts a site of some of the test's files; returns its program and its line."""
    data = data_folders.write(self, {name: self.files[name] for name in names})
    program = self.enter_context(worker_program.WorkerProgram(
        folder, f"--data_dir={data}", "--num_cores=1", *_FLAGS, port=port, module="tools.site"
    ))
    return program, program.first_line()

  def _fit_here(self):
    """Returns the fit of all files in one folder."""
    tables = client_tables.open_folder(data_folders.write(self, self.files), _OPTIONS)
    folder = self.create_tempdir().full_path
    with runtime.LocalRuntime(num_cores=1):
      return tables, sums_fit.fit(_CONFIG, point_files.write_files(tables.features(), folder))

  def test_files_are_for_this_user_alone(self):
    folder = os.path.join(self.create_tempdir().full_path, "new")
    site, _ = self._start(["site_1.csv"], folder)
    with pool.Pool((site.address,)):
      _write_files([str(site_paths.SitePath(site.address, "x.train"))])
    names = os.listdir(folder)
    self.assertContainsSubset(["site.key", "worker.json", "x.train"], names)
    for path in (folder, *(os.path.join(folder, name) for name in names)):
      self.assertEqual(os.stat(path).st_mode & 0o077, 0, path)

  def test_a_fit_at_sites_is_that_of_one_folder_to_the_bit(self):
    tables, expected = self._fit_here()
    first, _ = self._start(["site_1.csv", "site_3.csv"], self.create_tempdir().full_path)
    folder = self.create_tempdir().full_path
    names = ["site_2.csv", "site_10.csv"]
    second, line = self._start(names, folder)
    self.assertEqual(
        line, f"site at {second.address}: 2 clients, 92 rows, 1 core; end it with Ctrl-C"
    )
    with pool.Pool((second.address, first.address)) as opened:
      joined = sites.join(opened.sites)
      self.assertEqual(joined.num_rows, tables.num_rows)
      self.assertEqual(joined.format.to_json(), tables.format.to_json())

      def check_fit():
        found = sums_fit.fit(_CONFIG, point_files.at_sites(joined))
        np.testing.assert_array_equal(found.centroids, expected.centroids)
        self.assertEqual(found.loss, expected.loss)
        self.assertEqual(found.silhouette, expected.silhouette)

      check_fit()

      # Killed, it comes back with the same files, and the program goes on.
      before = self._said(folder)
      second.process.kill()
      second.process.wait()
      second, _ = self._start(names, folder, second.port)
      self.assertEqual(self._said(folder), before)
      check_fit()

  def _said(self, folder):
    with open(os.path.join(folder, announcement.FILE_NAME), encoding="utf-8") as file:
      return json.load(file)["site"]

  def test_one_client_and_the_end(self):
    program, line = self._start(["site_1.csv"], self.create_tempdir().full_path)
    self.assertEqual(
        line, f"site at {program.address}: 1 client, 41 rows, 1 core; end it with Ctrl-C"
    )
    program.process.send_signal(signal.SIGTERM)
    self.assertEqual(program.end(), (0, []))

  def test_one_row(self):
    client = site_lib.SiteClient("a", 1, None)
    site = site_lib.Site(None, {"one": client}, "")
    self.assertEqual(
        site_program._line("x:1", "1 core", site), "site at x:1: 1 client, 1 row, 1 core"
    )


class EndTest(parameterized.TestCase):

  @parameterized.named_parameters(("ctrl_c", "SIGINT"), ("terminated", "SIGTERM"))
  def test_while_extension_modules_are_imported(self, name):
    folder = self.create_tempdir().full_path
    # They drop exceptions, and so would drop one of a signal's handler.
    result = worker_program.run_script(f"""
from experiment_shell import launch
import os, signal, sys
from tools import lending

def open_site(folder):
  try:
    os.kill(os.getpid(), signal.{name})
  except BaseException:
    pass
  print("went on")
  sys.exit(3)

sys.argv += ["--port={portpicker.pick_unused_port()}", "--cache_dir={folder}"]
sys.argv += ["--allow_open_port"]
launch.run(lambda: lending.run(None, open_site))
""")
    self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)


class BadInputTest(parameterized.TestCase):

  def _check(self, files, flags, message):
    data = data_folders.write(self, files)
    result = subprocess.run(
        [sys.executable, "-m", "tools.site", "--allow_open_port", *flags],
        check=False, capture_output=True, text=True,
        env={**worker_program.environment(), "BUILD_WORKING_DIRECTORY": data},
    )
    self.assertEqual(result.returncode, 2, result.stderr)
    self.assertLen(result.stderr.splitlines(), 1, result.stderr)
    self.assertRegex(result.stderr, f"^error: {message}")
    self.assertEmpty(result.stdout)
    return data

  @parameterized.named_parameters(
      ("no_data", ["--port=8000", "--cache_dir=w"], "`data_dir` must be given, got None"),
      ("no_port", ["--data_dir=d", "--cache_dir=w"], "`port` must be given, got None"),
      ("no_such_folder", ["--data_dir=none"], "`data_dir` must be a folder, got 'none'"),
      ("empty", ["--data_dir=empty"], "`data_dir` must hold a file per client"),
      ("broken", ["--data_dir=broken"],
       "`data_dir` must hold tables that can be used, got 'broken/a.csv': line 3"),
      ("missing", ["--data_dir=d", "--missing=mean"], "`missing` must be 'error' at a site"),
      ("classes", ["--data_dir=d", "--label_column=v", "--classes=3,5"],
       "`data_dir` must .* got 'd/a.csv': row 1, column 'v' must be one of 3, 5, got '2'"),
      ("levels", ["--data_dir=d", "--categories=v", "--levels=v=3,5"],
       "`data_dir` must .* got 'd/a.csv': row 1, column 'v' must be one of 3, 5, got '2'"),
      ("no_levels", ["--data_dir=d", "--categories=v", "--levels=v"],
       "`levels` must be a column of `categories` and its levels, as in sex=f,m, got 'v'"),
      ("an_empty_level", ["--data_dir=d", "--categories=v", "--levels=v=2,,3"],
       "`levels` must be a column of `categories` and its levels, as in sex=f,m, got 'v=2,,3'"),
      ("levels_of_no_category", ["--data_dir=d", "--categories=v", "--levels=u=1,2"],
       "`levels` must be a column of `categories` and its levels, as in sex=f,m, got 'u=1,2'"),
      ("levels_in_quotes",
       ["--data_dir=e", "--categories=v>=2", '--levels=v>=2="no, never",yes'],
       "`data_dir` must .* column 'v>=2' must be one of no, never, yes, got 'often'"),
      ("levels_of_a_column_twice",
       ["--data_dir=d", "--categories=v", "--levels=v=2", "--levels=v=3"],
       "`levels` must name a column once, got 'v'"),
  )
  def test_one_line(self, flags, message):
    if not any(flag.startswith("--port") or "cache" in flag for flag in flags):
      flags = [*flags, f"--port={portpicker.pick_unused_port()}", "--cache_dir=w"]
    files = {
        "d/a.csv": "u,v\n1,2\n3,2\n", "e/a.csv": "u,v>=2\n1,often\n3,often\n",
        "empty/.keep": "", "broken/a.csv": "u,v\n1,2\n3\n",
    }
    self._check(files, flags, message)

  def test_files_of_the_worker_among_the_data(self):
    for folder in ("d", "d/cache"):
      data = self._check(
          {"d/a.csv": "u\n1\n"}, ["--data_dir=d", "--port=8000", f"--cache_dir={folder}"],
          f"`cache_dir` must be outside `data_dir`, got '{folder}'",
      )
      self.assertEqual(os.listdir(os.path.join(data, "d")), ["a.csv"])


if __name__ == "__main__":
  absltest.main()

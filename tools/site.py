"""Lends a site to programs: this machine computes for the clients whose files it has.

  ./bazelw run tools:site -- --data_dir=data --port=8000 --cache_dir=folder

A program uses it with `--workers=HOST:PORT,...`, a site at each address, and without --data_dir.
The files stay here, but rows can be computed from what programs are sent, such as exact totals.
And whoever reaches the port can read all files of this user: docs/sites.md, and
docs/workers.md, "Reaching a worker".
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import os
import sys
from typing import Any

from absl import flags

from clustering_basics import validate
from experiment_shell import lazy_module
from experiment_shell import path_flag
from experiments import table_flags
from fl_clustering.tables import table_options
from tools import lending

site_folder = lazy_module.LazyModule("fl_clustering.distribution.site_folder")  # It has threads.

flags.adopt_module_key_flags(lending)
table_flags.define_of_labels()
# Those of `table_flags` that apply; the other one is refused, and not in `--help`.
for _name in (*table_flags.OF_LABELS, *table_flags.NAMES):
  if _name != "missing":
    flags.declare_key_flag(_name)

path_flag.define(
    "data_dir", None,
    "Folder of the clients: a file for each, or a folder for each with a file per view.")
flags.DEFINE_list(
    "classes", None,
    "All classes, in any order, where the rows of this site don't have each of them. Default: "
    "those of the rows.")
flags.DEFINE_multi_string(
    "levels", None,
    "All levels of a column of --categories, in any order, where the rows of this site don't have "
    "each of them, as in --levels=sex=f,m. Once for each such column. Default: those of the rows.")


def _levels(options: table_options.TableOptions) -> dict[str, list[str]]:
  """Returns the levels that were given, by column."""
  levels: dict[str, list[str]] = {}
  for text in flags.FLAGS.levels or ():
    column = next((name for name in options.categories if text.startswith(f"{name}=")), None)
    if column in levels:
      raise validate.error("levels", "name a column once", column)
    names = [] if column is None else flags.ListParser().parse(text[len(column) + 1 :])
    if column is None or not names or not all(names):
      raise validate.error(
          "levels", "be a column of `categories` and its levels, as in sex=f,m", text
      )
    levels[column] = names
  return levels


def _check_folders() -> None:
  """Raises a ValueError if the worker's files would be among the data."""
  data, cache = (os.path.realpath(flags.FLAGS[name].value) for name in ("data_dir", "cache_dir"))
  if os.path.commonpath([data, cache]) == data:
    raise validate.error("cache_dir", "be outside `data_dir`", flags.FLAGS.cache_dir)


def _line(address: str, cores: str, site: Any) -> str:
  num_rows = sum(client.num_rows for client in site.clients.values())
  clients = "1 client" if len(site.clients) == 1 else f"{len(site.clients):,} clients"
  rows = "1 row" if num_rows == 1 else f"{num_rows:,} rows"
  return f"site at {address}: {clients}, {rows}, {cores}"


def main() -> None:
  with launch.input_errors():
    lending.check_given("data_dir", "port", "cache_dir")
    _check_folders()
    options = table_options.TableOptions(**table_flags.given())
    levels = _levels(options)

  def open_site(folder: str) -> Any:
    return site_folder.open_site(
        flags.FLAGS.data_dir, folder, options, flags.FLAGS.classes, levels,
        tell=lambda text: print(f"warning: {text}", file=sys.stderr),
    )

  lending.run(_line, open_site)


if __name__ == "__main__":
  launch.run(main)

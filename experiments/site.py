"""A site, such as a hospital, whose rows stay where they are: its key, and then its answers.

  python -m experiments.site --new=north --data_dir=ward --schema=schema.json
  python -m experiments.site --site_dir=north --join=federation.json --kit=north.json \\
      --fingerprint="123456 ..."

The second one runs until it is ended, and answers the operator's
`experiments.cluster_tables --federation`.
"""

import contextlib
import os
import subprocess
import time
from typing import Iterator, Mapping

from absl import flags

from clustering_basics import validate
from experiment_shell import launch
from experiment_shell import option_flags
from experiment_shell import path_flag
from experiments.own_tables import schema_flag  # Defines `--schema`.  pylint: disable=unused-import
from fl_clustering.sites import federation as federation_lib
from fl_clustering.sites import nvflare_kit
from fl_clustering.sites import site_folder
from fl_clustering.tables import folder as folder_lib
from fl_clustering.tables import views

flags.DEFINE_string(
    "new", None, "Make a site of this name: a folder with its key, and NAME.pub to hand out.")
path_flag.define(
    "join", None, "Answer by this federation file, until Ctrl-C or SIGTERM.")
path_flag.define("site_dir", None, "The site's folder. Default: with --new, its name.")
path_flag.define("data_dir", None, "Folder of the site's tables (--new).")
flags.DEFINE_bool(
    "another_ledger", False,
    "Make a second ledger for tables that have one (--new): their rows then have two budgets.")
path_flag.define(
    "kit", None, "What the operator has sent for this site, NAME.json (--join).")
flags.DEFINE_string(
    "fingerprint", None,
    "The federation file's, as the people of the sites have compared it by telephone (--join).")

_LOG = "nvflare.log"
_SECONDS_TO_RESTART = 5
# A client that ends so soon, so often, does not work.
_SOON, _MOST_SOON = 30, 3


def _new() -> None:
  with launch.input_errors():
    option_flags.check_left_out(("kit", "fingerprint"), "with --new")
    option_flags.check_given("data_dir", "schema")
    given = flags.FLAGS
    if os.path.exists(public := f"{given.new}.pub"):
      raise validate.error("new", "name a site whose key is not there yet", public)
    reports = folder_lib.open_folder(
        given.data_dir, views.load(given.schema), private=True
    ).reports
    with open(public, "x", encoding="utf-8") as file:  # Before the rows have a ledger.
      try:
        folder = site_folder.SiteFolder.create(
            given.site_dir or given.new, given.new, given.data_dir, given.schema,
            given.another_ledger,
        )
      except BaseException:
        os.remove(public)
        raise
      key = f"{given.new} {folder.identity.public.hex()}"
      file.write(f"{key}\n")
  print(f"public key: {key}", f"to hand out: {public}", f"secret: {folder.path}", sep="\n")
  if given.another_ledger:
    print("another ledger: the same rows have a budget in each, and what they spend adds up")
  _print_reports(reports)


def _print_reports(reports: Mapping[str, str]) -> None:
  lines = (f"{name}: {report}" for name, report in reports.items())
  print("the tables, as nobody else is told:", *lines, sep="\n  ")


def _agree() -> site_folder.SiteFolder:
  """Returns the site's folder; all that a fit needs is checked."""
  option_flags.check_left_out(("data_dir", "schema", "another_ledger"), "with --join")
  option_flags.check_given("site_dir", "kit")
  given = flags.FLAGS
  folder = site_folder.SiteFolder(given.site_dir)
  folder.lock()
  federation = federation_lib.Federation.load(given.join)
  if given.fingerprint is None or given.fingerprint.split() != federation.fingerprint.split():
    rule = (
        f"be that of `join`, {federation.fingerprint}, which the sites must have compared by "
        "telephone"
    )
    raise validate.error("fingerprint", rule, given.fingerprint)
  folder.agree(federation)
  site = folder.open()
  (spent, budget), num_rows = site.budget, site.num_rows
  site.close()
  nvflare_kit.install(given.kit, folder.identity.name, folder.workspace)
  print(f"site: {folder.identity.name}, one of {', '.join(federation.sites)}")
  print(f"rows: {num_rows:,} in {folder.data_dir}")
  if folder.reports:
    _print_reports(folder.reports)
  print(*federation.terms, sep="\n")
  if federation.privacy is not None:
    # All, where what was spent is for another unit.
    print(f"spent: {min(1.0, spent / budget):.1%} of the privacy budget, in squares of mu, which "
          "add up as epsilons do not: half of an epsilon costs about a quarter")
  return folder


@contextlib.contextmanager
def _client(folder: site_folder.SiteFolder) -> Iterator[subprocess.Popen]:
  """Runs NVFlare's client of a site, whose job's process ends with it."""
  path = os.path.join(folder.path, _LOG)
  with contextlib.ExitStack() as stack:
    lifeline, held = os.pipe()
    stack.callback(os.close, held)  # The kernel does it if this program is killed.
    environment = {
        **nvflare_kit.environment(folder.workspace), site_folder.VARIABLE: folder.path,
        nvflare_kit.LIFELINE_VARIABLE: f"{lifeline}",
    }
    with open(path, "ab") as log, open(lifeline, "rb"):
      process = stack.enter_context(subprocess.Popen(
          nvflare_kit.command("client", f"uid={folder.identity.name}", "org=sites"),
          cwd=folder.workspace, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
          start_new_session=True, pass_fds=(lifeline,),
      ))
    stack.callback(process.kill)
    yield process


def _join() -> None:
  with launch.input_errors():
    folder = _agree()
  path = os.path.join(folder.path, _LOG)
  print(f"ready; what NVFlare says: {path}", flush=True)
  num_soon = 0
  while num_soon < _MOST_SOON:
    start = time.monotonic()
    with _client(folder) as process:
      process.wait()
    num_soon = num_soon + 1 if time.monotonic() - start < _SOON else 0
    time.sleep(_SECONDS_TO_RESTART)
  raise launch.RunFailed(f"NVFlare's client ends again and again; {path} says why.")


def main() -> None:
  with launch.input_errors():
    if (flags.FLAGS.new is None) == (flags.FLAGS.join is None):
      raise validate.error("new", "be given, or else `join`", flags.FLAGS.new)
  if flags.FLAGS.new is not None:
    _new()
  else:
    _join()


if __name__ == "__main__":
  launch.run(main)

"""A private run: one training with secure noise, and nothing of its rows but in `released/`.

It is one release and no table of cells: its journal, not its results, says where it goes on.
"""

import contextlib
import os
import tempfile

from absl import flags

from experiment_shell import finished_run
from experiment_shell import launch
from experiment_shell import output_folder
from experiment_shell import run_flags
from experiment_shell import tidy_experiment
from experiment_shell import tidy_report
from experiments.private_clusters import config as config_lib
from experiments.private_clusters import data
from experiments.private_clusters import released
from experiments.private_clusters import released_page
from fl_clustering import runtime
from fl_clustering.engine.tff import client_files
from fl_clustering.private_clusters import releases as releases_lib

NAME = "private_clusters"
FILES = {
    output_folder.REPORT: "NOT for publication: this page",
    released.FOLDER: "may be published: models, ledger, noisy numbers and their page",
    releases_lib.JOURNAL: "every release and its answer, for --resume",
    output_folder.SUMMARY: "as in released/",
    output_folder.CONFIG: "NOT for publication: all settings, versions, the data's names",
}


def _train(
    config: config_lib.PrivateClustersConfig, clients: data.Clients,
    place: output_folder.OutputFolder,
) -> None:
  """Trains, and writes what is released."""
  settings = config.settings(config.epsilon[0])
  with launch.input_errors():
    releases = releases_lib.Releases(
        settings.epsilon, settings.delta, journal=place.join(releases_lib.JOURNAL),
        # Which is written when all is answered.
        is_complete=os.path.exists(place.join(released.FOLDER)),
    )
  # Elsewhere than what is written of the run, as these are the clients' examples.
  with tempfile.TemporaryDirectory() as folder, runtime.LocalRuntime():
    files = client_files.write_examples(clients.train, clients.test, folder)
    trained = released.train(settings, clients.model, files, folder, config.seed, releases)
  released.write(
      place.join(released.FOLDER), config.to_json(), settings, clients.model, clients.source,
      trained,
  )


def write_report(finished: finished_run.FinishedRun) -> None:
  """Draws the page of what was released, and the one that says what may be published."""
  released_page.write(finished.join(released.FOLDER))
  warned = released_page.warnings(finished.summary)
  tidy_report.write_page(
      finished, title="Private clusters: what may be published",
      headline="The folder released/ may be published, with its page report.html, and nothing "
      "else here.",
      warned={**warned, **tidy_report.warnings(finished)}, frames={}, tables=(), figures=(),
      reading=("config.json names the clients and their folder.",), contents=FILES,
  )


def main(config: config_lib.PrivateClustersConfig, data_dir: str | None) -> None:
  """Runs or resumes a private run, as the flags of all programs say."""
  with contextlib.ExitStack() as stack:
    with launch.input_errors():
      place = output_folder.OutputFolder(
          run_flags.output_dir(NAME), flags.FLAGS.resume, flags.FLAGS.overwrite, FILES,
          (releases_lib.JOURNAL, released.FOLDER),
      )
      place.check_same_config(config.to_json(), NAME)
      stack.callback(place.close)
      if place.is_finished:
        print(f"this run is finished: {place.path}")
      else:
        inputs = data.inputs(config, data_dir)
        if place.recorded is not None:
          tidy_experiment.check_same_inputs(place, place.recorded, inputs.identity)
        place.start(
            {
                "experiment": NAME, "config": config.to_json(), "inputs": inputs.identity,
                "versions": output_folder.versions(released.VERSIONS_OF),
            },
            os.path.join(releases_lib.JOURNAL, releases_lib.ENTRIES),
        )
        print(*inputs.lines, f"results: {place.path}", sep="\n")
    if not place.is_finished:
      with launch.run_errors(place.path, runtime.WorkerLost):
        _train(config, inputs.data(config.seed), place)
        finished = finished_run.FinishedRun(place.join(released.FOLDER))
        place.write_text(output_folder.SUMMARY, output_folder.json_text(finished.summary))
        # Last, as a folder with a report is a finished run.
        write_report(finished_run.FinishedRun(place.path))
    with launch.input_errors():  # A file of it may have been removed since.
      text = released_page.text(place.join(released.FOLDER))
    print(text, f"report: {place.join(output_folder.REPORT)}", sep="\n")

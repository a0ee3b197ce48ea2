import contextlib
import copy
import os
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized

from clustering_basics import file_format
from experiment_shell import output_folder
from experiments.grouping_study import cells
from experiments.grouping_study import parts
from fl_clustering.methods import registry
from tests.experiments.grouping_study import sample_study


_VERSIONS = {"numpy": "1.25.2"}


def _document(config, fingerprints=("a", "b"), **more):
  return file_format.stamped({
      "config": config.to_json(),
      "data": {"fingerprints": dict(zip(config.settings, fingerprints))},
      "versions": _VERSIONS,
      **more,
  })


class PartsTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.config = sample_study.config(num_seeds=4)
    self.part = self._part(_document(self.config), self.config.groups[:1], "measured")

  def _part(self, document, groups, problem):
    """Returns the path of a study that has measured some groups; `problem` tells it from others."""
    folder = self.create_tempdir()
    folder.create_file(output_folder.CONFIG, output_folder.json_text(document))
    for group in groups:
      cells.write_tables(folder.full_path, group, [sample_study.row(group, "ifca", problem)])
    return folder.full_path

  def _read(self, *folders):
    fingerprints = _document(self.config)["data"]["fingerprints"]
    self.seeds = set()

    def fingerprint(setting, seed):
      self.seeds.add(seed)
      return fingerprints[setting]

    return parts.read(folders, self.config, fingerprint, _VERSIONS)

  def test_parts_may_have_other_settings_and_fewer_seeds(self):
    config = sample_study.config(("rotated",), num_seeds=2)
    other = self._part(_document(config, "b"), config.groups, "of the other part")

    tables = self._read(self.part, other)

    self.assertEqual(
        [group.name for group in tables], ["rotated-seed0", "rotated-seed1", "iid-seed0"]
    )
    self.assertEqual(list(tables.values())[0], cells.read_tables(other, config.groups[0]))

  def test_parts_may_have_other_seeds(self):
    config = sample_study.config(num_seeds=2, seed=3)
    other = self._part(_document(config), config.groups, "of the other part")

    tables = self._read(self.part, other)

    # Seed 4 is none of the study's.
    self.assertEqual(
        [group.name for group in tables], ["iid-seed3", "rotated-seed3", "iid-seed0"]
    )
    self.assertEqual(self.seeds, {0, 3})  # Data are compared where both have the same seed.

  def test_what_ended_its_process_is_not_taken_over(self):
    ended, other = self.config.groups[:2]
    part = self._part(_document(self.config), [ended, other], "measured")
    row = sample_study.row(ended, "ifca", f"{cells.PROCESS_ENDED} with code -9")
    cells.write_tables(part, ended, [row])

    self.assertEqual(list(self._read(part)), [other])

  def test_the_first_part_that_has_a_group_counts(self):
    group = self.config.groups[0]
    second = self._part(_document(self.config), [group], "measured again")

    self.assertEqual(
        self._read(self.part, second), {group: cells.read_tables(self.part, group)}
    )

  @parameterized.named_parameters(
      ("config", {"config": {"num_clients": 9}}, "num_clients=9 instead of 8"),
      ("one_more", {"config": {"shade": 9}}, "shade=9 instead of None"),
      ("data", {"data": {"fingerprints": {"rotated": "c"}}}, "other examples for .*rotated"),
      ("versions", {"versions": {"numpy": "2.0"}}, "numpy 2.0 instead of 1.25.2"),
      ("resumed", {"resumed_with": [{"numpy": "2.0"}]}, "numpy 2.0 instead of 1.25.2"),
  )
  def test_what_must_be_the_same(self, changes, message):
    document = copy.deepcopy(_document(self.config, resumed_with=[]))
    for name, values in changes.items():
      document[name] = values if name == "resumed_with" else document[name] | values
    folder = self._part(document, self.config.groups, "measured")

    with self.assertRaisesRegex(ValueError, f"^`parts` must be of the same study .*{message}"):
      self._read(folder)

  def test_own_methods_must_have_the_same_code(self):
    document = _document(self.config, own_methods={"mine": "1" * 64})
    folder = self._part(document, self.config.groups, "measured")
    digests = self.enter_context(
        mock.patch.object(registry, "digests_of_others", return_value={"mine": "1" * 64})
    )

    self.assertLen(self._read(folder), len(self.config.groups))
    digests.return_value = {"mine": "2" * 64}
    with self.assertRaisesRegex(ValueError, "^`parts` must .* another file of the method 'mine'"):
      self._read(folder)

  @parameterized.parameters("{", "[]", "{}", '{"config": 1}')
  def test_a_folder_that_holds_no_study_is_refused(self, text):
    with open(os.path.join(self.part, output_folder.CONFIG), "w", encoding="utf-8") as file:
      file.write(text)

    with self.assertRaisesRegex(ValueError, "^`parts` must name folders of studies, got "):
      self._read(self.part)

  @parameterized.parameters(output_folder.CONFIG, "cells/pipe")
  def test_a_device_is_not_read(self, name):
    path = os.path.join(self.part, name)
    with contextlib.suppress(FileNotFoundError):
      os.remove(path)
    os.symlink(os.devnull, path)

    with self.assertRaisesRegex(ValueError, f"^`parts` must hold files and folders.*{name}"):
      self._read(self.part)

  def test_a_part_that_has_measured_nothing_of_the_study_is_refused(self):
    config = sample_study.config(("shards",))
    other = self._part(_document(config, "c"), config.groups, "measured")

    with self.assertRaisesRegex(ValueError, "^`parts` must have measured something of this study"):
      self._read(self.part, other)

  @parameterized.named_parameters(
      ("no_text", b"\xff", "can't decode"),
      ("other_columns", b"setting,seed\niid,0\n", "its columns are not those of a study's table"),
      ("missing", None, "No such file"),
  )
  def test_a_damaged_table_is_refused(self, content, message):
    path = os.path.join(cells.group_folder(self.part, self.config.groups[0]), cells.ROUNDS)
    os.remove(path)
    if content is not None:
      with open(path, "wb") as file:
        file.write(content)

    with self.assertRaisesRegex(ValueError, f"rounds.csv' can't be read .*{message}"):
      self._read(self.part)


if __name__ == "__main__":
  absltest.main()

import copy

from absl.testing import absltest
from absl.testing import parameterized

from experiment_shell import output_folder
from experiments.grouping_study import cells
from experiments.grouping_study import parts
from tests.experiments.grouping_study import sample_study


def _document(config, fingerprints=("a", "b"), numpy="1.25.2"):
  return {
      "config": config.to_json(),
      "data": {"fingerprints": dict(zip(config.settings, fingerprints))},
      "versions": {"numpy": numpy},
  }


class PartsTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.part = self.create_tempdir()
    self.whole = self.create_tempdir().full_path

  def _write(self, document):
    self.part.create_file(output_folder.CONFIG, output_folder.json_text(document))
    return [self.part.full_path]

  def test_parts_may_have_other_settings_and_fewer_seeds(self):
    document = _document(sample_study.config(("rotated",), num_seeds=2), ("b",))

    parts.check(self._write(document), _document(sample_study.config(num_seeds=4)))

  @parameterized.named_parameters(
      ("config", {"config": {"num_clients": 9}}, "num_clients=9 instead of 8"),
      ("one_more", {"config": {"shade": 9}}, "shade=9 instead of None"),
      ("data", {"data": {"fingerprints": {"rotated": "c"}}}, "other examples for .*rotated"),
      ("versions", {"versions": {"numpy": "2.0"}}, "numpy 2.0 instead of 1.25.2"),
  )
  def test_what_must_be_the_same(self, changes, message):
    ours = _document(sample_study.config())
    theirs = copy.deepcopy(ours)
    for name, values in changes.items():
      theirs[name] |= values

    with self.assertRaisesRegex(ValueError, f"^`parts` must be of the same study .*{message}"):
      parts.check(self._write(theirs), ours)

  @parameterized.parameters("{", "[]", "{}", '{"config": 1}')
  def test_a_folder_that_holds_no_study_is_refused(self, text):
    self.part.create_file(output_folder.CONFIG, text)

    with self.assertRaisesRegex(ValueError, "^`parts` must name folders of studies, got "):
      parts.check([self.part.full_path], _document(sample_study.config()))

  def test_what_is_there_is_not_overwritten(self):
    config = sample_study.config(("iid",), num_seeds=3)
    for folder, groups, problem in (
        (self.part.full_path, config.groups[:2], "of the part"),
        (self.whole, config.groups[1:2], "of the whole"),
    ):
      for group in groups:
        cells.write_tables(folder, group, [sample_study.row(group, "ifca", problem)])

    parts.take_over([self.part.full_path], config, self.whole)

    cells.write_joined(config, self.whole)
    with open(f"{self.whole}/{cells.RESULTS}", encoding="utf-8") as file:
      problems = [line.rsplit(",", 1)[1].strip() for line in file.readlines()[1:]]
    self.assertEqual(problems, ["of the part", "of the whole"])
    self.assertFalse(cells.is_measured(self.whole, config.groups[2]))


if __name__ == "__main__":
  absltest.main()

import os

from absl.testing import absltest
from absl.testing import parameterized

from experiments import output_folder


class OutputFolderTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.path = os.path.join(self.create_tempdir().full_path, "run")

  def _open(self, resume=False, overwrite=False):
    return output_folder.OutputFolder(
        self.path, resume, overwrite, files=("rows.csv",), folders=("figures",)
    )

  def _start(self, settings, **how):
    folder = self._open(**how)
    folder.start({"config": settings})
    return folder

  def test_a_report_makes_it_finished(self):
    self._start({"seed": 1})
    self.assertFalse(self._open(resume=True).is_finished)
    self._open(resume=True).write_text("report.html", "all is well")
    self.assertTrue(self._open(resume=True).is_finished)

  def test_resume_needs_the_same_settings(self):
    self._start({"seed": 1, "k": [2, 4]})
    folder = self._open(resume=True)
    folder.check_same_config({"seed": 1, "k": [2, 4]})
    with self.assertRaisesRegex(ValueError, r"`k` must be \[2, 4\], as in the run"):
      folder.check_same_config({"seed": 1, "k": [2]})

  def test_resume_keeps_the_recorded_config(self):
    self._start({"seed": 1})
    self._start({"seed": 1, "more": 2}, resume=True)
    self.assertEqual(self._open(resume=True).read_json("config.json")["config"], {"seed": 1})

  def test_overwrite_removes_what_the_experiment_writes_and_nothing_else(self):
    folder = self._start({"seed": 1})
    os.makedirs(folder.join("figures"))
    for name in ("rows.csv", ".rows.csv.7.csv", "summary.json", "report.html", "notes.txt"):
      folder.write_text(name, "text")
    self._start({"seed": 2}, overwrite=True)
    self.assertCountEqual(os.listdir(self.path), ["config.json", "notes.txt"])
    self.assertEqual(folder.read_json("config.json")["config"], {"seed": 2})

  @parameterized.named_parameters(
      ("no_json", "{"), ("a_list", "[]"), ("no_settings", "{}"), ("odd", '{"config": 3}')
  )
  def test_resume_of_a_damaged_config(self, text):
    self._start({"seed": 1}).write_text("config.json", text)
    with self.assertRaisesRegex(ValueError, "`output_dir` must hold a readable config"):
      self._open(resume=True)

  def test_a_file_in_the_place_of_the_folder(self):
    with open(self.path, "w", encoding="utf-8"):
      pass
    with self.assertRaisesRegex(ValueError, "`output_dir` must be a folder that can be"):
      self._open()


if __name__ == "__main__":
  absltest.main()

import os

from absl import flags
from absl.testing import absltest
from absl.testing import parameterized

from experiment_shell import launch
from experiments import draft_schema
from fl_clustering.tasks import schema as schema_lib
from tests.experiment_shell import in_process


class DraftSchemaTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.sample = os.path.join(self.folder, "sample")
    self.output = os.path.join(self.folder, "schema.json")
    os.mkdir(self.sample)
    with open(os.path.join(self.sample, "a.csv"), "w", encoding="utf-8") as file:
      file.write("age;sex;ill\n40,5;f;0\n;m;3\n41,5;f;1\n")

  def _run(self, *arguments):
    return in_process.run_main(
        draft_schema.main, f"--data_dir={self.sample}", f"--output={self.output}", *arguments
    )

  def test_a_pipe_is_no_output(self):
    self.output = os.path.join(self.folder, "pipe")
    os.mkfifo(self.output)
    with self.assertRaisesRegex(launch.InputError, "--output=.* must be a file "):
      self._run("--label_column=ill", "--decimal=,", "--missing=mean", "--categories=sex")

  def test_follows_its_flags(self):
    printed = self._run(
        "--label_column=ill", "--categories=sex", "--missing=mean", "--decimal=,",
        "--test_share=0.5",
    )
    schema = schema_lib.Schema.read(self.output)
    self.assertEqual(schema, schema_lib.Schema(
        note=schema.note,
        features=(schema_lib.Number("age", 41.0, 0.5), schema_lib.Levels("sex", ("f", "m"))),
        label_column="ill", classes=("0", "1", "3"), test_share=0.5, header="yes", separator=";",
        decimal=",",
    ))
    self.assertEqual(
        printed.splitlines(), [f"3 features, 3 classes: {self.output}", schema.note]
    )
    self.assertIn("becomes public", schema.note)

  @parameterized.named_parameters(
      ("nothing", (), "`label_column` must be given, got None"),
      ("no folder", ("--label_column=ill", "--data_dir=/no/folder"), "`data_dir` must be a folder"),
      ("what to do with cells", ("--label_column=ill", "--decimal=,"),
       "`data_dir` must hold tables .* Try: --categories=sex --missing=mean"),
      ("no column", ("--label_column=other", "--decimal=,"), "`label_column` must name columns"),
  )
  def test_refuses(self, arguments, message):
    with self.assertRaisesRegex(launch.InputError, f"^{message}"):
      self._run(*arguments)
    self.assertFalse(os.path.exists(self.output))

  def test_offers_what_it_accepts(self):
    offered = {flag.name: flag for flag in flags.FLAGS.get_key_flags_for_module(draft_schema)}
    self.assertEqual(offered["missing"].parser.enum_values, ["error", "mean"])
    self.assertContainsSubset(("categories", "split_column", "decimal", "header"), offered)
    self.assertNoCommonElements(
        ("encoding", "skip_lines", "comment", "thousands", "strip_units"), offered)

  def test_keeps_a_file(self):
    with open(self.output, "w", encoding="utf-8") as file:
      file.write("kept")
    with self.assertRaisesRegex(launch.InputError, "^`output` must not exist, got"):
      self._run("--label_column=ill")
    with open(self.output, encoding="utf-8") as file:
      self.assertEqual(file.read(), "kept")


if __name__ == "__main__":
  absltest.main()

import os
import subprocess
import sys

from absl.testing import absltest

from tools import run_script


class RunScriptTest(absltest.TestCase):

  def test_runs_a_script_where_the_user_stands_with_the_projects_modules(self):
    folder = self.create_tempdir()
    folder.create_file("mine.py", content=(
        "import os, sys; from clustering_basics import validate; "
        "print(validate.__name__, sys.argv, os.getcwd())"
    ))
    program = os.path.abspath(run_script.__file__)
    output = subprocess.run(
        [sys.executable, program, "mine.py", "--flag=1"], cwd="/", check=True, text=True,
        stdout=subprocess.PIPE,
        env={
            **os.environ, "BUILD_WORKING_DIRECTORY": folder.full_path,
            "BUILD_WORKSPACE_DIRECTORY": os.getcwd(),
        },
    ).stdout
    expected = f"clustering_basics.validate ['mine.py', '--flag=1'] {folder.full_path}"
    self.assertEqual(output.strip(), expected)


if __name__ == "__main__":
  absltest.main()

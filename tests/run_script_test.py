import os
import subprocess
import sys

from absl.testing import absltest

from tools import run_script


class RunScriptTest(absltest.TestCase):

  def test_runs_a_script_where_the_user_stands_with_the_projects_modules(self):
    folder, workspace = self.create_tempdir("user"), self.create_tempdir("project")
    workspace.create_file("project_module.py", content="NAME = 'of the project'")
    folder.create_file("mine.py", content=(
        "import os, sys, project_module; print(project_module.NAME, sys.argv, os.getcwd())"
    ))
    program = os.path.abspath(run_script.__file__)
    output = subprocess.run(
        [sys.executable, program, "mine.py", "--flag=1"], cwd="/", check=True, text=True,
        stdout=subprocess.PIPE,
        env={
            **os.environ, "BUILD_WORKING_DIRECTORY": folder.full_path,
            "BUILD_WORKSPACE_DIRECTORY": workspace.full_path,
        },
    ).stdout
    expected = f"of the project ['mine.py', '--flag=1'] {folder.full_path}"
    self.assertEqual(output.strip(), expected)

  def test_runs_a_script_without_bazel_with_the_users_modules_too(self):
    folder, library = self.create_tempdir("user"), self.create_tempdir("library")
    library.create_file("own_module.py")
    folder.create_file("mine.py", content=(
        "import os, sys, own_module; from tools import run_script; print(sys.argv, os.getcwd())"
    ))
    environment = {
        name: value for name, value in os.environ.items()
        if name not in ("BUILD_WORKING_DIRECTORY", "BUILD_WORKSPACE_DIRECTORY")
    }
    environment["PYTHONPATH"] = library.full_path
    output = subprocess.run(
        [sys.executable, os.path.abspath(run_script.__file__), "mine.py", "--flag=1"],
        cwd=folder.full_path, env=environment, check=True, text=True, stdout=subprocess.PIPE,
    ).stdout
    self.assertEqual(output.strip(), f"['mine.py', '--flag=1'] {folder.full_path}")

"""Macros for Python targets: one library per folder, its programs, and its tests.

A library has all files of its folder and the folder's name, so a new file needs no line.  The
packages of requirements.txt come with the interpreter, and are no dependencies.
"""

def library(deps = []):
    """Declares a py_library of all files of a folder, with the folder's name.

    Args:
      deps: Labels of the folders that its files import.
    """
    parent, _, name = native.package_name().rpartition("/")
    if native.glob(["__init__.py"]):
        native.py_library(
            name = "package",
            srcs = ["__init__.py"],
            deps = ["//{}:package".format(parent)] if parent else [],
        )
        deps = deps + [":package"]
    native.py_library(
        name = name,
        srcs = native.glob(["*.py"], exclude = ["__init__.py"]),
        data = native.glob(["*.csv", "*.txt", "*/*/*.json"]),
        deps = deps,
    )

def programs(names, deps = {}):
    """Declares a py_binary for each of some files of the folder's library.

    Args:
      names: The files' names, without their extension.
      deps: From a name to labels that this program alone needs, such as another environment.
    """
    library_of_folder = ":" + native.package_name().split("/")[-1]
    for name in names:
        native.py_binary(
            name = name,
            srcs = [name + ".py"],
            deps = [library_of_folder] + deps.get(name, []),
        )

def program_of_folder(deps = []):
    """Declares a py_binary `program` of a folder's `__main__.py`, beside the folder's library.

    Args:
      deps: Labels that the program alone needs, such as another environment.
    """
    native.py_binary(
        name = "program",
        srcs = ["__main__.py"],
        main = "__main__.py",
        deps = [":" + native.package_name().split("/")[-1]] + deps,
    )

# Folders whose tests run in one process, by the name of the test that does so.  TensorFlow
# Federated's computations are built once per process and model, which takes longer than most tests,
# and a process takes seconds to start, ten with TensorFlow Federated: what needs that is together.
# But the longest process may start last, and then one core waits: so the long ones are of about the
# same length.  Programs whose flags have the same names can't be in one process.
_JOINED_TESTS = {
    "of_basics": [
        "tests.clustering_basics", "tests.dp_clustering", "tests.experiments.example_data",
        "tests.experiments.multi_view", "tests.experiments.own_tables", "tests.tables",
    ],
    "of_engine": ["tests.engine", "tests.engine.tff"],
    "of_fits": ["tests.experiments.cluster_tables", "tests.multiview", "tests.sites"],
    "of_methods": [
        "tests", "tests.bench", "tests.contracts", "tests.experiments.study", "tests.methods",
    ],
    "of_pages": ["tests.docs", "tests.dp_clustering.demo", "tests.experiments"],
    "of_points": ["tests.experiments.federated_kmeans", "tests.kmeans", "tests.points"],
    "of_private_clusters": ["tests.experiments.private_clusters", "tests.private_clusters"],
    "of_programs": ["tests.experiment_shell", "tests.experiments.dp_benchmark"],
    "of_statistics": ["tests.experiments.three_phase_emnist", "tests.statistical"],
    "of_three_phases": ["tests.golden", "tests.integration", "tests.tasks"],
}

def _run(name, modules, deps, size, tags = [], waits = False):
    """Declares a py_test that runs modules, and all of packages, in one process.

    Of the seven shares of the machine that .bazelrc gives to tests, it takes two, or one if it
    mostly waits: so three that compute run at a time, and beside them one that waits.
    """
    native.py_test(
        name = name,
        size = size,
        srcs = ["//tests:run_files.py"],
        main = "//tests:run_files.py",
        args = modules,
        deps = deps,
        tags = tags + ["cpu:1" if waits else "cpu:2"],
    )

def tests(deps = [], data = [], size = "medium", alone = [], waits = False):
    """Declares a py_test of a folder's test files, which run in one process.

    It has the folder's name.  `bazel test //tests/FOLDER --test_filter=NAME` runs the classes or
    methods of that name.  What is in `_JOINED_TESTS` is no part of `//...` by itself.

    Args:
      deps: Labels of the folders that the files import; of a test folder, its ":files".
      data: Labels of files that the tests read.
      size: Bazel's test size, which limits how long the test may take.
      alone: Names of files, without extension, that have a py_test, and a process, of their own.
      waits: Whether the tests mostly wait: for processes, a network or a disk.
    """
    folder = native.package_name().replace("/", ".")
    joined = [one for folders in _JOINED_TESTS.values() for one in folders]
    native.py_library(
        name = "files",
        testonly = True,
        srcs = native.glob(["*.py"], exclude = ["run_files.py"] + [one + ".py" for one in alone]),
        data = data + native.glob(["*.csv"]),
        deps = deps,
    )
    _run(
        folder.split(".")[-1],
        [folder + "." + one[:-len(".py")] for one in native.glob(["*_test.py"]) if one[:-len(".py")] not in alone],
        [":files"],
        size,
        ["manual"] if folder in joined else [],
        waits,
    )
    for one in alone:
        native.py_library(
            name = one + "_file",
            testonly = True,
            srcs = [one + ".py"],
        )
        _run(one, [folder + "." + one], [":files", ":" + one + "_file"], size, waits = waits)

def joined_tests():
    """Declares the tests of `_JOINED_TESTS`."""
    for name, folders in _JOINED_TESTS.items():
        _run(name, folders, ["//{}:files".format(one.replace(".", "/")) for one in folders], "large")

def repeated_tests(name, modules):
    """Declares a test that runs some files of other tests once more, as .ci/run does.

    It is no part of `//...`.

    Args:
      name: Name of the target.
      modules: From a folder of tests, such as "tests/kmeans", to the names of those of its files
        that are run, without their extension.
    """
    _run(
        name,
        ["{}.{}".format(folder.replace("/", "."), one) for folder, files in modules.items() for one in files],
        ["//{}:files".format(folder) for folder in modules],
        "large",
        tags = ["manual"],
    )

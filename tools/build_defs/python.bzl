"""Macros for Python targets: each needs only a file's name and its dependencies.

Dependencies are labels, such as ":config" or "//fl_clustering/points:privacy", or names of
packages in requirements.txt, such as "numpy".  A target has the name of its file.  Every
target depends on the __init__.py of its folder, the target ":package".
"""

load("@python_env//:requirements.bzl", "requirement")

def _package():
    """Declares ":package" if the folder has an __init__.py; it depends on the parent's."""
    if not native.glob(["__init__.py"]):
        return []
    if not native.existing_rule("package"):
        parent = native.package_name().rpartition("/")[0]
        native.py_library(
            name = "package",
            srcs = ["__init__.py"],
            deps = ["//{}:package".format(parent)] if parent else [],
        )
    return [":package"]

def _labels(deps):
    return _package() + [
        dep if dep[0] in ":/@" else requirement(dep)
        for dep in deps
    ]

def modules(deps_by_name, testonly = False):
    """Declares a py_library for each file, and ":modules", which depends on all of them.

    Args:
      deps_by_name: Maps a file's name, without its extension, to its dependencies.
      testonly: Whether only tests may use the targets.
    """
    native.py_library(
        name = "modules",
        testonly = testonly,
        deps = [":" + name for name in deps_by_name],
    )
    for name, deps in deps_by_name.items():
        native.py_library(
            name = name,
            srcs = [name + ".py"],
            testonly = testonly,
            deps = _labels(deps),
        )

def programs(deps_by_name):
    """Declares a py_binary for each file.

    Args:
      deps_by_name: Maps a file's name, without its extension, to its dependencies.
    """
    for name, deps in deps_by_name.items():
        native.py_binary(
            name = name,
            srcs = [name + ".py"],
            deps = _labels(deps),
        )

# Folders whose tests run in one process, by the name of the test that does so.  TensorFlow
# Federated's computations are built once per process and model, which takes longer than most tests.
_JOINED_TESTS = {
    "of_runs": ["tests.contracts", "tests"],
    "of_rounds": ["tests.engine", "tests.methods", "tests.private_clusters", "tests.tasks"],
    "of_points": ["tests.kmeans", "tests.multiview", "tests.points"],
}

def tests(name, srcs, deps, size = "medium", data = []):
    """Declares one py_test that runs test files in one process, which imports packages once.

    `bazel test //tests/FOLDER --test_filter=NAME` runs the classes or methods of that name.  What
    is in `_JOINED_TESTS` is no part of `//...` by itself.

    Args:
      name: Name of the target.
      srcs: The files, such as `glob(["*_test.py"])`.
      deps: What the files import.
      size: Bazel's test size, which limits how long the test may take.
      data: Labels of files that the tests read.
    """
    folder = native.package_name().replace("/", ".")
    joined = [one for folders in _JOINED_TESTS.values() for one in folders]
    native.py_test(
        name = name,
        size = size,
        srcs = srcs + ["//tests:run_files.py"],
        main = "//tests:run_files.py",
        args = ["{}.{}".format(folder, src[:-len(".py")]) for src in sorted(srcs)],
        data = data,
        tags = ["manual"] if name == folder.split(".")[-1] and folder in joined else [],
        deps = _labels(["absl-py"] + deps),
    )

def joined_tests():
    """Declares the tests of `_JOINED_TESTS`."""
    for name, folders in _JOINED_TESTS.items():
        native.py_test(
            name = name,
            size = "large",
            srcs = ["//tests:run_files.py"],
            main = "//tests:run_files.py",
            args = folders,
            deps = _labels(["absl-py"] + ["//" + one.replace(".", "/") for one in folders]),
        )

def repeated_tests(name, modules_by_target):
    """Declares a test that runs some files of other tests once more, as .ci/run does.

    It is no part of `//...`.

    Args:
      name: Name of the target.
      modules_by_target: Maps the label of a target of `tests`, such as "//tests/kmeans", to the
        names of those of its files that are run, without their extension.
    """
    native.py_test(
        name = name,
        size = "large",
        srcs = ["//tests:run_files.py"],
        main = "//tests:run_files.py",
        args = [
            "{}.{}".format(target[2:].partition(":")[0].replace("/", "."), module)
            for target, modules in modules_by_target.items()
            for module in modules
        ],
        tags = ["manual"],
        deps = _labels(["absl-py"] + modules_by_target.keys()),
    )

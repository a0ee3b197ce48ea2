"""Started by the old Bazel targets; the package itself says where the benchmarks are."""

import experiments.benchmarks  # pylint: disable=unused-import

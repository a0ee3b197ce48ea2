"""The old place of the benchmarks."""

import sys

if sys.argv[:1] == ["-m"]:
  from experiments.benchmarks import moved  # Of `python -m experiments.benchmarks.NAME`.

  moved.main()
raise ModuleNotFoundError("`experiments.benchmarks` is now `bench`.")

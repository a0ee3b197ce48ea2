"""The old place of the benchmarks: whoever names it is told the new one."""

import sys

sys.stderr.write(
    "`experiments.benchmarks` is now `bench`, with the same programs, such as bench.peers.\n"
)
sys.exit(2)

"""Says where the benchmarks are, for their old names."""

import sys


def main() -> None:
  sys.stderr.write(
      "`experiments.benchmarks` is now `bench`, with the same programs, such as bench.peers.\n"
  )
  sys.exit(2)


if __name__ == "__main__":
  main()

"""Lends this machine to programs that compute on several, until Ctrl-C.

  ./bazelw run tools:worker -- --port=8000 --cache_dir=folder

A program uses it with `--workers=HOST:PORT`.  Whoever reaches the port can do what this user
can, so it is open at this machine's own address by default, and with `--token_file` to those who
have the token; docs/workers.md says how programs on other machines get there.
"""

from typing import Any

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

from absl import flags

from tools import lending

flags.adopt_module_key_flags(lending)


def _line(address: str, cores: str, unused_site: Any) -> str:
  return f"worker at {address}, {cores}, files in {flags.FLAGS.cache_dir}"


def main() -> None:
  lending.run(_line)


if __name__ == "__main__":
  launch.run(main)

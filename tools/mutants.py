"""Mutates the modules that privacy stands on, and says which mutants no test notices.

  python3 -m venv mutants_env && mutants_env/bin/pip install -r requirements/mutants.txt
  mutants_env/bin/python tools/mutants.py --python=PYTHON --out=FOLDER COMMIT

A mutant has one operator, number or keyword changed to the nearest other one, or a call or `raise`
left out.  Annotations, error texts and f-strings are left alone.  Mutants are made in a copy of the
commit in FOLDER, and PYTHON, which has the project's packages, runs the tests.  A run that is
started again goes on.  `results.tsv` gets a line per mutant.  The other files name mutants without
their line numbers, so that this lists what died at one commit and survives at another:

  LC_ALL=C comm -12 BEFORE/died.txt AFTER/survived.txt
"""

import argparse
import ast
import collections
import functools
import os
import pathlib
import re
import resource
import shutil
import subprocess
import time
from typing import Any, Callable, Iterable, Iterator

from cosmic_ray import ast as cosmic_ast
from cosmic_ray import mutating
from cosmic_ray import plugins
from parso.python import tree as parso_tree

# The ends of paths of modules, and of the tests that guard them.  A group of tests runs if the ones
# before it pass: the quick ones first.
_TESTS = {
    "dp_clustering/sum_query": (
        "dp_clustering/sum_query dp_clustering/private_sums", "points/privacy points/grid_scaling",
        "points/secure_sums"),
    "dp_clustering/noise": (
        "dp_clustering/noise", "dp_clustering/private_sums dp_clustering/clustering"),
    "dp_clustering/exact_sampler": ("dp_clustering/exact_sampler", "dp_clustering/noise"),
    "dp_clustering/ledger": (
        "dp_clustering/ledger", "dp_clustering/private_sums private_clusters/releases"),
    "points/privacy": ("points/privacy", "kmeans/private_fit points/content"),
    "engine/jax/bounded_sums": ("engine/jax/bounded_sums", "engine/bounded_sums"),
    "private_clusters/releases": (
        "private_clusters/releases", "private_clusters/replay private_clusters/resume"),
    "dp_clustering/private_sums": (
        "dp_clustering/private_sums", "dp_clustering/lsh_tree dp_clustering/coreset",
        "dp_clustering/clustering"),
    "points/grid_scaling": ("points/grid_scaling", "engine/tff/point_sums"),
    "points/secure_sums": (
        "points/grid_scaling", "points/secure_sums", "kmeans/private_fit points/content",
        "engine/tff/point_sums"),
    "private_clusters/slot_sums": (
        "private_clusters/slot_sums", "private_clusters/fitting",
        "private_clusters/replay engine/tff/private_clusters"),
    "sites/questions": ("sites/questions", "sites/site"),
    "sites/site_ledger": ("sites/federation", "sites/site_folder", "sites/site"),
    "sites/masking": ("sites/masking", "sites/site"),
    "sites/coordinator": ("sites/coordinator", "sites/site"),
    "tables/encode": ("tables/encode",),
    "engine/tff/client_messages": ("engine/tff/client_messages", "engine/bounded_sums"),
}
_OPERATORS = re.compile(
    "core/(AddNot|NumberReplacer|RemoveDecorator|ExceptionReplacer|ZeroIterationForLoop|"
    "Replace(True|False|And|Or|Break|Continue)With.*|ReplaceUnaryOperator_Delete_.*|"
    "ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_Div|Div_Mul|FloorDiv_Mul|Mod_FloorDiv|Pow_Mul|"
    "LShift_RShift|RShift_LShift|BitAnd_BitOr|BitOr_BitAnd)|"
    "ReplaceComparisonOperator_(Lt_LtE|LtE_Lt|Gt_GtE|GtE_Gt|Eq_NotEq|NotEq_Eq))")


class LeftOut:
  """An operator of Cosmic Ray's kind: leaves out a statement that is a call or a `raise`."""

  def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
    if node.type == "simple_stmt" and node.children[0].type in ("atom_expr", "raise_stmt"):
      yield node.children[0].start_pos, node.children[0].end_pos

  def mutate(self, node: Any, index: int) -> Any:
    del index
    first = node.children[0].get_first_leaf()
    node.children[0] = parso_tree.Keyword("pass", first.start_pos, first.prefix)
    return node


def _find(tree: pathlib.Path, end: str) -> pathlib.Path:
  """Returns the path of the one file whose path ends so."""
  found = list(tree.glob(f"**/{end}"))
  if len(found) != 1:
    raise ValueError(f"one file must end with {end!r}, got {found}.")
  return found[0]


def _is_text(node: ast.AST) -> bool:
  """Returns whether what is inside of a node is for readers and type checkers."""
  return isinstance(node, (ast.Raise, ast.JoinedStr, ast.Assert)) or (
      isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING") or (
      isinstance(node, ast.ClassDef) and "Protocol" in map(ast.unparse, node.bases))


def _mutants(source: str) -> Iterator[tuple[str, int, Callable[[], str]]]:
  """Yields the name of every mutant of a module, its line, and the function that makes it."""
  texts: list[Any] = []
  for node in ast.walk(ast.parse(source)):
    texts += [node] if _is_text(node) else []
    texts += filter(None, [getattr(node, "annotation", None), getattr(node, "returns", None)])
  spans = [((text.lineno, text.col_offset), (text.end_lineno, text.end_col_offset))
           for text in texts]
  chosen = {name[5:]: plugins.get_operator(name) for name in sorted(plugins.operator_names())
            if _OPERATORS.fullmatch(name)}
  num_like: collections.Counter[str] = collections.Counter()
  for name, operator in {**chosen, "LeftOut": LeftOut}.items():
    starts = [start for node in cosmic_ast.ast_nodes(cosmic_ast.get_ast(source))
              for start, _ in operator().mutation_positions(node)]
    for occurrence, (line, column) in enumerate(starts):
      if any(first < (line, column) < end for first, end in spans):
        continue
      text = source.splitlines()[line - 1]
      mutant = f"{name}\t{text.strip()}\t{column - len(text) + len(text.lstrip())}"
      num_like[mutant] += 1  # A number has two mutants, and lines may be equal.
      make = functools.partial(mutating.mutate_code, source, operator(), occurrence)
      yield f"{mutant}\t{num_like[mutant]}", line, make


def _outcome(tree: pathlib.Path, python: str, tests: str, most_seconds: int) -> str:
  """Returns what a group of tests says, in so many seconds of a core: "died", for instance."""
  paths = [_find(tree, f"tests/{test}_test.py").relative_to(tree) for test in tests.split()]
  names = [str(path.with_suffix("")).replace("/", ".") for path in paths]
  folder = str(tree) + "_tmp"
  os.makedirs(folder, exist_ok=True)
  code = subprocess.run(
      ["timeout", "--signal=KILL", str(10 * most_seconds), "prlimit", f"--cpu={most_seconds}",
       python, "tests/run_files.py", *names],
      cwd=tree, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
      env={**os.environ, "PYTHONPATH": ".", "TMPDIR": folder, "TEST_TMPDIR": folder,
           "TESTBRIDGE_TEST_RUNNER_FAIL_FAST": "1",
           # A mutant may be as large and as old as the one before it.
           "PYTHONDONTWRITEBYTECODE": "1"}).returncode
  shutil.rmtree(folder, ignore_errors=True)
  return "timed_out" if code in (-9, 137) else "died" if code else "survived"


def _limits(tree: pathlib.Path, python: str, groups: Iterable[str]) -> Iterator[int]:
  """Yields how long each group of tests may take: ten times as long as without a mutant."""
  for tests in groups:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    if _outcome(tree, python, tests, 3600) != "survived":
      raise ValueError(f"tests must pass without a mutant, got {tests}.")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    yield 10 + round(10 * (sum(after[:2]) - sum(before[:2])))


def _report(results: pathlib.Path, out: pathlib.Path) -> None:
  """Prints the counts by module, and writes the names of the mutants with each outcome."""
  rows = [line.split("\t") for line in results.read_text().splitlines()]
  for outcome in ("died", "timed_out", "survived"):
    names = sorted("\t".join(row[:5]) for row in rows if row[5] == outcome)
    (out / f"{outcome}.txt").write_text("".join(name + "\n" for name in names))
  for (module, outcome), count in sorted(collections.Counter((r[0], r[5]) for r in rows).items()):
    print(f"{module:30} {outcome:10} {count:5}", flush=True)


def main() -> None:
  parser = argparse.ArgumentParser(usage=__doc__)
  parser.add_argument("commit")
  parser.add_argument("modules", nargs="*", default=list(_TESTS))
  parser.add_argument("--python", required=True)
  parser.add_argument("--out", required=True, type=pathlib.Path)
  args = parser.parse_args()
  tree, results = args.out.absolute() / "tree", args.out / "results.tsv"
  shutil.rmtree(tree, ignore_errors=True)
  tree.mkdir(parents=True)
  subprocess.run(f"git archive {args.commit} | tar x -C '{tree}'", shell=True, check=True)
  resource.setrlimit(resource.RLIMIT_AS, (12 * 2**30,) * 2)  # Some mutants ask for all memory.
  results.touch()
  done = {line.rsplit("\t", 3)[0] for line in results.read_text().splitlines()}
  for module in args.modules:
    path = _find(tree, f"{module}.py")
    source = path.read_text()
    mutants = [(f"{module}\t{name}", line, make) for name, line, make in _mutants(source)]
    mutants = [mutant for mutant in mutants if mutant[0] not in done]
    limits = list(_limits(tree, args.python, _TESTS[module])) if mutants else []
    print(f"{module}: {len(mutants)} mutants; seconds at most: {limits}", flush=True)
    for name, line, make in mutants:
      path.write_text(make())
      start = time.monotonic()
      for tests, limit in zip(_TESTS[module], limits):
        outcome = _outcome(tree, args.python, tests, limit)
        if outcome != "survived":
          break
      with open(results, "a") as file:
        print(name, outcome, line, round(time.monotonic() - start, 1), sep="\t", file=file)
    path.write_text(source)
    _report(results, args.out)


if __name__ == "__main__":
  main()

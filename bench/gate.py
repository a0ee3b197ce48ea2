"""Compares what every program leaves, byte for byte, between a commit and the work tree.

  bazel run bench:gate -- --base=HEAD~3
  bazel run bench:gate -- --base=main --only=k_means --jobs=1

Both trees run the cases of gate_cases.py in one sitting, and their outputs, exit codes and files
are compared.  What the base leaves is kept in --records and used again, until the gate, the case,
its input files or the Python change.  After a change of packages or machine, --fresh runs the base
again.  Differences that are meant are listed in bench/gate_allowed.txt.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

from concurrent import futures
import contextlib
import dataclasses
import difflib
import fnmatch
import hashlib
from html import parser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Iterator, Mapping, Optional, Sequence
import zipfile

from absl import flags
import numpy as np
import portpicker

from bench import gate_cases
from clustering_basics import atomic_file
from clustering_basics import validate
from experiment_shell import path_flag

flags.DEFINE_string("base", None, "The commit to compare with.")
flags.DEFINE_string("only", "", "Regular expression of the names of the cases to run.")
flags.DEFINE_integer("jobs", 2, "Commands that run at the same time.")
flags.DEFINE_bool("fresh", False, "Whether the base runs again, too.")
path_flag.define(
    "records", "~/.cache/federated_clustering/gate", "Folder where the base's records are kept.")
path_flag.define(
    "tree", None,
    "A folder in the present tree. Default: the working directory; with Bazel, its workspace.")

_ALLOWED = "bench/gate_allowed.txt"
_TIMEOUT_SECONDS = 900
_MAX_LINES = 20
_MAX_WIDTH = 160
_KEPT_VARIABLES = ("HOME", "LANG", "PATH", "TMPDIR")
# Tags that don't end a line of text.
_INLINE = {"a", "b", "code", "em", "i", "span", "strong", "sub", "sup"}
_PROGRESS_BAR = re.compile(r"\d+%\|.*\|")

# What differs between two runs of the same code: globs of cases and records, a pattern in the names
# or the texts of these records, and what replaces it.
_MASKS = (
    # TensorBoard names its files by time, host, process and a counter.
    ("*", "*", re.compile(r"events\.out\.tfevents\..*"), "events.out.tfevents.WHEN_AND_WHERE"),
    # How long a round takes, in the timing of federated k-means.
    ("*", "*/timing.json", re.compile(r'("seconds_per_round": )[\d.e-]+'), r"\1SECONDS"),
    ("*", "*/report.html", re.compile(r"(took )[\d.]+( s on the machine)"), r"\1SECONDS\2"),
    # How long a method took in a simulation of private clusters: the last cell of its row.
    ("private_clusters*", "*/simulation/results.csv",
     re.compile(r"(?m)^(\w+,[\d.]*,\d+,.*,)[\d.]+$"), r"\1SECONDS"),
    ("private_clusters*", "*/report.html",
     re.compile(r"(?m)^(\| \w+ \| (?:[\d.]+ )?\| \d+ \|.*\| )[\d.]+$"), r"\1SECONDS"),
    # Sites make digests of data with a random key, and name their clients' files by digests.
    ("*_sites", "*/*.*", re.compile(r"((?:digest|fingerprint|started_from)\W+)[\da-f]{64}"),
     r"\1DIGEST"),
    ("*_sites", "cache?/*", re.compile(r"[\da-f]{64}(\.[\da-f]{32})?"), "DIGEST"),
)
# Records that are compared by their names: events hold the times at which they were written, and
# the order of a site's files follows from their names.
_NAME_ONLY = ("*/events.out.tfevents.*", "cache?/DIGEST*")

# What a case left: a text for every output and file, by name.
Record = dict[str, str]


class _ReportText(parser.HTMLParser):
  """Collects the text of a page, with a line for every block or row."""

  def __init__(self) -> None:
    super().__init__()
    self.parts: list[str] = []
    self._is_hidden = False

  def handle_starttag(self, tag: str, attrs: list[tuple[str, Optional[str]]]) -> None:
    if tag in ("style", "script"):
      self._is_hidden = True
    elif tag in ("td", "th"):
      self.parts.append(" | ")
    elif tag not in _INLINE:
      self.parts.append("\n")
    if tag == "img":
      self.parts.append(f"[image: {dict(attrs).get('alt')}]")

  def handle_endtag(self, tag: str) -> None:
    if tag in ("style", "script"):
      self._is_hidden = False
    elif tag not in _INLINE | {"td", "th"}:
      self.parts.append("\n")

  def handle_data(self, data: str) -> None:
    if not self._is_hidden:
      self.parts.append(data if data.strip() else " ")


def _html_text(page: str) -> str:
  text = _ReportText()
  text.feed(page)
  lines = (" ".join(line.split()) for line in "".join(text.parts).splitlines())
  return "\n".join(filter(None, lines))


def _array_text(array: np.ndarray) -> str:
  if array.dtype.kind == "U" and not array.ndim:
    return str(array)
  return f"{array.dtype} {array.shape} sha256 {hashlib.sha256(array.tobytes()).hexdigest()}"


def _arrays_text(path: str) -> str:
  """Returns a line for every array of an NPY or NPZ file."""
  loaded = np.load(path, allow_pickle=False)
  arrays = {"array": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
  return "\n".join(f"{name} {_array_text(array)}" for name, array in sorted(arrays.items()))


def _file_text(path: str) -> str:
  if path.endswith((".npy", ".npz")):
    # A file without arrays is compared like any other.
    with contextlib.suppress(ValueError, zipfile.BadZipFile):
      return _arrays_text(path)
  with open(path, "rb") as file:
    content = file.read()
  try:
    text = content.decode()
  except UnicodeDecodeError:
    text = "\0"
  if "\0" in text:
    return f"sha256 {hashlib.sha256(content).hexdigest()}"
  return _html_text(text) if path.endswith(".html") else text


def _files(folder: str) -> Iterator[tuple[str, str]]:
  """Yields the path in the folder and the text of every file; of a folder, no text."""
  for parent, folders, names in os.walk(folder):
    if parent == folder:
      folders.remove(gate_cases.DATA)
    for name in folders:
      yield os.path.relpath(os.path.join(parent, name), folder) + "/", ""
    for name in names:
      path = os.path.join(parent, name)
      yield os.path.relpath(path, folder), _file_text(path)


def _without_progress_bars(text: str) -> str:
  lines = text.replace("\r", "\n").splitlines()
  return "\n".join(line for line in lines if line.strip() and not _PROGRESS_BAR.search(line))


@dataclasses.dataclass(frozen=True)
class _Runner:
  """Runs the commands of a case in a tree."""

  tree: str
  folder: str
  ports: Mapping[str, str]
  moved: Mapping[str, str]

  def start(self, command: str) -> subprocess.Popen:
    for name, port in self.ports.items():
      command = command.replace(name, port)
    words = shlex.split(command)
    if words[0] not in ("cp", "rm"):
      words = [sys.executable, "-m", self.moved.get(words[0], words[0]), *words[1:]]
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return subprocess.Popen(
        words, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, errors="replace",
        env={**kept, "PYTHONPATH": self.tree, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )

  def end(self, process: subprocess.Popen, name: str, printed: str = "") -> Record:
    """Waits for the end of a command; returns what it printed, and its code."""
    try:
      output, errors = process.communicate(timeout=_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
      process.kill()
      output, errors = process.communicate()
    return {
        f"{name}.code": str(process.returncode),
        f"{name}.stdout": printed + output,
        f"{name}.stderr": _without_progress_bars(errors),
    }

  def without_places(self, record: Record) -> Record:
    """Returns a record without this run's paths and ports, and with the earlier modules' names."""
    replaced = {self.folder: "FOLDER", self.tree: "TREE"}
    replaced |= {f":{port}": f":{name}" for name, port in self.ports.items()}
    for old, new in self.moved.items():
      replaced |= {new: old, new.replace(".", "/"): old.replace(".", "/")}
    for before, after in replaced.items():
      record = {name: text.replace(before, after) for name, text in record.items()}
    return record


def _moved(tree: str) -> dict[str, str]:
  """Returns the programs that have moved in this tree, new modules by earlier ones."""

  def has(module: str) -> bool:
    return os.path.exists(os.path.join(tree, *module.split(".")) + ".py")

  return {old: new for old, new in gate_cases.MOVED.items() if not has(old) and has(new)}


def _record(case: gate_cases.Case, tree: str, inputs: str) -> Record:
  """Runs a case in a tree; returns what it left."""
  with contextlib.ExitStack() as stack:
    folder = os.path.realpath(stack.enter_context(tempfile.TemporaryDirectory(prefix="gate_")))
    shutil.copytree(inputs, os.path.join(folder, gate_cases.DATA))
    ports = {f"PORT{i}": str(portpicker.pick_unused_port()) for i in range(len(case.lenders))}
    runner = _Runner(tree, folder, ports, _moved(tree))
    lent = []
    for command in case.lenders:
      process = runner.start(command)
      stack.callback(process.kill)
      # The line says that the worker answers; there is none if it has ended.
      assert process.stdout is not None
      lent.append((process, process.stdout.readline()))
    record: Record = {}
    for number, command in enumerate(case.commands, 1):
      record |= runner.end(runner.start(command), f"command{number}")
    for number, (process, line) in enumerate(lent, 1):
      process.terminate()
      record |= runner.end(process, f"lender{number}", line)
    return runner.without_places(record | dict(_files(folder)))


def _matches(name: str, globs: Sequence[str]) -> bool:
  return any(fnmatch.fnmatch(name, glob) for glob in globs)


def _masked(record: Record, case: gate_cases.Case) -> Record:
  """Returns the part of a record that is compared."""
  masked = {}
  for name, text in record.items():
    for cases, names, pattern, replacement in _MASKS:
      if fnmatch.fnmatch(case.name, cases) and fnmatch.fnmatch(name, names):
        name, text = pattern.sub(replacement, name), pattern.sub(replacement, text)
    if not _matches(name, case.compared) or _matches(name, _NAME_ONLY):
      text = ""
    while name in masked:
      name += ", another"
    masked[name] = text
  return masked


@dataclasses.dataclass
class _Allowed:
  """A line of the file of allowed differences."""

  line: str
  case: str
  file: str
  pattern: re.Pattern[str]
  is_used: bool = False

  def allows(self, case: str, file: str, line: str) -> bool:
    if not (fnmatch.fnmatch(case, self.case) and fnmatch.fnmatch(file, self.file)
            and self.pattern.search(line)):
      return False
    self.is_used = True
    return True


def _read_allowed(path: str) -> list[_Allowed]:
  if not os.path.exists(path):
    return []
  allowed = []
  with open(path, encoding="utf-8") as file:
    for number, line in enumerate(map(str.strip, file), 1):
      if not line or line.startswith("#"):
        continue
      place = f"{path}, line {number}"
      entry, _, reason = line.partition(" # ")
      words = entry.split(maxsplit=2)
      if len(words) < 3 or not reason:
        raise ValueError(f"{place} must be `case file regex # reason`, got {line!r}.")
      allowed.append(_Allowed(line, words[0], words[1], _pattern(place, words[2])))
  return allowed


def _pattern(name: str, text: str) -> re.Pattern[str]:
  try:
    return re.compile(text)
  except re.error as e:
    raise validate.error(name, f"be a regular expression ({e})", text) from e


def _diff(before: Optional[str], after: Optional[str], name: str) -> list[str]:
  """Returns the lines of a unified diff without context; a missing file is one line."""
  if before is None or after is None:
    return [f"{'+' if before is None else '-'}{name}, the whole file"]
  lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0))[2:]
  if not lines and before != after:
    return ["-ends of lines differ"]
  return lines


def _compare(case: str, base: Record, new: Record, allowed: Sequence[_Allowed]) -> tuple[int, int]:
  """Prints what differs; returns the numbers of files with differences, and with allowed ones."""
  num_different = num_allowed = 0
  for name in sorted(base.keys() | new.keys()):
    lines = _diff(base.get(name), new.get(name), name)
    wrong, place = [], []
    for line in lines:
      if line.startswith("@"):
        place = [line]
      elif not any([one.allows(case, name, line) for one in allowed]):
        wrong += [*place, line]
        place = []
    num_different += bool(wrong)
    num_allowed += bool(lines) and not wrong
    if wrong:
      print(f"\n--- {case}: {name}")
      print("\n".join(line[:_MAX_WIDTH] for line in wrong[:_MAX_LINES]))
    if len(wrong) > _MAX_LINES:
      print(f"({len(wrong) - _MAX_LINES} more lines)")
  sys.stdout.flush()  # The other cases take minutes.
  return num_different, num_allowed


def _git(tree: str, *arguments: str) -> str:
  result = subprocess.run(
      ["git", "-C", tree, *arguments], check=False, capture_output=True, text=True
  )
  if result.returncode:
    raise ValueError(" ".join(result.stderr.split()) or f"git {arguments[0]} failed.")
  return result.stdout.strip()


def _commit(tree: str) -> str:
  base = flags.FLAGS.base
  if base is None:
    raise validate.error("base", "name the commit to compare with", None)
  try:
    return _git(tree, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}")
  except ValueError as e:
    raise validate.error("base", "be a commit", base) from e


def _chosen_cases() -> list[gate_cases.Case]:
  only = _pattern("only", flags.FLAGS.only)
  cases = [case for case in gate_cases.CASES if only.search(case.name)]
  if not cases:
    names = ", ".join(case.name for case in gate_cases.CASES)
    raise validate.error("only", f"match a case, which are {names}", flags.FLAGS.only)
  return cases


def _digest(inputs: str) -> str:
  """Returns a digest of the input files, of this program and of the Python that runs."""
  digest = hashlib.sha256(sys.executable.encode())
  with open(__file__, "rb") as file:
    digest.update(file.read())
  for parent, folders, names in os.walk(inputs):
    folders.sort()
    for name in sorted(names):
      with open(os.path.join(parent, name), "rb") as file:
        digest.update(os.path.relpath(file.name, inputs).encode() + file.read())
  return digest.hexdigest()


@contextlib.contextmanager
def _checked_out(tree: str, commit: str) -> Iterator[str]:
  """Checks a commit out into a temporary folder, which is removed at the end."""
  with tempfile.TemporaryDirectory(prefix="gate_") as parent:
    folder = os.path.join(os.path.realpath(parent), "base")
    with launch.input_errors():
      _git(tree, "worktree", "add", "--detach", folder, commit)
    try:
      yield folder
    finally:
      _git(tree, "worktree", "remove", "--force", folder)


class _Recorder:
  """Records cases in a tree, and keeps the records in a folder if it has one."""

  def __init__(self, tree: str, inputs: str, kept: Optional[str] = None) -> None:
    self._tree, self._inputs, self._kept = tree, inputs, kept
    self._digest = _digest(inputs)

  def _path(self, case: gate_cases.Case) -> Optional[str]:
    if self._kept is None:
      return None
    ran = (case.commands, case.lenders, self._digest)
    digest = hashlib.sha256(repr(ran).encode()).hexdigest()
    return os.path.join(self._kept, f"{case.name}-{digest[:16]}.json")

  def record(self, case: gate_cases.Case, fresh: bool = True) -> Record:
    path = self._path(case)
    if path and not fresh and os.path.exists(path):
      with open(path, encoding="utf-8") as file:
        return json.load(file)
    start = time.monotonic()
    record = _record(case, self._tree, self._inputs)
    which = "base" if path else "present tree"
    print(f"{case.name}, {which}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    if path:
      with atomic_file.atomic_path(path) as temporary:
        with open(temporary, "w", encoding="utf-8") as file:
          json.dump(record, file, indent=1)
    return record


def _run_all(
    cases: Sequence[gate_cases.Case], base: _Recorder, new: _Recorder, allowed: Sequence[_Allowed]
) -> tuple[int, int]:
  """Runs the cases in both trees; returns the sums of what `_compare` does."""
  num_different = num_allowed = 0
  with futures.ThreadPoolExecutor(flags.FLAGS.jobs) as pool:
    running = [
        (case, pool.submit(base.record, case, flags.FLAGS.fresh), pool.submit(new.record, case))
        for case in cases
    ]
    try:
      for case, before, after in running:
        different, allowed_here = _compare(
            case.name, _masked(before.result(), case), _masked(after.result(), case), allowed
        )
        num_different += different
        num_allowed += allowed_here
    finally:
      pool.shutdown(cancel_futures=True)
  return num_different, num_allowed


def main() -> None:
  with launch.input_errors():
    validate.integer(1, jobs=flags.FLAGS.jobs)
    around = flags.FLAGS.tree or os.environ.get("BUILD_WORKSPACE_DIRECTORY", ".")
    tree = _git(around, "rev-parse", "--show-toplevel")
    commit, cases = _commit(tree), _chosen_cases()
    allowed = _read_allowed(os.path.join(tree, _ALLOWED))
    kept = os.path.join(flags.FLAGS.records, commit)
    os.makedirs(kept, exist_ok=True)
  with contextlib.ExitStack() as stack:
    inputs = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), gate_cases.DATA)
    gate_cases.write_inputs(inputs)
    base_tree = stack.enter_context(_checked_out(tree, commit))
    base = _Recorder(base_tree, inputs, kept)
    num_different, num_allowed = _run_all(cases, base, _Recorder(tree, inputs), allowed)
  for one in allowed:
    if not one.is_used and any(fnmatch.fnmatch(case.name, one.case) for case in cases):
      print(f"allowed, but matched nothing: {one.line}")
  print(f"gate: {len(cases)} cases, {num_different} differences, {num_allowed} allowed")
  if num_different:
    sys.exit(1)


if __name__ == "__main__":
  launch.run(main)

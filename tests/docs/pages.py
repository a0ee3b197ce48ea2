"""The pages that are tested, and the commands and links in them."""

import glob
import re
import shlex

_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.M | re.S)
_LINK = re.compile(r"\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")


def paths() -> list[str]:
  """Returns the paths of all pages."""
  found = glob.glob("*.md") + glob.glob("docs/**/*.md", recursive=True)
  return sorted(found + glob.glob("*/README.md") + glob.glob("*/*/README.md"))


def read(path: str) -> str:
  with open(path, encoding="utf-8") as file:
    return file.read()


def _without_blocks(text: str) -> str:
  return _FENCE.sub("", text)


def links(text: str) -> list[str]:
  """Returns the targets of links and pictures, without those of the web."""
  targets = _LINK.findall(re.sub(r"`[^`]*`", "`", _without_blocks(text)))
  return [target for target in targets if not re.match(r"https?:", target)]


def anchors(text: str) -> set[str]:
  """Returns the anchors of headings, where those of MkDocs and of GitHub agree."""
  found = set()
  for title in re.findall(r"^#+ (.+)$", _without_blocks(text), re.M):
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
    slug = re.sub(r"[^\w\s-]", "", plain).strip().lower()
    if (of_github := slug.replace(" ", "-")) == re.sub(r"[-\s]+", "-", slug):
      found.add(of_github)
  return found


def commands(text: str) -> list[tuple[str, list[str]]]:
  """Returns the programs that a page's shell commands run, as modules, with their arguments."""
  lines = []
  for _, language, block in _FENCE.findall(text):
    if language == "sh":
      lines += block.replace("\\\n", " ").split("\n")
  lines += [" ".join(code.split()) for code in _CODE.findall(_without_blocks(text))]
  found = (_command(line) for line in lines)
  return [command for command in found if command is not None]


def _command(line: str) -> tuple[str, list[str]] | None:
  if not re.search(r"bazelw? run |python -m |^docker run | -m experiments", line):
    return None
  words = shlex.split(re.sub(r" (&|\| .*)$", "", line), comments=True)
  if "run" in words and words[max(words.index("run") - 1, 0)].endswith(("bazelw", "bazel")):
    label, rest = words[words.index("run") + 1], words[words.index("run") + 2:]
    arguments = rest[1:] if rest[:1] == ["--"] else rest
    return label.replace(":", ".").replace("/", "."), arguments
  if "-m" in words:
    position = words.index("-m") + 1
    return words[position], words[position + 1:]
  return None


def named_flags(text: str) -> set[str]:
  """Returns the flags that are named in the text as code, such as `--seed`."""
  codes = (code for code in _CODE.findall(_without_blocks(text)) if code.startswith("--"))
  return {name for code in codes for name in re.findall(r"(?:^|\s)--(\w+)(?![\w-])", code)}

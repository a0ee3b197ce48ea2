"""The help of a program, by topic: one screen of the flags used most, or all of them.

`--help` shows the flags used most in a line or two each, and `--helpfull` everything.
"""

import dataclasses
import re
import sys
import textwrap
from typing import Any, Iterator, Mapping, Sequence

from absl import flags

TOPICS = ("data", "tables", "training", "methods", "privacy", "machines", "output")

_WIDTH = 80
_INDENT = 26
_LINES_PER_FLAG = 2
# Names of choices that stand before the text of a flag.
_CHOICES = re.compile(r"^<.*?>: ")


@dataclasses.dataclass(frozen=True)
class Help:
  """Which flags a program has.

  Attributes:
    most_used: From a topic to the names of the flags that `--help` shows, in their order.
    others: From a topic to the names of its flags, those above among them.  Of several topics
      with the same flag, the first has it.
  """

  most_used: Mapping[str, Sequence[str]]
  others: Mapping[str, Sequence[str]]

  def names(self) -> dict[str, list[str]]:
    """Returns the names of all flags by topic; those used most come first."""
    topic_of: dict[str, str] = {}
    for by_topic in (self.most_used, self.others):
      for topic, names in by_topic.items():
        for name in names:
          topic_of.setdefault(name, topic)
    found = {topic: [name for name in topic_of if topic_of[name] == topic] for topic in TOPICS}
    return {topic: names for topic, names in found.items() if names}


def _paragraphs() -> list[str]:
  """Returns the paragraphs of the program's docstring; lines of prose have the usual width."""
  paragraphs = (sys.modules["__main__"].__doc__ or "").strip("\n").split("\n\n")
  return [
      text if text.startswith(" ") else textwrap.fill(text, _WIDTH, break_on_hyphens=False)
      for text in paragraphs
  ]


def _summary(flag: flags.Flag) -> str:
  """Returns what a flag is, in a sentence; of choices that are explained, their names alone."""
  text = _CHOICES.sub("", " ".join((flag.help or "").split()))
  choices = getattr(flag.parser, "enum_values", None)
  if choices and text.startswith("`"):
    return f"One of: {', '.join(choices)}."
  return re.split(r"(?<=[.])\s", text)[0]


def _shown_default(flag: flags.Flag) -> str:
  """Returns the default after the name, if it has one that is short."""
  default = (flag.default_as_str or "").strip("'")
  return f"={default}" if default and not flag.boolean and len(default) <= 8 else ""


def _lines(names: Sequence[str]) -> Iterator[str]:
  for name in names:
    flag = flags.FLAGS[name]
    yield from textwrap.wrap(
        _summary(flag), _WIDTH,
        initial_indent=f"  --{name}{_shown_default(flag)}".ljust(_INDENT - 1) + " ",
        subsequent_indent=" " * _INDENT, max_lines=_LINES_PER_FLAG, placeholder=" ...",
        break_on_hyphens=False,
    )


def short_text(help_: Help) -> str:
  """Returns the text of `--help`."""
  first, *others = _paragraphs()
  count = sum(map(len, help_.names().values()))
  lines = [f"The flags used most; --helpfull explains all {count}."]
  for topic, names in help_.most_used.items():
    lines += [f"{topic}:", *_lines(names)]
  commands = (text for text in others if text.startswith(" "))
  return "\n\n".join((first, *commands, "\n".join(lines)))


def full_text(help_: Help) -> str:
  """Returns the text of `--helpfull`."""
  names = help_.names()
  listed = {name for of_topic in names.values() for name in of_topic}
  # Not those of modules that the program imports and whose flags it refuses.
  names["of all programs"] = sorted({
      flag.name for module, of_module in flags.FLAGS.flags_by_module_dict().items()
      if module == __name__ or module.startswith("absl.") for flag in of_module
  } - listed)
  texts = _paragraphs()
  for topic, of_topic in names.items():
    shown = flags.FlagValues()
    for name in of_topic:
      shown[name] = flags.FLAGS[name]
    texts.append(f"{topic}:\n{shown.get_help(include_special_flags=False)}")
  return "\n\n".join(texts)


class _HelpFlag(flags.BooleanFlag):
  """A flag that prints a text and ends the program."""

  def __init__(self, name: str, about: str, text: Any) -> None:
    super().__init__(name, False, about, allow_override=True, allow_hide_cpp=True)
    self._text = text

  def parse(self, argument: Any) -> None:
    if self._parse(argument):
      print(self._text())
      sys.exit(0)


def define_flags(help_: Help) -> None:
  """Defines `--help` and `--helpfull` for a program."""
  flags.DEFINE_flag(_HelpFlag("help", "The flags used most.", lambda: short_text(help_)))
  flags.DEFINE_flag(_HelpFlag("helpfull", "All flags.", lambda: full_text(help_)))

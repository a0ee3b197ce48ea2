"""Options: settings that belong to a choice, such as a grouping's number of clusters.

A choice is a frozen dataclass, and its fields made by `option` are its options.  Their
defaults, their documentation and their checks stand there and nowhere else: a registry's
options become settings of a run and flags by themselves.  Several choices may have an
option of the same name, which is then one setting for all of them.
"""

import dataclasses
from typing import Any, Callable, Mapping, Optional

_METADATA = "option"


@dataclasses.dataclass(frozen=True)
class Option:
  """One option of one choice.

  Attributes:
    name: Its name, as a setting and as a flag.
    kind: The type of its values: `int`, `float` or `str`.
    about: What it is, for whoever reads the flags; one or more sentences.
    default: The value where none is given; `None` = without it.
    default_for: A function from the number of clients to the default, where that depends
      on it; else `None`.
    default_text: The default in words, where its value doesn't say enough.
    values: The values it can have; `None` = not a few words.
    up_to_num_clients: Whether it is a number from 1 to the number of clients.
    word: A word that can stand for a number which only the run finds; `None` = there is none.
    selects: For an option that decides which others are in use: from each of its values
      to the names of the options that come with it, the usual value first.
  """

  name: str
  kind: type
  about: str
  default: Any = None
  default_for: Optional[Callable[[int], Any]] = None
  default_text: Optional[str] = None
  values: Optional[tuple[str, ...]] = None
  up_to_num_clients: bool = False
  word: Optional[str] = None
  selects: Optional[Mapping[str, tuple[str, ...]]] = None

  def value_for(self, num_clients):
    """Returns the value where none is given, in a run of so many clients."""
    return self.default_for(num_clients) if self.default_for else self.default

  def stated_default(self):
    """Returns the default in words."""
    return self.default_text or ("none" if self.default is None else f"{self.default}")


def option(kind, about, default=dataclasses.MISSING, **details):
  """Returns a dataclass field that is an option.

  Args:
    kind: The type of its values: `int`, `float` or `str`.
    about: What it is, for whoever reads the flags; one or more sentences.
    default: The field's default; without one, the field must be given.
    **details: Further fields of `Option`.
  """
  own = None if default is dataclasses.MISSING else default
  metadata = {"kind": kind, "about": about, "default": own, **details}
  return dataclasses.field(default=default, metadata={_METADATA: metadata})


def of(choice):
  """Returns a choice's options, a dict from name to `Option`, in the order of its fields."""
  return {
      field.name: Option(name=field.name, **field.metadata[_METADATA])
      for field in dataclasses.fields(choice)
      if _METADATA in field.metadata
  }


def by_name(choices, same_defaults=False):
  """Returns all options of a registry.

  Args:
    choices: From each choice's name to its dataclass.
    same_defaults: Whether an option must have the same default in all choices that have
      it: for a setting that can name several choices at a time.

  Returns:
    A dict from option name to a dict from the names of the choices that have it to their
    `Option`.  An option comes before those that follow it in its choice, and one that
    selects others right after those.

  Raises:
    TypeError: If an option is not of the same kind, or has other values, in two choices;
      or another default, where that must be the same.
  """
  order, found = [], {}
  for choice, choice_class in choices.items():
    own = of(choice_class)
    for position, (name, one) in enumerate(own.items()):
      found.setdefault(name, {})[choice] = one
      if name not in order:
        order.insert(_place(one, list(own)[position + 1 :], order), name)
  for name, users in found.items():
    if len({(one.kind, one.values, one.up_to_num_clients, one.word) for one in users.values()}) > 1:
      raise TypeError(f"`{name}` must be the same option in {', '.join(users)}.")
    defaults = list(dict.fromkeys(one.stated_default() for one in users.values()))
    if same_defaults and len(defaults) > 1:
      raise TypeError(
          f"`{name}` must have the same default in {', '.join(users)}, got "
          f"{' and '.join(defaults)}."
      )
  return {name: found[name] for name in order}


def _place(option_, following, order):
  """Returns where to insert an option into `order`, before all that follow it there."""
  if option_.selects:
    selected = [name for names in option_.selects.values() for name in names]
    return 1 + max(order.index(name) for name in selected)
  return min([order.index(name) for name in following if name in order], default=len(order))


def describe(users):
  """Returns what an option is, who has it and what its defaults are, in sentences.

  Args:
    users: From the names of the choices that have it to their `Option`.
  """
  about = " ".join(dict.fromkeys(one.about for one in users.values()))
  names_by_default = {}
  for name, one in users.items():
    names_by_default.setdefault(one.stated_default(), []).append(name)
  if len(names_by_default) == 1:
    (default,) = names_by_default
    return f"{about} Used by {', '.join(users)}. Default: {default}."
  defaults = [f"{text} ({', '.join(names)})" for text, names in names_by_default.items()]
  return f"{about} Default: {'; '.join(defaults)}."

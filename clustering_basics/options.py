"""Options: settings that are documented, checked and offered as flags from one place.

A field made by `option` is an option of its frozen dataclass.  Its default, its documentation and
its rule stand there and nowhere else.  The dataclass is a configuration or a choice in one, such as
a grouping with a number of clusters: a registry's options become settings of a run by themselves.
Several choices may have an option of the same name, which is then one setting for all of them.
"""

import dataclasses
from typing import Any, Callable, Collection, Mapping

from clustering_basics import validate

_METADATA = "option"


@dataclasses.dataclass(frozen=True)
class Option:
  """One option of one dataclass.

  Attributes:
    kind: The type of its values, or of each of several: `bool`, `int`, `float` or `str`.
    about: What it is, for whoever reads the flags; one or more sentences.
    default: The value where none is given; `None` = without it.
    required: Whether it has no default, so that it must be given.
    may_be_none: Whether `None` can be given in place of a default.
    default_for: A function from the number of clients to the default, where that depends on it.
    default_text: The default in words, where its value doesn't say enough.  As a flag, an option
      with such a text has no value unless it is given.
    values: The values it can have; `None` = not a few words.
    several: Whether it is a tuple of values.
    rule: A function of the value, by its name as a flag, that raises a ValueError if it can't be.
    flag: Its name as a flag and in messages, where that is another one.
    up_to_num_clients: Whether it is a number from 1 to the number of clients.
    word: A word that can stand for a number which only the run finds.
    selects: For an option that decides which others are in use: from each of its values
      to the names of the options that come with it, the usual value first.
  """

  name: str
  kind: type
  about: str
  default: Any = None
  required: bool = False
  may_be_none: bool = False
  default_for: Callable[[int], Any] | None = None
  default_text: str | None = None
  values: Collection[str] | None = None
  several: bool = False
  rule: Callable[..., None] | None = None
  flag: str | None = None
  up_to_num_clients: bool = False
  word: str | None = None
  selects: Mapping[str, tuple[str, ...]] | None = None

  @property
  def flag_name(self) -> str:
    return self.flag or self.name

  def value_for(self, num_clients: int) -> Any:
    """Returns the value where none is given, in a run of so many clients."""
    return self.default_for(num_clients) if self.default_for else self.default

  def stated_default(self) -> str:
    """Returns the default in words."""
    return self.default_text or ("none" if self.default is None else f"{self.default}")

  def check(self, value: Any) -> None:
    """Raises a ValueError unless the option can have this value.

    `None` stands for no value where that is the default, or may be given.
    """
    if value is None and (self.may_be_none or self.default is None and not self.required):
      return
    for one in value if self.several and value is not None else (value,):
      if self.values is not None:
        validate.one_of(self.values, **{self.flag_name: one})
      if self.rule is not None:
        self.rule(**{self.flag_name: one})


def option(kind: type, about: str, default: Any = dataclasses.MISSING, **details: Any) -> Any:
  """Returns a dataclass field that is an option.

  Args:
    kind: As in `Option`.
    about: Likewise.
    default: The field's default; without one, the field must be given.
    **details: Further fields of `Option`.
  """
  required = default is dataclasses.MISSING
  metadata = {
      "kind": kind, "about": about, "default": None if required else default,
      "required": required, **details,
  }
  return dataclasses.field(default=default, metadata={_METADATA: metadata})


def of(settings: Any) -> dict[str, Option]:
  """Returns the options of a dataclass or of an instance of one, in the order of its fields."""
  return {
      field.name: Option(name=field.name, **field.metadata[_METADATA])
      for field in dataclasses.fields(settings)
      if _METADATA in field.metadata
  }


def check(settings: Any) -> None:
  """Raises a ValueError unless every option of a dataclass's instance has a value it can have."""
  for name, one in of(settings).items():
    one.check(getattr(settings, name))


def to_json(settings: Any) -> dict[str, Any]:
  """Returns the fields of a dataclass's instance as plain values, in their order."""
  return {
      field.name: _plain(getattr(settings, field.name)) for field in dataclasses.fields(settings)
  }


def _plain(value: Any) -> Any:
  if isinstance(value, tuple):
    return list(value)
  return value.to_json() if hasattr(value, "to_json") else value


def by_name(
    choices: Mapping[str, type], same_defaults: bool = False
) -> dict[str, dict[str, Option]]:
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
  order: list[str] = []
  found: dict[str, dict[str, Option]] = {}
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


def choose(choices: Mapping[str, type], setting: str, name: Any, **asked: Any) -> Any:
  """Returns a choice of a registry with its options; `None` where one is not asked for.

  Args:
    choices: The registry, as of `by_name`.
    setting: What names the choice, for messages.

  Raises:
    ValueError: If there is no such choice, or it does not take an option that is asked for, or
      not in its range.
  """
  validate.one_of(choices, **{setting: name})
  given = {option: value for option, value in asked.items() if value is not None}
  for option, value in given.items():
    if option not in of(choices[name]):
      users = " or ".join(map(repr, by_name(choices)[option]))
      raise validate.error(option, f"be left out unless `{setting}` is {users}", value)
  return choices[name](**given)


def _place(option_: Option, following: list[str], order: list[str]) -> int:
  """Returns where to insert an option into `order`, before all that follow it there."""
  if option_.selects:
    selected = [name for names in option_.selects.values() for name in names]
    return 1 + max(order.index(name) for name in selected)
  return min([order.index(name) for name in following if name in order], default=len(order))


def describe(users: Mapping[str, Option]) -> str:
  """Returns what an option is, who has it and what its defaults are, in sentences.

  Args:
    users: From the names of the choices that have it to their `Option`.
  """
  about = " ".join(dict.fromkeys(one.about for one in users.values()))
  names_by_default: dict[str, list[str]] = {}
  for name, one in users.items():
    names_by_default.setdefault(one.stated_default(), []).append(name)
  if len(names_by_default) == 1:
    (default,) = names_by_default
    return f"{about} Used by {', '.join(users)}. Default: {default}."
  defaults = [f"{text} ({', '.join(names)})" for text, names in names_by_default.items()]
  return f"{about} Default: {'; '.join(defaults)}."


def listed(rows: Mapping[str, Any]) -> str:
  """Returns what each row of a registry is, as its attribute `about` says."""
  return "; ".join(f"`{name}`: {row.about}" for name, row in rows.items()) + "."

"""Options: settings that are documented, checked and offered as flags from one place.

A field made by `option` is an option of its frozen dataclass.  Its default, its documentation and
its rule stand there and nowhere else.  The dataclass is a configuration or a choice in one, such as
a grouping with a number of clusters.  In a configuration that is a `WithChoices`, a registry's
options become settings by themselves.  Several choices may have an option of the same name, which
is then one setting for all of them.
"""

import dataclasses
from typing import Any, Callable, ClassVar, Collection, Mapping, Sequence, TYPE_CHECKING

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
    several: Whether it is a tuple of different values.
    may_be_empty: Whether it may be one of none.
    rule: A function of the value, by its name, that raises a ValueError if it can't be.
    word: A word that can stand for a number which only the run finds.
    selects: For an option that decides which other options are in use: from each of its values to
      the names of these.  With hierarchical_cut=distance, for example, distance_threshold is in
      use, and num_clusters is not.  The first value is the usual one.
    choices: For a setting of a `WithChoices`: from the names of choices to their dataclasses, or to
      rows that have one as `settings`.
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
  may_be_empty: bool = False
  rule: Callable[..., None] | None = None
  word: str | None = None
  selects: Mapping[str, tuple[str, ...]] | None = None
  choices: Mapping[str, Any] | None = None

  def value_for(self, num_clients: int) -> Any:
    """Returns the value where none is given, in a run of so many clients."""
    return self.default_for(num_clients) if self.default_for else self.default

  def stated_default(self) -> str:
    """Returns the default in words."""
    value = ",".join(map(str, self.default)) if isinstance(self.default, tuple) else self.default
    return self.default_text or ("none" if value in (None, "") else f"{value}")

  def described(self) -> str:
    """Returns the option's meaning and its default, in sentences."""
    return f"{self.about} Default: {self.stated_default()}."

  def read(self, texts: Sequence[str]) -> tuple[Any, ...]:
    """Returns the values that texts stand for; ValueError if a number is none."""
    try:
      return tuple(text if text == self.word else self.kind(text) for text in texts)
    except ValueError as e:
      rule = "be whole numbers" if self.kind is int else "be numbers"
      if self.word is not None:
        rule = f"be a whole number or {self.word}"
      raise validate.error(self.name, rule, ",".join(texts)) from e

  def check(self, value: Any) -> None:
    """Raises a ValueError unless the option can have this value.

    `None` stands for no value where that is the default, or may be given.
    """
    if value is None and (self.may_be_none or self.default is None and not self.required):
      return
    for one in value if self.several and value is not None else (value,):
      if self.values is not None:
        validate.one_of(self.values, **{self.name: one})
      if self.rule is not None:
        self.rule(**{self.name: one})
    if self.several:
      if len(set(value)) < len(value):
        raise validate.error(self.name, "name nothing twice", list(value))
      if not value and not self.may_be_empty:
        raise validate.error(self.name, "have at least one value", [])


def option(kind: type, about: str, default: Any = dataclasses.MISSING, **details: Any) -> Any:
  """Returns a dataclass field that is an option.

  Args:
    kind: The type of the values.
    about: What the option is, in sentences.
    default: The field's default; without one, the field must be given.
    **details: Further fields of `Option`.
  """
  required = default is dataclasses.MISSING
  metadata = {
      "kind": kind, "about": about, "default": None if required else default,
      "required": required, **details,
  }
  return dataclasses.field(default=default, metadata={_METADATA: metadata})


def changed(settings: type, name: str, **details: Any) -> Any:
  """Returns the field of an option for a subclass, with other details such as its default."""
  (field,) = (one for one in dataclasses.fields(settings) if one.name == name)
  return option(**{**field.metadata[_METADATA], **details, "required": False})


def of(settings: Any) -> dict[str, Option]:
  """Returns the options of a dataclass, in the order of its fields.

  Args:
    settings: The dataclass, an instance of it, or a registry's row that has it as `settings`.
  """
  settings = settings if dataclasses.is_dataclass(settings) else settings.settings
  return {
      field.name: Option(name=field.name, **field.metadata[_METADATA])
      for field in dataclasses.fields(settings)
      if _METADATA in field.metadata
  }


def _plain(value: Any) -> Any:
  if isinstance(value, tuple):
    return list(value)
  return value.to_json() if hasattr(value, "to_json") else value


@dataclasses.dataclass(frozen=True)
class Settings:
  """A base of dataclasses with options; one with a value that an option can't have is refused."""

  def __post_init__(self) -> None:
    for name, one in of(self).items():
      one.check(getattr(self, name))

  def to_json(self) -> dict[str, Any]:
    """Returns the fields as plain values, in their order."""
    return {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}


def by_name(
    choices: Mapping[str, Any], same_defaults: bool = False
) -> dict[str, dict[str, Option]]:
  """Returns all options of a registry.

  Args:
    choices: As in `Option`.
    same_defaults: Whether an option must have the same default in all choices that have
      it: for a setting that can name several choices at a time.

  Returns:
    A dict from option name to a dict from the names of the choices that have it to their
    `Option`.

  Raises:
    TypeError: If an option is not of the same kind, or has other values, in two choices;
      or another default, where that must be the same.
  """
  found: dict[str, dict[str, Option]] = {}
  for choice, row in choices.items():
    for name, one in of(row).items():
      found.setdefault(name, {})[choice] = one
  for name, users in found.items():
    if len({(one.kind, one.values, one.word) for one in users.values()}) > 1:
      raise TypeError(f"`{name}` must be the same option in {', '.join(users)}.")
    defaults = list(dict.fromkeys(one.stated_default() for one in users.values()))
    if same_defaults and len(defaults) > 1:
      raise TypeError(
          f"`{name}` must have the same default in {', '.join(users)}, got "
          f"{' and '.join(defaults)}."
      )
  return found


def chosen(setting: str, choices: Mapping[str, Any], name: Any, **asked: Any) -> Any:
  """Returns a choice with its options; `None` where one is not asked for.

  Args:
    setting: What the choice is of, for messages.
    choices: From the names of choices to their dataclasses.

  Raises:
    ValueError: If there is no such choice, or it does not take an option that is asked for, or
      not in its range.
  """
  validate.one_of(choices, **{setting: name})
  given = {option: value for option, value in asked.items() if value is not None}
  for option, value in given.items():
    if option not in of(choices[name]):
      users = " or ".join(by_name(choices)[option])
      raise validate.error(option, f"be left out unless `{setting}` is {users}", value)
  return choices[name](**given)


def _for_all(users: Mapping[str, Option]) -> Any:
  """Returns the field of a configuration for an option that these choices have."""
  first = next(iter(users.values()))
  about = " ".join(dict.fromkeys(one.about for one in users.values()))
  by_default: dict[str, list[str]] = {}
  for name, one in users.items():
    by_default.setdefault(one.stated_default(), []).append(name)
  if len(by_default) == 1:
    about, (default,) = f"{about} Used by {', '.join(users)}.", by_default
  else:
    default = "; ".join(f"{text} ({', '.join(names)})" for text, names in by_default.items())
  return option(
      first.kind, about, None, default_text=default, values=first.values, word=first.word
  )


class WithChoices(Settings):
  """A base of dataclasses, configurations in which the options of choices are settings too.

  After a setting that has `choices` come, as more fields, all the options of those; `None` = not
  given.

  Attributes:
    of_choices: From each such setting to what `by_name` returns for it.
  """

  of_choices: ClassVar[dict[str, dict[str, dict[str, Option]]]]

  if TYPE_CHECKING:

    def __getattr__(self, name: str) -> Any:
      """Returns an option of a choice."""

  def __init_subclass__(cls) -> None:
    cls.of_choices = {**getattr(cls, "of_choices", {})}
    annotations: dict[str, Any] = {}
    inherited = {name for one in cls.__mro__[1:] for name in getattr(one, "__annotations__", ())}
    for setting, annotation in cls.__annotations__.items():
      annotations[setting] = annotation
      metadata = getattr(cls.__dict__.get(setting), "metadata", {}).get(_METADATA, {})
      if "choices" in metadata and setting not in cls.of_choices:
        found = by_name(metadata["choices"], same_defaults=metadata.get("several", False))
        cls.of_choices[setting] = found
        for name, users in found.items():
          if name in inherited or name in annotations or name in cls.__annotations__:
            raise TypeError(f"`{name}` must be the name of one setting, got a second one.")
          annotations[name] = Any
          setattr(cls, name, _for_all(users))
    cls.__annotations__ = annotations

  def options_for(self, setting: str) -> dict[str, Any]:
    """Returns the options of all choices of a setting, by name; `None` where one is not given."""
    return {name: getattr(self, name) for name in self.of_choices[setting]}

  def _complete(self, choice: Any) -> None:
    """Sets the options of a choice that was made."""
    for name in of(choice):
      self._set(name, getattr(choice, name))

  def _set(self, name: str, value: Any) -> None:
    object.__setattr__(self, name, value)


def listed(rows: Mapping[str, Any]) -> str:
  """Returns what each row of a registry is, as its attribute `about` says."""
  return "; ".join(f"`{name}`: {row.about}" for name, row in rows.items()) + "."

"""Flags that follow from the options of a configuration."""

from typing import Any, Iterable, Mapping

from absl import flags

from clustering_basics import options
from clustering_basics import validate

_DEFINE = {
    bool: flags.DEFINE_bool, float: flags.DEFINE_float, int: flags.DEFINE_integer,
    str: flags.DEFINE_string,
}


def _text(value: Any) -> str:
  return f"{value:g}" if isinstance(value, float) else f"{value}"


def _define(option: options.Option, default: Any, about: str, **where: Any) -> None:
  name = option.name
  if option.several:
    flags.DEFINE_list(name, default and ",".join(map(_text, default)), about, **where)
  elif option.values is not None:
    flags.DEFINE_enum(name, default, list(option.values), about, **where)
  elif option.word is not None:
    flags.DEFINE_string(name, default, f"{about} Or `{option.word}`.", **where)
  else:
    _DEFINE[option.kind](name, default, about, **where)


def define(settings: type, special: Mapping[str, Any] = {}, where: str = "") -> None:
  """Defines a flag for every option of a configuration, a dataclass.

  The number of rounds, whose default is 10, is a flag with the value 10.  Where `special` says that
  20 rounds are the default on the digits, the flag has no value unless it is given: the default is
  known only with the data.  So it is with options whose default is stated in words.

  Args:
    special: The defaults of another kind of run, by name.
    where: What kind of run that is, in words.
  """
  for name, option in options.of(settings).items():
    default, about = option.default, option.about
    if option.default_text is not None or name in special:
      default, about = None, option.described()
    if name in special:
      about += f" {where}: {_text(special[name])}."
    # The flag belongs to the module of the configuration: `--helpfull` goes by modules.
    _define(option, default, about, module_name=settings.__module__)


def given(settings: type) -> dict[str, Any]:
  """Returns the values of a configuration's options that have one as flags, by name.

  Raises:
    ValueError: If a number, or a list of numbers, is none.
  """
  values = {}
  for name, option in options.of(settings).items():
    value = getattr(flags.FLAGS, name)
    if value is not None and option.several:
      value = option.read([text for text in value if text])
    elif value is not None and option.word is not None:
      (value,) = option.read([value])
    if value is not None:
      values[name] = value
  return values


def numbers(name: str) -> list[float] | None:
  """Returns the numbers of a flag that is a list, which may repeat; ValueError if one is none."""
  texts = flags.FLAGS[name].value
  try:
    return None if texts is None else [*map(float, texts)]
  except ValueError as e:
    raise validate.error(name, "be numbers", ",".join(texts)) from e


def check_left_out(names: Iterable[str], rule: str) -> None:
  """Raises a ValueError if one of these flags is given.

  Args:
    rule: What follows "must be left out", such as "without --data_dir".
  """
  for name in names:
    flag = flags.FLAGS[name]
    if not flag.using_default_value:
      value = ",".join(flag.value) if isinstance(flag.value, list) else flag.value
      raise validate.error(name, f"be left out {rule}", value)


def check_given(*names: str) -> None:
  """Raises a ValueError unless these flags have values."""
  for name in names:
    if flags.FLAGS[name].value is None:
      raise validate.error(name, "be given", None)

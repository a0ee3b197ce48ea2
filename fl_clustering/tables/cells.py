"""Cells of tables as text: which are missing, and which are numbers, as people write them.

It imports no NumPy, which takes time: options need this.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import unicodedata

# A missing cell has one of these texts.
MISSING = (
    "", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NAN", "-NaN", "-nan", "NaT", "null",
    "NULL", "Null", "None", "none", r"\N",
)
# Those that may be meant as a level: nothing of it, or it does not apply.
WORDS = ("None", "none", "N/A", "n/a")
# What may stand between thousands, and what messages call it.
THOUSANDS = {",": "commas", ".": "points", " ": "spaces", "'": "apostrophes"}
# From a decimal mark to the other one.
OTHER_DECIMAL = {".": ",", ",": "."}
# What people write, and what it is read as.
ODD_CHARACTERS = {"\u00a0": " ", "\u202f": " ", "\u2019": "'", "\u2212": "-"}

# RE2, which Arrow has, and Python read the same from these patterns.
_CORE = r"[+-]?[.,]?[0-9](?:[0-9., ']*[0-9.,])?(?:[eE][+-]?[0-9]+)?"
_LETTERS = "A-Za-zÀ-ÖØ-öø-ÿµμΩ°"
# Units such as x10E9/l, kg/m2 and ml/min/1.73m2 have digits, but no others: 2D4 is a code.
_WORD = (
    rf"(?:m[23]|x10|[{_LETTERS}/])"
    rf"(?:m[23]|H2|[/^*·.\-E][0-9]{{1,3}}|[{_LETTERS}²³%/^*·.\-]){{0,14}}"
)
_CURRENCY = "(?:[€$£¥]|EUR|USD|CHF|GBP|SEK|NOK|DKK|PLN|CZK|JPY|CAD|AUD|INR|CNY)"
_UNIT = rf"%|‰|[TKMtkm]?{_CURRENCY}|{_WORD}(?: {_WORD})?"
# The groups are a sign, a currency, the number, and a unit; or nothing but for the number.
DRESSED = rf"(?:[<>≤≥~]=? *)?([+-]?)(?:({_CURRENCY}) *)?({_CORE}) *({_UNIT})?"
# Months in English, German, Dutch, French, Spanish, Portuguese, Italian, Romanian, Polish, Finnish,
# and in the languages of Scandinavia: as spreadsheets shorten them, and some in full.
_MONTH = (
    r"(?i:[ij]an(?:uar[iy]?|uary|vier|eiro|v)?|ene(?:ro)?|gennaio|sty|tammi|"
    r"f[eé][bv](?:r(?:uar[iy]?|uary|ero|aio|ier)?|braio|ereiro)?|lut|helmi|"
    r"m[aä]r(?:s|zo?|ço|ch|t)?|mr[zt]|maart|maalis|a[bpv]r(?:ile?)?|kwi|huhti|"
    r"ma[ijy]o?|mei|maggio|touko|[ij]ui?n(?:[iey]|ho|io)?|giu(?:gno)?|cze|kesä|"
    r"[ij]ui?l(?:[iy]|let|ho|io)?|luglio|heinä|aug(?:ust(?:us|i)?)?|ago(?:sto)?|ao[uû]t|sie|"
    r"sept?|sett|wrz|syys|o[ck]t|ott|loka|nov|lis|marras|d[eé][czs]|dic|gru|joulu|"
    r"(?:se|o[cktu]|nov|d[eéi])[a-z]*b(?:er|re|ro))\.?"
)
# Those that are also words for what is counted, where no space stands before them.
_MONTH_OR_WORD = r"(?i:gen|mag|lug|lip|elo|set|out)\.?"
# A day, as spreadsheets make one of 5.5, with or without a year, or a month after its year.
DAY = (
    rf"(?:[0-2]?[0-9]|3[01]|(?:19|20)[0-9]{{2}})(?:[ ./\-]*{_MONTH}|[./\-] ?{_MONTH_OR_WORD})"
    r"(?:[ ./\-]*[0-9]{2,4})?"
)
# What they make of 1-4 and the like.
DATE = (
    rf"{DAY}|(?:{_MONTH}|{_MONTH_OR_WORD})[ ./\-]*[0-9]{{2,4}}|"
    "[0-9]{4}-[0-9]{2}-[0-9]{2}(?: 00:00:00)?"
)
# What are the same units: euros, the two letters mu, and litres, such as those in ml/min.
_SAME = (
    (re.compile(r"(?<![A-Za-z])EUR(?![A-Za-z])"), "€"), (re.compile("µ"), "μ"),
    (re.compile(rf"(?<![{_LETTERS}])([dcmuμnpf]?)L(?![{_LETTERS}])"), r"\1l"),
)
# Amounts as ledgers write those below zero.
AMOUNT = (
    rf"[(] *{_CURRENCY}? *{_CORE} *[)]|"
    rf"{_CURRENCY}? *{_CORE} *(?:{_CURRENCY} *)?(?:-|(?i:neg)\.?)"
)
# What begins or ends like a number with a unit, but is none.
NO_NUMBER = f"{DAY}|{AMOUNT}"
_SHARE = "p(?:ro|er|or|our) ?(?:[czs]i?ent|mil)[a-z]*|pct|pp[mb]"
_THOUSAND = (
    "th?sd|t[iy]s(?:[ií][ae]?c[a-z]*)?|thous[a-z]*|tausend|tus[ei]nd?|duizend|tuhat(?:ta)?|"
    f"[tkm](?:{_CURRENCY}|kr)"
)
# Most begin with mil, bil or tril: mila, milhões, miljard, billion.
_MILLION = (
    "(?:m|b|tr)il(?:a|l(?:es?)?|j|[lhj]?i?j?(?:[oóõã][neo]|[aá]rd)[a-z]*)?|"
    "mi[ao]|m[lr]+d|ml?n|bio|bl?n|trl?n|tn|lakhs?|crores?"
)
# Units that make another number of a number: shares of a hundred, powers of ten, multiples, and
# the sides of an account, DR and CR.
SCALE = (
    rf"%|‰|{_CURRENCY}?(?:x10.*|(?:k|K|M|B|Mds?|(?i:{_SHARE}|{_THOUSAND}|{_MILLION}|[dc]r))"
    rf"\.?(?:{_CURRENCY}| .*)?)"
)


def unit(text: str) -> str:
  """Returns a unit as one of several ways to write it; only of multiples do spaces stay."""
  for pattern, written in _SAME:
    text = pattern.sub(written, text)
  joined = text.replace(" ", "")
  is_scale = re.fullmatch(SCALE, text) and not re.fullmatch(SCALE, joined)
  return text if is_scale else joined


@functools.cache
def plain(decimal: str) -> str:
  """Returns the pattern of numbers with a decimal mark, infinity and NaN included."""
  mark = re.escape(decimal)
  return (
      rf"[+-]?(?:[0-9]+(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][+-]?[0-9]+)?|"
      r"[+-]?(?i:inf(?:inity)?|nan)"
  )


@functools.cache
def grouped(mark: str, decimal: str) -> str:
  """Returns the pattern of numbers with a mark between thousands."""
  return rf"[+-]?[0-9]{{1,3}}(?:{re.escape(mark)}[0-9]{{3}})+(?:{re.escape(decimal)}[0-9]*)?"


def composed(name: str) -> str:
  """Returns a name with every accent on its letter (NFC), as most systems write it."""
  return unicodedata.normalize("NFC", name)


def shown(mark: str) -> str:
  """Returns a mark between thousands as a flag's value for a shell."""
  return repr(mark) if mark in " '" else mark


def in_one_line(text: str) -> str:
  """Returns a text with a space in place of each line break and the white space around it."""
  return re.sub(r"\s*[\r\n]\s*", " ", text)


def is_number(cell: str, decimal: str = ".") -> bool:
  """Returns whether a cell's text is a number, infinity and NaN included."""
  return re.fullmatch(plain(decimal), cell.strip()) is not None


def number_of(cell: str, decimal: str) -> float:
  """Returns a cell's text as a float; what is no number is NaN."""
  if is_missing(cell) or not is_number(cell, decimal):
    return math.nan
  return float(cell.replace(",", ".") if decimal == "," else cell)


def is_missing(cell: str) -> bool:
  """Returns whether a cell's text says that there is no value."""
  return cell.strip() in MISSING


@dataclasses.dataclass(frozen=True)
class Style:
  """How a file writes numbers.

  Attributes:
    decimal: The decimal mark; None to find out.
    thousands: What may stand between thousands; None for nothing.
    strips_units: Whether a unit, a percent sign or a comparison is left out.
    likely: The decimal mark where a file leaves it open; None if that is an error.
  """

  decimal: str | None = None
  thousands: str | None = None
  strips_units: bool = False
  likely: str | None = None

  @property
  def is_plain(self) -> bool:
    """Whether numbers hold nothing but digits, signs and a decimal mark."""
    return self.thousands is None and not self.strips_units

  @property
  def decimals(self) -> tuple[str, ...]:
    """The decimal marks that numbers may have, the likelier first."""
    if self.decimal is not None:
      return (self.decimal,)
    likelier = OTHER_DECIMAL.get(self.thousands or ",", ".")
    return likelier, OTHER_DECIMAL[likelier]

  def number_of(self, cell: str) -> float:
    """Returns a cell's text as a float, whatever other cells hold; what is no number is NaN."""
    if is_missing(cell):
      return math.nan
    if not self.is_plain:
      cell = "".join(ODD_CHARACTERS.get(character, character) for character in cell.strip())
    if self.strips_units:
      dressed = None if re.fullmatch(NO_NUMBER, cell) else re.fullmatch(DRESSED, cell)
      cell = cell if dressed is None else dressed[1] + dressed[3]
    decimal = self.decimals[0]
    if self.thousands is not None and re.fullmatch(grouped(self.thousands, decimal), cell):
      cell = cell.replace(self.thousands, "")
    return number_of(cell, decimal)

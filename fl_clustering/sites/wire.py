"""Messages as bytes: a JSON header and raw arrays of numbers; no pickle.

A message is the length of its header (4 bytes, little endian), the header, and the arrays' bytes
one after another.  Nothing is allocated that is larger than the message.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any, Mapping

import numpy as np

# Coordinates that are sent, and masked answers.
_DTYPES = ("<f8", "<u8")
_LENGTH = struct.Struct("<I")
_MOST_DIMS = 2
# Of a header: parsed, it takes many times its length.
_MOST_HEADER = 2**20
_MOST_PRINTED = 300


class Refused(ValueError):
  """What a site does not answer, in one line, in which nothing is of its rows."""


def pack(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None) -> bytes:
  """Returns a message; the same contents are the same bytes."""
  described, parts = [], []
  for name, value in (arrays or {}).items():
    array = np.ascontiguousarray(value, "<u8" if value.dtype.kind == "u" else "<f8")
    described.append([name, array.dtype.str, list(array.shape)])
    parts.append(array.tobytes())
  document = {"header": header, "arrays": described}
  text = json.dumps(document, sort_keys=True, allow_nan=False).encode()
  return b"".join([_LENGTH.pack(len(text)), text, *parts])


def printable(text: str) -> str:
  """Returns another party's text as one short line that any terminal can print."""
  return "".join(filter(str.isprintable, " ".join(text[:_MOST_PRINTED].split())))


def _finite(text: str) -> float:
  number = float(text)
  if not math.isfinite(number):
    raise ValueError(f"{text} is no number")
  return number


def unpack(message: Any, most_bytes: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
  """Returns what `pack` was given, the arrays read-only.

  Args:
    most_bytes: The length that no message may exceed.

  Raises:
    Refused: If it is not such a message.
  """
  if not isinstance(message, bytes) or not _LENGTH.size <= len(message) <= most_bytes:
    raise Refused(f"a message must be of {_LENGTH.size} to {most_bytes} bytes")
  (length,) = _LENGTH.unpack_from(message)
  start = _LENGTH.size + length
  try:
    if length > _MOST_HEADER:
      raise ValueError("long header")
    document = json.loads(
        message[_LENGTH.size : start], parse_float=_finite, parse_constant=_finite
    )
    header, described = document["header"], document["arrays"]
    arrays: dict[str, np.ndarray] = {}
    for name, dtype, shape in described:
      arrays[name], start = _array(message, start, dtype, shape)
  except (ArithmeticError, KeyError, RecursionError, TypeError, ValueError):
    raise Refused("a message must have a header and the arrays that it describes") from None
  if start != len(message) or len(arrays) != len(described) or not isinstance(header, dict):
    raise Refused("a message must have a header and the arrays that it describes")
  return header, arrays


def _array(message: bytes, start: int, dtype: Any, shape: Any) -> tuple[np.ndarray, int]:
  """Returns an array of a message, and where it ends."""
  if dtype not in _DTYPES or len(shape) > _MOST_DIMS:
    raise ValueError("bad array")
  if not all(type(size) is int and 0 <= size <= len(message) for size in shape):
    raise ValueError("bad shape")
  count = math.prod(shape)
  end = start + np.dtype(dtype).itemsize * count
  # It raises a ValueError if the message is shorter.
  return np.frombuffer(message, dtype, count, start).reshape(shape), end

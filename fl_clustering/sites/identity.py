"""Who a site is: a name and an Ed25519 key, whose public half is handed out beforehand."""

from __future__ import annotations

import functools
import importlib
import json
import os
import re
import stat
from typing import Any

from clustering_basics import validate

KEY_BYTES = 32
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def primitives(name: str) -> Any:
  """Returns a module of `cryptography.hazmat.primitives`, which takes the extra `sites`.

  Raises:
    ModuleNotFoundError: If the package is not installed.
  """
  try:
    return importlib.import_module(f"cryptography.hazmat.primitives.{name}")
  except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "`cryptography` must be installed for sites, and isn't; install the extra `sites`, in the "
        'project\'s folder: uv pip install ".[sites]"'
    ) from None


def check_name(**argument: Any) -> None:
  """Checks for the name of a site: it is part of what is signed, so one spelling is allowed."""
  ((argument_name, name),) = argument.items()
  if not isinstance(name, str) or not _NAME.fullmatch(name):
    raise validate.error(
        argument_name, "be of at most 63 characters of a-z, 0-9, - and _, a letter or digit first",
        name,
    )


def write_secret(path: str, text: str) -> None:
  """Writes a new file that its owner alone can read."""
  with open(path, "xb", opener=functools.partial(os.open, mode=0o600)) as file:
    file.write(text.encode(errors="replace"))
    file.flush()
    os.fsync(file.fileno())


class Identity:
  """A site's name with its private key.

  Attributes:
    public: The public key, raw.
  """

  def __init__(self, name: str, private: bytes) -> None:
    check_name(name=name)
    self.name = name
    self._private = private
    self._key = primitives("asymmetric.ed25519").Ed25519PrivateKey.from_private_bytes(private)
    self.public: bytes = self._key.public_key().public_bytes_raw()

  @classmethod
  def create(cls, name: str) -> Identity:
    """Returns a new identity, of the operating system's random bits."""
    return cls(name, os.urandom(KEY_BYTES))

  def sign(self, message: bytes) -> bytes:
    return self._key.sign(message)

  def write(self, path: str) -> None:
    write_secret(path, json.dumps({"name": self.name, "private": self._private.hex()}))

  @classmethod
  def load(cls, path: str) -> Identity:
    """Returns the identity of a file; ValueError says in one line what is wrong with it."""
    try:
      with open(path, encoding="utf-8", errors="replace") as file:
        mode, text = os.fstat(file.fileno()).st_mode, file.read()
    except OSError as e:
      raise validate.error("identity", f"be a file that can be read ({e.strerror})", path) from e
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
      raise validate.error("identity", "be a file that its owner alone may use", path)
    try:
      document = json.loads(text)
      return cls(document["name"], bytes.fromhex(document["private"]))
    except (KeyError, TypeError, ValueError):
      # What was read is no part of the message: it may be the key.
      raise validate.error("identity", "hold a name and a key", path) from None


def is_signed(public: bytes, signature: bytes, message: bytes) -> bool:
  """Returns whether the owner of a public key has signed a message."""
  exceptions = importlib.import_module("cryptography.exceptions")
  try:
    primitives("asymmetric.ed25519").Ed25519PublicKey.from_public_bytes(public).verify(
        signature, message
    )
  except (exceptions.InvalidSignature, ValueError):
    return False
  return True

"""The secret that workers and programs share, in a file on each of their machines."""

import hashlib
import os
import stat

from clustering_basics import validate

_MAX_BYTES = 2**16


def read(path: str) -> bytes:
  """Returns what stands for the secret between machines: 32 bytes, its SHA-256.

  White space around the secret does not count.

  Raises:
    ValueError: If the file can't be read, holds no secret, or is not for its owner alone.
  """
  try:
    with open(path, "rb") as file:
      mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
      secret = file.read(_MAX_BYTES + 1)
  except OSError as e:
    raise validate.error("token_file", f"be a file that can be read ({e.strerror})", path) from e
  if mode & (stat.S_IRWXG | stat.S_IRWXO):
    rule = f"be a file for its owner alone (its mode is {mode:o}; chmod 600)"
    raise validate.error("token_file", rule, path)
  if not 0 < len(secret.strip()) <= len(secret) <= _MAX_BYTES:
    raise validate.error("token_file", f"hold a secret of 1 to {_MAX_BYTES} bytes", path)
  return hashlib.sha256(secret.strip()).digest()

"""Downloads a file of known content."""

import hashlib
import http.client
import urllib.request

import tqdm

from experiment_shell import launch

_TIMEOUT_SECONDS = 60
_BLOCK_BYTES = 2**16


def download(url: str, sha256: str) -> bytes:
  """Returns the content of a file, which must have a digest, in hex.

  Raises:
    launch.RunFailed: If it can't be reached, or is another file.
  """
  try:
    with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response:
      total = response.headers.get("Content-Length")
      with tqdm.tqdm.wrapattr(
          response, "read", total and int(total), desc="download", disable=None
      ) as body:
        content = b"".join(iter(lambda: body.read(_BLOCK_BYTES), b""))
  except (OSError, http.client.HTTPException) as e:  # The second: an answer that was cut.
    raise launch.RunFailed(f"{url} can't be downloaded: {e}.") from e
  found = hashlib.sha256(content).hexdigest()
  if found != sha256:
    raise launch.RunFailed(f"{url} is not the file that was expected: SHA-256 {found}.")
  return content

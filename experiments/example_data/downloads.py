"""Downloads a file of known content."""

import hashlib
import urllib.error
import urllib.request

import tqdm

_TIMEOUT_SECONDS = 60
_BLOCK_BYTES = 2**16


class DownloadFailed(Exception):
  """The file can't be had; the message says why."""


def download(url: str, sha256: str) -> bytes:
  """Returns the content of a file, which must have a digest, in hex.

  Raises:
    DownloadFailed: If it can't be reached, or is another file.
  """
  content = bytearray()
  try:
    with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response:
      total = response.headers.get("Content-Length")
      with tqdm.tqdm(
          total=total and int(total), unit="B", unit_scale=True, desc="download", disable=None
      ) as bar:
        while block := response.read(_BLOCK_BYTES):
          content += block
          bar.update(len(block))
  except (OSError, urllib.error.URLError) as e:
    raise DownloadFailed(f"{url} can't be downloaded: {e}") from e
  found = hashlib.sha256(content).hexdigest()
  if found != sha256:
    raise DownloadFailed(f"{url} is not the file that was expected: SHA-256 {found}")
  return bytes(content)

"""What to say where packages of the extra `federated` are missing."""

import sys

# The modules of the extra's packages.
FEDERATED = ("grpc", "tensorflow", "tensorflow_federated")
_FIRST_WITHOUT_TFF = (3, 12)


def can_have_tff() -> bool:
  """Returns whether there is a TFF for this Python."""
  return sys.version_info < _FIRST_WITHOUT_TFF


def advice() -> str:
  """Returns how to get the extra, or why this Python can't have it."""
  if not can_have_tff():
    version = ".".join(map(str, sys.version_info[:2]))
    return (
        "the extra `federated` needs Python 3.10 or 3.11, where TensorFlow Federated ends, and "
        f"this is Python {version}"
    )
  return 'install the extra `federated`, in the project\'s folder: uv pip install ".[federated]"'

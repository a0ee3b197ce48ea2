"""The contestants by name.

To add one: a module with a function `serve`, as `contestant_process.py` says, a lock file
with hashes if it needs other packages than this project, and a row in `CONTESTANTS`.
"""

import dataclasses
from typing import Mapping


@dataclasses.dataclass(frozen=True)
class Contestant:
  """A row of `CONTESTANTS`.

  Attributes:
    label: What it is called in reports.
    module: The module that serves its rounds.
    packages: Those whose versions are recorded.
    requirements: The lock file of its environment; None for this project's.
    download_megabytes: About how much installing it downloads.
    disk_megabytes: About how much its environment takes on disk.
    variables: Environment variables of its process.
  """

  label: str
  module: str
  packages: tuple[str, ...]
  requirements: str | None = None
  download_megabytes: int = 0
  disk_megabytes: int = 0
  variables: Mapping[str, str] = dataclasses.field(default_factory=dict)


PLAIN = "plain"
OURS = "ours"

CONTESTANTS = {
    PLAIN: Contestant("plain TensorFlow", "bench.contest.plain_rounds", ("tensorflow",)),
    OURS: Contestant("ours", "bench.contest.our_rounds", ("tensorflow-federated", "tensorflow")),
    "tff": Contestant(
        "TFF's own FedAvg", "bench.contest.tff_rounds", ("tensorflow-federated", "tensorflow")
    ),
    "pfl": Contestant(
        "Apple's pfl",
        "bench.contest.pfl_rounds",
        ("pfl", "tensorflow-cpu", "tf-keras"),
        requirements="requirements-pfl.txt",
        download_megabytes=280,
        disk_megabytes=1700,
        variables={"TF_USE_LEGACY_KERAS": "1"},
    ),
    "flower": Contestant(
        "Flower with Ray",
        "bench.contest.flower_rounds",
        ("flwr", "ray", "tensorflow-cpu"),
        requirements="requirements-flower.txt",
        download_megabytes=380,
        disk_megabytes=1850,
        variables={"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"},
    ),
    "fedjax": Contestant(
        "fedjax",
        "bench.contest.fedjax_rounds",
        ("fedjax", "jax"),
        requirements="requirements-fedjax.txt",
        download_megabytes=95,
        disk_megabytes=620,
    ),
}

# Those that a user may leave out.
PEERS = tuple(name for name in CONTESTANTS if name not in (PLAIN, OURS))

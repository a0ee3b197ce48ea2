"""The tables and files of a run: their names, and the columns of the tidy ones beside the seed."""

from experiment_shell import tidy_experiment
from experiment_shell import tidy_tables

CURVES, CLIENTS, EXAMPLES, WARNINGS = "curves", "clients", "examples", "warnings"
NUM_CLUSTERS, RECOVERY, DISTANCES = "num_clusters", "group_recovery", "distances"
PROFILES = "profiles"
WEIGHTS = "client_weights.npz"
# Phases of `clients.csv`, beside phase 1: with the models of phase 2, and those of phase 3.
CLUSTER, EVALUATE, NEW_CLIENTS = "cluster", "evaluate", "new_clients"
SAVED = "saved"  # The metric of the method whose models are saved.

TIDY: dict[str, tidy_tables.Columns] = {
    tidy_experiment.RESULTS: {"method": str, "cluster": int},
    CURVES: {"method": str, "cluster": int, "round": int},
    CLIENTS: {"phase": str, "method": str, "client": str},
    EXAMPLES: {"client": str, "group": str, "new": int, "part": str, "label": int},
    WARNINGS: {"method": str, "warning": str},
    NUM_CLUSTERS: {"criterion": str, "num_clusters": int, "chosen": int},
    RECOVERY: {"method": str, "representation": str, "epochs": str, "used": int},
    DISTANCES: {"client": str, "other": str},
}

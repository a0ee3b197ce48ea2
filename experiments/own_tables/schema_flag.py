"""The flag of the schema of clients' tables, which several programs have."""

from experiment_shell import path_flag

path_flag.define(
    "schema", None,
    "File that says what the clients' tables hold, as experiments:draft_schema drafts it.")

"""The flag of the secret that workers and programs share, for both of them."""

from experiment_shell import path_flag

path_flag.define(
    "token_file", None,
    "File with the secret of the workers, the same at all of them and at the programs that use "
    "them: a worker closes every connection that does not begin with it. Only the file's owner "
    "may be allowed to read it.")

"""What several sites agree on before a fit, and the kits by which they reach the operator.

  python -m experiments.federation --new=trial --sites=north.pub,south.pub,east.pub \\
      --schema=schema.json --epsilon=4 --delta=1e-6 --min_sites=2 \\
      --output=federation.json
  python -m experiments.federation --kits=federation.json --host=sums.example.org \\
      --output_dir=kits

The first one is for one of the sites, which hands the file to the others; the second one is for the
operator.
"""

import os
from typing import Any

from absl import flags

from clustering_basics import validate
from experiment_shell import launch
from experiment_shell import option_flags
from experiment_shell import path_flag
from experiments.own_tables import schema_flag  # Defines `--schema`.  pylint: disable=unused-import
from fl_clustering.sites import federation as federation_lib
from fl_clustering.sites import nvflare_kit
from fl_clustering.tables import encode
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import views

flags.DEFINE_string("new", None, "Write a federation file of this name.")
flags.DEFINE_list("sites", None, "Files of the sites' public keys, three or more (--new).")
flags.DEFINE_float("epsilon", None, "The privacy budget of a row for all fits together (--new).")
flags.DEFINE_float("delta", None, "Failure probability of the privacy (--new).")
flags.DEFINE_float(
    "radius", None,
    "Rows farther from the origin, in the schema's units, are moved to this distance (--new). "
    "Default: the largest that the schema allows, which moves none within five units.")
flags.DEFINE_list(
    "view_norms", None,
    "In the place of --radius, for a schema of views: likewise a distance for each, in the order "
    "of their names (--new).")
flags.DEFINE_integer(
    "max_points", None,
    "Protect all rows of a client together, and use at most so many of each (--new). Default: "
    "protect one row.")
flags.DEFINE_integer(
    "min_sites", None,
    "How many sites are certain to add their share of the noise and to keep it secret (--new). The "
    "fewer, the larger the noise. Default: 2.")
flags.DEFINE_bool(
    "exact", False,
    "Sums without noise, in the place of --epsilon (--new). They can show rows to the operator.")
path_flag.define_output("output", "The federation file to write, which must not exist (--new).")
path_flag.define("kits", None, "Make the kits of all sites of this federation file.")
flags.DEFINE_string(
    "host", None, "The name by which sites reach the operator's machine (--kits).")
flags.DEFINE_integer("port", None, "The port that they reach there (--kits). Default: 8002.")
path_flag.define(
    "output_dir", None, "New folder for NAME.json of every site, and the operator's own (--kits).")

_PRIVACY = ("epsilon", "delta", "radius", "view_norms", "max_points", "min_sites")
_OF_KITS = ("host", "port", "output_dir")
_MIN_SITES, _PORT = 2, 8002


def _public_keys(paths: list[str]) -> dict[str, str]:
  found: dict[str, str] = {}
  for path in paths:
    with open(path, encoding="utf-8", errors="replace") as file:
      words = file.read(1000).split()
    if len(words) != 2 or words[0] in found:
      raise validate.error("sites", "be files that `experiments.site --new` wrote, each once", path)
    found[words[0]] = words[1]
  return found


def _privacy(schemas: schema_lib.Schemas) -> dict[str, Any]:
  """Returns the part of the file that says how rows are protected."""
  given = flags.FLAGS
  if given.exact:
    option_flags.check_left_out(_PRIVACY, "with --exact")
    return {"exact": True}
  if schema_lib.NO_VIEW not in schemas:
    option_flags.check_left_out(("max_points",), "with a schema of views")
  option_flags.check_given("epsilon", "delta")
  norms, warnings = encode.checked_norms(schemas, given.radius, option_flags.numbers("view_norms"))
  for text in warnings:
    print(f"warning: {text}")
  settings = {name: given[name].value for name in _PRIVACY if given[name].value is not None}
  return {"privacy": {"min_sites": _MIN_SITES, **settings, **norms}}


def _new() -> None:
  with launch.input_errors():
    option_flags.check_left_out(_OF_KITS, "with --new")
    option_flags.check_given("sites", "schema", "output")
    given = flags.FLAGS
    if os.path.exists(given.output):
      raise validate.error("output", "not exist", given.output)
    schemas = views.load(given.schema)
    federation = federation_lib.Federation({
        "format": 1, "name": given.new, "sites": _public_keys(given.sites),
        "schema": federation_lib.schema_hash(schemas),
        "widths": [len(one.feature_names) for one in schemas.values()],
        **_privacy(schemas),
    })
    federation.write(given.output)
  print(f"sites: {', '.join(federation.sites)}", *federation.terms, sep="\n")
  print(f"fingerprint: {federation.fingerprint}", f"federation file: {given.output}", sep="\n")


def _kits() -> None:
  with launch.input_errors():
    option_flags.check_left_out((*_PRIVACY, "exact", "sites", "schema", "output"), "with --kits")
    option_flags.check_given("host", "output_dir")
    given = flags.FLAGS
    federation = federation_lib.Federation.load(given.kits)
    port = _PORT if given.port is None else given.port
    kits = nvflare_kit.provision(federation.sites, given.host, port, given.output_dir)
  print(*(f"to hand to one site alone: {kit}" for kit in kits), sep="\n")
  print(f"secret: {os.path.join(given.output_dir, nvflare_kit.OPERATOR)}")


def main() -> None:
  with launch.input_errors():
    if (flags.FLAGS.new is None) == (flags.FLAGS.kits is None):
      raise validate.error("new", "be given, or else `kits`", flags.FLAGS.new)
  if flags.FLAGS.new is not None:
    _new()
  else:
    _kits()


if __name__ == "__main__":
  launch.run(main)

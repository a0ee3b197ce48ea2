"""What the columns of all clients are for, agreed on by name."""

import dataclasses
import re
import shlex

from fl_clustering.tables import cells

# Names of columns that number rows or people.
_LIKE_AN_ID = re.compile(
    r"(.*[_ .-])?(id|index|uuid|row|rownum|nr|unnamed: 0)|__index_level_\d+__|.*[a-z](Id|ID)|"
    r"(row|record|case|sample|person|people|patient|subject|participant|user|customer|client|visit)"
    r"[_ .-]?(id|no|nr|num|number|key|code|name)"
)
# Names of columns that say whose row it is.
_LIKE_A_CLIENT = re.compile(
    r"(client|site|hospital|clinic|center|centre|institution|school|branch)"
    r"([_ .-]?(id|no|nr|num|number|key|code|name))?"
)
# What may be wrong if there is one client only.
SEVERAL_CLIENTS = (
    "--client_column says whose row it is, where a table holds the rows of several clients"
)


@dataclasses.dataclass(frozen=True)
class Columns:
  """The columns that are used.

  Attributes:
    features: The features' names, in the order of the first file.
    categories: Those of them that hold levels.
    roles: The other columns' names, by role; see `TableOptions.roles`.
  """

  features: tuple[str, ...]
  categories: tuple[str, ...]
  roles: dict[str, str]

  @property
  def numbers(self):
    """The features that hold numbers."""
    return tuple(name for name in self.features if name not in self.categories)

  @property
  def texts(self):
    """All other columns that are used."""
    return (*self.categories, *self.roles.values())


def check_known(heads, options):
  """Raises a ValueError if an option names a column that no file has.

  Args:
    heads: The `Head`s of all files, with names.
    options: `TableOptions`.
  """
  known = {name for head in heads for name in head.names}
  asked = {
      "columns": options.columns or (), "exclude": options.exclude,
      "categories": options.categories, **{role: (name,) for role, name in options.roles.items()},
  }
  for argument, names in asked.items():
    for name in names:
      if name not in known:
        raise ValueError(
            f"`{argument}` must name columns of the tables, got {name!r}; {heads[0].path!r} has "
            f"{cells.listed(heads[0].names)}."
        )


def _check_same(heads, options, names, owner):
  """Raises `BadTable` unless every file has these columns, and no others if all are used.

  Args:
    heads: The `Head`s of all files.
    options: `TableOptions`.
    names: The names of the columns that are used.
    owner: Who has these columns, in words.
  """
  lacked, further = [], []
  for head in heads:
    lacked += [(name, head.path) for name in names if name not in head.names]
    if options.columns is None:
      others = {*names, *options.exclude}
      further += [(name, head.path) for name in head.names if name not in others]
  for name, path in lacked:
    if name in options.roles.values():
      raise cells.BadTable(f"it has no column {name!r}, and {owner} has", path)
  left_out = tuple(dict.fromkeys(name for name, _ in (*lacked, *further)))
  for name, path in lacked:
    raise cells.BadTable(
        f"it has no column {name!r}, and {owner} has", path, (cells.LEAVES_OUT,), exclude=left_out
    )
  for name, path in further:
    raise cells.BadTable(
        f"it has a column {name!r}, and {owner} has none", path, (cells.LEAVES_OUT,),
        exclude=left_out,
    )


def _check_no_id(head, features):
  """Raises `BadTable` if rows would be clustered by their numbers."""
  found = []
  for position, name in enumerate(head.names):
    # Where the other columns have names, one without holds what R and pandas number rows by.
    is_unnamed = head.has_header and not head.first_line[position]
    is_like = _LIKE_AN_ID.fullmatch(name) or _LIKE_AN_ID.fullmatch(name.lower())
    if name in features and (is_unnamed or is_like):
      found.append((position + 1, name))
  if found:
    names = tuple(name for _, name in found)
    raise cells.BadTable(
        f"column {found[0][0]}, {names[0]!r}, looks like the rows' ids{cells.also(names[1:])}",
        head.path, (
            f"--id_column={shlex.quote(names[0])} names the rows by it instead",
            cells.LEAVES_OUT,
            "--columns, if there are no views, takes it as a feature",
        ), exclude=names,
    )


def check_no_clients(head, options):
  """Raises `BadTable` if one table seems to say whose row it is, and no option is about that.

  Args:
    head: The table's `Head`, with names.
    options: `TableOptions`.
  """
  if options.client_column is not None or options.columns is not None:
    return
  others = {*options.roles.values(), *options.exclude, *options.categories}
  for position, name in enumerate(head.names):
    if name not in others and _LIKE_A_CLIENT.fullmatch(name.lower()):
      problem = f"column {position + 1}, {name!r}, looks like the clients' names"
      if options.allow_any_number:  # A row would say which clients there are.
        raise cells.BadTable(problem, head.path, (cells.LEAVES_OUT,), exclude=(name,))
      raise cells.BadTable(
          problem, head.path, (SEVERAL_CLIENTS, cells.LEAVES_OUT), client_column=name
      )


def agree(heads, options):
  """Returns the `Columns` that are used of all files.

  Args:
    heads: The `Head`s of all files, with names.
    options: `TableOptions`.

  Raises:
    ValueError: If an option names a column that is nowhere.
    BadTable: If a file lacks a column, has one too many, or would give ids as a feature.
  """
  check_known(heads, options)
  others = {*options.roles.values(), *options.exclude}
  features = options.columns
  if features is None:
    features = tuple(name for name in heads[0].names if name not in others)
  categories = tuple(name for name in features if name in options.categories)
  columns = Columns(features, categories, options.roles)
  used = (*features, *options.roles.values())
  _check_same(heads, options, used, repr(heads[0].path))
  if not features:
    raise cells.BadTable("no column is left for the features", heads[0].path)
  if options.columns is None:
    _check_no_id(heads[0], features)
  return columns


def check(heads, columns, options):
  """Raises `BadTable` unless all files have a model's columns, and no others if all are used.

  Args:
    heads: The `Head`s of all files, with names.
    columns: The model's `Columns`.
    options: `TableOptions`.
  """
  used = (*columns.features, *columns.roles.values())
  _check_same(heads, options, used, "the model")

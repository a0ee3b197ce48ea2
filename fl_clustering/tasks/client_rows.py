"""The rows of clients with tables, in a folder or at sites, before they become a task."""

import abc
import dataclasses
from typing import Collection, Mapping

import numpy as np

from fl_clustering.tables import table_format
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import held_out

Made = tuple[tuple[federated_task.ClientData, ...], table_format.TableFormat]


@dataclasses.dataclass(frozen=True, eq=False)
class ClientRows(abc.ABC):
  """The rows of the clients' tables, wherever they are.

  Attributes:
    argument: What messages call the place.
    place: The place, for messages.
    where: The place, in a few words.
    format: How the tables become features, before any scaling.
    num_rows: The clients' numbers of rows, by client id.
  """

  argument: str
  place: str
  where: str
  format: table_format.TableFormat
  num_rows: Mapping[str, int]

  @property
  def digests(self) -> Mapping[str, str]:
    """A digest of every client's rows by client id; none where sites keep them."""
    return {}

  @property
  def warnings(self) -> tuple[str, ...]:
    """What is odd about the rows, in words."""
    return ()

  @abc.abstractmethod
  def told_tests(self) -> held_out.TestRows | None:
    """Returns which rows are for testing; None if no column says so."""

  @abc.abstractmethod
  def make_clients(
      self, tests: held_out.TestRows, usable: Collection[str], training: Collection[str],
      validation: Mapping[str, np.ndarray],
  ) -> Made:
    """Returns the usable clients with scaled features, and how the tables became these.

    Args:
      tests: Which rows are for testing.
      usable: The ids of the clients.
      training: The ids of those whose training rows count for the scaling.
      validation: Which of these clients' training rows are for validation, bool of shape
        (num_train,) by id; other clients have none.
    """

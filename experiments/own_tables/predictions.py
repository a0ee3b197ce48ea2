"""The table of what a model predicts for the rows of clients."""

import csv
from typing import Any, Iterable, Iterator, Mapping

from clustering_basics import atomic_file

# In the folder of a run, by default.
FILE = "predictions.csv"
FILES = {FILE: "the clusters of rows that came later, once experiments:predict has run"}

# A client's id, what names its rows, and what is predicted for them.
_OfClient = tuple[str, Mapping[str, Any], Mapping[str, Any]]


def write(path: str, predictions: Iterable[_OfClient]) -> Iterator[_OfClient]:
  """Writes a line for every row; yields each client's predictions once they are written.

  Args:
    path: Of the file, which is there when all are.
    predictions: As `load_model.SavedModel.predict_tables` yields them.
  """
  with atomic_file.atomic_path(path) as temporary:
    with open(temporary, "w", encoding="utf-8", newline="") as file:
      writer = csv.writer(file, lineterminator="\n")
      for place, (client_id, names, predicted) in enumerate(predictions):
        if not place:
          writer.writerow(("client", *names, *predicted))
        columns = (*names.values(), *map(list, predicted.values()))
        writer.writerows((client_id, *row) for row in zip(*columns))
        yield client_id, names, predicted

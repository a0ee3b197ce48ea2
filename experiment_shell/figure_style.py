"""The look of figures: colours and sizes; and how figures are saved.

Figures use matplotlib's objects only.  Without pyplot, no figure can leave state to the
next.

Methods have the colours of Okabe and Ito ("Color Universal Design", 2008,
https://jfly.uni-koeln.de/color/).  Clusters and labels have those of Paul Tol's "muted"
scheme ("Colour Schemes", 2021, https://personal.sron.nl/~pault/).  People with any kind of
colour vision can tell the colours of each scheme apart, and one scheme from the other.
"""

from __future__ import annotations

import contextlib
import io
from typing import Any, Iterator, Sequence, TypeVar
import warnings

import matplotlib
from matplotlib import layout_engine
from matplotlib.backends import backend_agg
from matplotlib.figure import Figure
import numpy as np
from PIL import Image

from clustering_basics import atomic_file

_T = TypeVar("_T")

WIDTH = 4.6  # Inches.  So labels are large enough on a phone.
_DPI = 160
_SETTINGS: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#6a6f75",
    "xtick.color": "#6a6f75",
    "ytick.color": "#6a6f75",
    "xtick.labelcolor": "#1c1e21",
    "ytick.labelcolor": "#1c1e21",
    "grid.color": "#e3e6e9",
    "axes.axisbelow": True,
}

METHOD_COLORS = {
    "blue": "#0072b2",
    "vermilion": "#d55e00",
    "green": "#009e73",
    "orange": "#e69f00",
    "purple": "#cc79a7",
    "sky blue": "#56b4e9",
    "black": "#000000",
    "yellow": "#b8a900",  # Darker than the original, for lines on white.
    "grey": "#4d4d4d",  # For baselines.
}
CATEGORY_COLORS = (
    "#332288", "#44aa99", "#cc6677", "#ddcc77", "#88ccee", "#882255", "#117733", "#aa4499",
    "#999933",
)
QUIET = "#8a9097"


@contextlib.contextmanager
def style() -> Iterator[None]:
  """Applies this module's style instead of the user's while figures are drawn."""
  with matplotlib.rc_context():
    matplotlib.rcdefaults()
    matplotlib.rcParams.update(_SETTINGS)
    yield


def new_figure(height: float) -> Figure:
  """Returns an empty figure of so many inches."""
  layout = layout_engine.ConstrainedLayoutEngine(w_pad=0.07, h_pad=0.06)
  figure = Figure(figsize=(WIDTH, height), layout=layout)
  backend_agg.FigureCanvasAgg(figure)
  return figure


def shortened(text: str, length: int) -> str:
  """Returns text of at most `length` characters; what is longer has dots in its middle."""
  if len(text) <= length:
    return text
  end = (length - 3) // 2
  return f"{text[: length - 3 - end]}...{text[-end:]}"


def evenly_spaced(items: Sequence[_T], limit: int) -> list[_T]:
  """Returns at most `limit` of the items, evenly spaced, in their order."""
  if len(items) <= limit:
    return list(items)
  return [items[index] for index in np.linspace(0, len(items) - 1, limit).round().astype(int)]


def save(figure: Figure, path: str) -> None:
  """Writes the figure to `path` as PNG; the same figure gives the same bytes on one system.

  A palette makes the file a third as large, and looks the same.  Characters that matplotlib's own
  font lacks, such as Chinese ones, are boxes.
  """
  drawing = io.BytesIO()
  with atomic_file.atomic_path(path) as temporary, warnings.catch_warnings():
    warnings.filterwarnings("ignore", "Glyph .* missing from")
    figure.savefig(drawing, format="png", dpi=_DPI)
    with Image.open(drawing) as image:
      # Of Pillow's methods, this one keeps rare colours best, as those of thin lines.
      small = image.convert("RGB").quantize(
          method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
      )
    small.save(temporary, "PNG")

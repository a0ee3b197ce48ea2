"""How the methods of three-phase runs look in figures: the same in all of them."""

from typing import Any, Sequence

from experiment_shell import figure_style
from experiments.three_phase_emnist import method_names

Look = dict[str, Any]  # Keywords of a line, such as its colour.

_COLORS = {
    **figure_style.METHOD_COLORS,
    # Colours of clusters, as there are more methods than colours for methods.
    "wine": "#882255",
    "indigo": "#332288",
    "teal": "#44aa99",
    "rose": "#cc6677",
    "brown": "#7a4b1e",
}
_DOTTED_DASHES = (0, (4, 1, 1, 1))
# Colour, line and marker of known methods, which are the same in every run.
_KNOWN_LOOKS = {
    method_names.PRETRAIN: ("grey", "-", "."),
    "kmeans": ("blue", "-", "o"),
    "dynamic_distance": ("vermilion", "-", "s"),
    "hierarchical": ("green", "-", "^"),
    "ifca": ("sky blue", "-", "D"),
    "cfl": ("black", "-", "v"),
    "fesem": ("wine", "-", "X"),
    "pacfl": ("indigo", "-", "*"),
    "clove": ("teal", "-", "v"),
    "flexcfl": ("rose", "-", "s"),
    "flux": ("yellow", "-", "o"),
    method_names.LOCAL: ("brown", "--", "<"),
    method_names.FINETUNED: ("orange", _DOTTED_DASHES, ">"),
    "ditto": ("teal", "--", "D"),
    "fedrep": ("rose", "--", "^"),
    "apfl": ("indigo", "--", "v"),
    "mr_mtl": ("wine", "--", "s"),
    method_names.FEDAVG: ("purple", "--", "d"),
    method_names.FEDAVG_MATCHED: ("purple", _DOTTED_DASHES, "h"),
}
_SPARE_MARKERS = "pH8"


def method_looks(methods: Sequence[str]) -> dict[str, Look]:
  """Returns colour, line style and marker for each method, as keywords of a line.

  A known method always has the same look, and no two methods of a run have the same.
  """
  used = {_KNOWN_LOOKS[method][0] for method in methods if method in _KNOWN_LOOKS}
  # Colours that are not used come first.
  spare = sorted(figure_style.METHOD_COLORS, key=lambda color: color in used)
  others = [method for method in methods if method not in _KNOWN_LOOKS]
  known = dict(_KNOWN_LOOKS)
  for i, method in enumerate(others):
    marker = _SPARE_MARKERS[i % len(_SPARE_MARKERS)]
    known[method] = (spare[i % len(spare)], "-", marker)
  return {
      method: dict(zip(("color", "linestyle", "marker"), (_COLORS[color], line, marker)))
      for method, (color, line, marker) in ((method, known[method]) for method in methods)
  }


def line_looks(methods: Sequence[str]) -> dict[str, Look]:
  """Returns the look of every method's line.

  Methods that agree have the same curve.  Earlier ones are wider, so that they show
  beneath later ones.
  """
  looks = method_looks(methods)
  chosen = [m for m in methods if m not in (method_names.PRETRAIN, *method_names.CONTROLS)]
  step = min(0.8, 3 / max(len(chosen), 1))
  for method, look in looks.items():
    later = len(chosen) - 1 - chosen.index(method) if method in chosen else 0
    look["linewidth"] = 1.3 + step * later
    look["markersize"] = 4 + look["linewidth"] / 2
  return looks

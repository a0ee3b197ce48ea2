"""The colours of the methods, the same in all figures."""

from experiment_shell import figure_style
from experiments.three_phase import comparison

_KNOWN = {
    comparison.PRETRAIN: "grey",
    "kmeans": "blue",
    "dynamic_distance": "vermilion",
    "hierarchical": "green",
    comparison.LOCAL: "orange",
    comparison.FEDAVG: "purple",
}
_SPARE = ("sky blue", "black", "yellow")


def method_colors(methods):
  """Returns a colour for each method; a known method always has the same one."""
  others = [method for method in methods if method not in _KNOWN]
  spare = {method: _SPARE[index % len(_SPARE)] for index, method in enumerate(others)}
  return {
      method: figure_style.METHOD_COLORS[_KNOWN.get(method) or spare[method]]
      for method in methods
  }

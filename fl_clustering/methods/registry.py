"""The methods by name."""

from fl_clustering.methods import controls

# What runs beside the methods that are chosen; from the name to a function
# (Engine) -> Method.
CONTROLS = {"fedavg": controls.fedavg, "local": controls.local}

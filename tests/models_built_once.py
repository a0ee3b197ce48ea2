"""The models, built only once each: all tasks of a process get the same model.

TFF's computations are built once per model, which takes longer than a round on small data.
"""

import functools

from fl_clustering.tasks import models

MODELS = {
    # Rows are equal if their options are, so the cache knows them.
    name: type(row.__name__, (row,), {"__call__": functools.cache(row.__call__)})
    for name, row in models.MODELS.items()
}

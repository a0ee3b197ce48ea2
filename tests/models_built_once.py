"""The models, built only once each: all tasks of a process get the same `ImageModel`.

TFF's computations are built once per model, which takes longer than a round on small data.
"""

import dataclasses
import functools

from fl_clustering.tasks import models

MODELS = {
    name: dataclasses.replace(entry, build=functools.cache(entry.build))
    for name, entry in models.MODELS.items()
}

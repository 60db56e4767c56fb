"""Every kind of bad weather by its name."""

from storm.hostile_indexes import DamagedIndexes, Manifests, SealedIndexes
from storm.hostile_models import Checkpoints, DamagedModels, SealedModels
from storm.kind import Kind

KINDS: dict[str, type[Kind]] = {
    one.name: one
    for one in (
        DamagedIndexes,
        SealedIndexes,
        Manifests,
        DamagedModels,
        SealedModels,
        Checkpoints,
    )
}

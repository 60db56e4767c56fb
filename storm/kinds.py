"""Every kind of bad weather by its name."""

from storm.hostile_images import Images, Photos
from storm.hostile_indexes import DamagedIndexes, Manifests, SealedIndexes
from storm.hostile_models import Checkpoints, DamagedModels, SealedModels
from storm.hostile_numbers import Numbers
from storm.hostile_settings import Runs, Settings, Words
from storm.hostile_vectors import Pickles, VectorFiles
from storm.kills import Failures, Kills
from storm.kind import Kind
from storm.limits import Limits
from storm.lives import Lives
from storm.power import PowerCuts
from storm.races import Races

KINDS: dict[str, type[Kind]] = {
    one.name: one
    for one in (
        DamagedIndexes,
        SealedIndexes,
        Manifests,
        DamagedModels,
        SealedModels,
        Checkpoints,
        Images,
        Photos,
        VectorFiles,
        Pickles,
        Numbers,
        Settings,
        Words,
        Runs,
        Lives,
        Kills,
        Failures,
        PowerCuts,
        Limits,
        Races,
    )
}

"""The items of a run, opened: all of them, or what one process has of shards."""

from pathlib import Path

from gradsnap.data import Dataset, ImageOptions, open_dataset
from gradsnap.data.shards import list_part, reader_of
from gradsnap.data.sources import shards_at
from gradsnap.training.config import DataSettings
from gradsnap.training.processes import Processes


def open_items(settings: DataSettings, processes: Processes | None = None) -> Dataset:
    """The data set of the settings; of one in shards, what this process has of it."""
    labelled = (
        settings.pairs is None
        and settings.triplets is None
        and not settings.ignore_labels
    )
    address = settings.source if settings.sharded else None
    address = address or shards_at(settings.source, settings.root)
    if address is not None:
        return _open_part(address, settings, labelled, processes or Processes())
    return open_dataset(
        settings.source,
        settings.root,
        side=settings.side,
        channels=settings.channels,
        skip_bad=settings.skip_bad,
        labelled=labelled,
    )


def _open_part(
    address: str, settings: DataSettings, labelled: bool, processes: Processes
) -> Dataset:
    """What this process has of a source in shards, with what all have to know."""
    read = (settings.side, settings.channels, settings.skip_bad, labelled)
    options = ImageOptions(*read)
    rank, world = processes.rank, processes.world
    kept = None if settings.cache is None else Path(settings.cache)
    part = list_part(reader_of(address), options, rank, world, settings.lanes, kept)
    return part.dataset(processes.exchanged(part.summary()), rank)

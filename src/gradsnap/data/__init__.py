"""Data: images and vectors by index, and the protocols that divide them."""

from gradsnap.data.ahead import ReadAhead
from gradsnap.data.augment import (
    Augmentation,
    Augmentations,
    ProjectiveJitter,
    RandomCrop,
    RandomFlip,
)
from gradsnap.data.cifar10 import open_cifar10
from gradsnap.data.dataset import (
    Dataset,
    Items,
    OrderedBatches,
    StoredItems,
    in_memory,
    loader,
)
from gradsnap.data.digits import open_digits
from gradsnap.data.folders import open_folder
from gradsnap.data.ilsvrc import open_ilsvrc
from gradsnap.data.images import ImageFiles, ImageOptions, StoredImages, decode_image
from gradsnap.data.label_lists import open_csv, read_label_list
from gradsnap.data.mnist import open_mnist
from gradsnap.data.nuswide import open_nuswide
from gradsnap.data.pairs import Pairs, file_hash, read_pairs, read_triplets
from gradsnap.data.protocols import (
    NAME_PROTOCOLS,
    PAIR_PROTOCOLS,
    PROTOCOLS,
    ROW_PROTOCOLS,
    FractionProtocol,
    IlsvrcProtocol,
    NameProtocol,
    NuswideProtocol,
    PairProtocol,
    PaperProtocol,
    Protocol,
    RowProtocol,
    SampledSplit,
    Split,
    UnseenClasses,
    components,
)
from gradsnap.data.shards import ShardedDataset, open_shards
from gradsnap.data.sources import DATASETS, open_dataset
from gradsnap.data.vectors import open_vectors

__all__ = [
    "DATASETS",
    "NAME_PROTOCOLS",
    "PAIR_PROTOCOLS",
    "PROTOCOLS",
    "ROW_PROTOCOLS",
    "Augmentation",
    "Augmentations",
    "Dataset",
    "FractionProtocol",
    "IlsvrcProtocol",
    "ImageFiles",
    "ImageOptions",
    "Items",
    "NameProtocol",
    "NuswideProtocol",
    "OrderedBatches",
    "PairProtocol",
    "Pairs",
    "PaperProtocol",
    "ProjectiveJitter",
    "Protocol",
    "RandomCrop",
    "RandomFlip",
    "ReadAhead",
    "RowProtocol",
    "SampledSplit",
    "ShardedDataset",
    "Split",
    "StoredImages",
    "StoredItems",
    "UnseenClasses",
    "components",
    "decode_image",
    "file_hash",
    "in_memory",
    "loader",
    "open_cifar10",
    "open_csv",
    "open_dataset",
    "open_digits",
    "open_folder",
    "open_ilsvrc",
    "open_mnist",
    "open_nuswide",
    "open_shards",
    "open_vectors",
    "read_label_list",
    "read_pairs",
    "read_triplets",
]

"""Embeddings that survive quantization, searched by codes of a few bytes.

Names are imported when they are first used, so that ``gradsnap --help`` need not wait
for torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradsnap import (
        coders,
        data,
        evaluation,
        export,
        index,
        inference,
        layers,
        losses,
        methods,
        networks,
        serve,
        training,
        triplets,
    )
    from gradsnap.coders import (
        Coder,
        Hasher,
        Quantizer,
        load_coder,
    )
    from gradsnap.coders.quantizers import (
        AdditiveQuantizer,
        CompositeQuantizer,
        GeneralizedResidualQuantizer,
        LocallyOptimizedProductQuantizer,
        OptimizedProductQuantizer,
        ProductQuantizer,
        ResidualQuantizer,
        SupervisedQuantizer,
    )
    from gradsnap.errors import (
        FileFormatError,
        GradsnapError,
        InputError,
        NotFittedError,
    )
    from gradsnap.evaluation import (
        mean_average_precision,
    )
    from gradsnap.index import (
        ExhaustiveIndex,
        HalfPrecision,
        HammingIndex,
        InvertedIndex,
        LocallyOptimizedIndex,
        LongerCode,
        MultiIndex,
        SearchResult,
        load_index,
    )
    from gradsnap.inference.embedding import (
        embed,
    )
    from gradsnap.inference.model import (
        Model,
        load,
    )
    from gradsnap.layers import (
        CodeSnapping,
        GradientSnapping,
        OutputRegularization,
        PrintedRule,
        SnappingRule,
        SoftAssignment,
        StraightThrough,
    )
    from gradsnap.losses import (
        ClassificationLoss,
        ContrastiveLoss,
        ListwiseLoss,
        NeighborLoss,
        PairwiseCosineLoss,
        PairwiseLogisticLoss,
        Relations,
        SupervisedContrastiveLoss,
        TripletLoss,
    )
    from gradsnap.methods import (
        QuantizationPenalty,
    )
    from gradsnap.networks import (
        build_network,
    )
    from gradsnap.serve.client import (
        connect,
    )

__version__ = "0.1.0.dev0"

_HOMES = {
    "coders": (
        "Coder",
        "Hasher",
        "Quantizer",
        "load_coder",
    ),
    "coders.quantizers": (
        "AdditiveQuantizer",
        "CompositeQuantizer",
        "GeneralizedResidualQuantizer",
        "LocallyOptimizedProductQuantizer",
        "OptimizedProductQuantizer",
        "ProductQuantizer",
        "ResidualQuantizer",
        "SupervisedQuantizer",
    ),
    "errors": (
        "FileFormatError",
        "GradsnapError",
        "InputError",
        "NotFittedError",
    ),
    "evaluation": ("mean_average_precision",),
    "index": (
        "ExhaustiveIndex",
        "HalfPrecision",
        "HammingIndex",
        "InvertedIndex",
        "LocallyOptimizedIndex",
        "LongerCode",
        "MultiIndex",
        "SearchResult",
        "load_index",
    ),
    "inference.embedding": ("embed",),
    "inference.model": (
        "Model",
        "load",
    ),
    "layers": (
        "CodeSnapping",
        "GradientSnapping",
        "OutputRegularization",
        "PrintedRule",
        "SnappingRule",
        "SoftAssignment",
        "StraightThrough",
    ),
    "losses": (
        "ClassificationLoss",
        "ContrastiveLoss",
        "ListwiseLoss",
        "NeighborLoss",
        "PairwiseCosineLoss",
        "PairwiseLogisticLoss",
        "Relations",
        "SupervisedContrastiveLoss",
        "TripletLoss",
    ),
    "methods": ("QuantizationPenalty",),
    "networks": ("build_network",),
    "serve.client": ("connect",),
}
"""The module of every name that is not a module itself."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AdditiveQuantizer",
    "ClassificationLoss",
    "CodeSnapping",
    "Coder",
    "CompositeQuantizer",
    "ContrastiveLoss",
    "ExhaustiveIndex",
    "FileFormatError",
    "GeneralizedResidualQuantizer",
    "GradientSnapping",
    "GradsnapError",
    "HalfPrecision",
    "HammingIndex",
    "Hasher",
    "InputError",
    "InvertedIndex",
    "ListwiseLoss",
    "LocallyOptimizedIndex",
    "LocallyOptimizedProductQuantizer",
    "LongerCode",
    "Model",
    "MultiIndex",
    "NeighborLoss",
    "NotFittedError",
    "OptimizedProductQuantizer",
    "OutputRegularization",
    "PairwiseCosineLoss",
    "PairwiseLogisticLoss",
    "PrintedRule",
    "ProductQuantizer",
    "QuantizationPenalty",
    "Quantizer",
    "Relations",
    "ResidualQuantizer",
    "SearchResult",
    "SnappingRule",
    "SoftAssignment",
    "StraightThrough",
    "SupervisedContrastiveLoss",
    "SupervisedQuantizer",
    "TripletLoss",
    "build_network",
    "coders",
    "connect",
    "data",
    "embed",
    "evaluation",
    "export",
    "index",
    "inference",
    "layers",
    "load",
    "load_coder",
    "load_index",
    "losses",
    "mean_average_precision",
    "methods",
    "networks",
    "serve",
    "training",
    "triplets",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        home = importlib.import_module(f"gradsnap.{_HOME_OF[name]}")
        value = getattr(home, name)
    elif name in __all__:
        value = importlib.import_module(f"gradsnap.{name}")
    else:
        raise AttributeError(f"module 'gradsnap' has no attribute {name!r}")
    globals()[name] = value  # the next time it is found at once
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

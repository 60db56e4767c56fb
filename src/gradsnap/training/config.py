"""Every setting of a training run, with what it means and what it may be.

A field that is None is settled by the data (see ``gradsnap.training.defaults``); the
configuration that is written beside a model has all of them filled in.
"""

from typing import Annotated

from pydantic import Field

from gradsnap.coders import CODERS
from gradsnap.data import (
    NAME_PROTOCOLS,
    PAIR_PROTOCOLS,
    PROTOCOLS,
    ROW_PROTOCOLS,
)
from gradsnap.data.shards import LANES
from gradsnap.inference.engines import ENGINES
from gradsnap.layers import LAYERS
from gradsnap.methods import METHODS, every_loss, every_regularizer
from gradsnap.networks import EMBEDDING_LAYERS
from gradsnap.training.fields import (
    AtLeastZero,
    Count,
    Factor,
    Length,
    Number,
    Options,
    Section,
    SeveralWords,
    Share,
    Side,
    Workers,
    one_of,
    own_options,
    setting,
)
from gradsnap.triplets import TRIPLETS

OtherPairs = Annotated[str, one_of(("auto", "unlike", "unknown", "inferred"))]


class DataSettings(Section):
    """What is learned from, and how it is divided."""

    source: str = setting(
        "name of a data set, or path of a folder, table or file of vectors; or tar, "
        "Parquet or Lance files of images, or an address, which are read in shards",
        "digits",
    )
    root: str | None = setting("folder of a data set that is given by name")
    side: Side | None = setting(
        "pixels of a side that images are read at; None: as the network needs"
    )
    channels: Annotated[int, Field(ge=1, le=3)] | None = setting(
        "3 for colour, 1 for grey; None: as the network needs"
    )
    skip_bad: bool = setting("leave out bad image files and count them", False)
    pairs: str | None = setting(
        "table of pairs to learn from in place of labels, with the columns a,b,similar"
    )
    triplets: str | None = setting(
        "table of triplets to learn from, with the columns anchor,positive,negative"
    )
    similar_above: float = setting("pairs are alike if similar is above this", 0.0)
    other_pairs: OtherPairs = setting(
        "what pairs are that the table does not name; auto: unlike where it names none "
        "that are, else inferred where it shows that alike is transitive, else unknown",
        "auto",
    )
    ignore_labels: bool = setting(
        "learn from nearest neighbours, as where there are no labels", False
    )
    protocol: (
        Annotated[
            str,
            one_of((*PROTOCOLS, *PAIR_PROTOCOLS, *ROW_PROTOCOLS, *NAME_PROTOCOLS)),
        ]
        | None
    ) = setting(
        "how items are divided; None: the paper's for its data sets, else a share; of "
        "pairs: components, or items where those are too large; without labels: rows; "
        "in shards: names"
    )
    protocol_options: Options = own_options(
        "of the protocol, such as queries_per_class"
    )
    split_seed: Number = setting("draws the division", 0)
    validation: Annotated[float, Field(ge=0, le=0.9)] = setting(
        "share of the training part that chooses the best step", 0.1
    )
    augment: Annotated[
        tuple[str, ...], SeveralWords, one_of(("projective", "flip", "crop"))
    ] = setting("what is done to training images, in this order", ())
    sharded: bool = setting(
        "read a folder of classes in shards too: each process lists classes of its own",
        False,
    )
    lanes: Annotated[int, Field(ge=1, le=2**16)] = setting(
        "streams of shards that each batch is drawn from, at most a process each; the "
        "batches are the same for every number of processes",
        LANES,
    )
    workers: Workers = setting("processes that read and decode images", 0)
    cache: str | None = setting(
        "folder for the outputs of a frozen trunk, and for lists of tar files; None: "
        "in the model folder, and no lists"
    )


class NetworkSettings(Section):
    """What makes embeddings."""

    name: str | None = setting(
        "alexnet, efficientnet-lite0, small, mlp, head, timm/NAME or torchvision/NAME; "
        "None: by the shape of the items"
    )
    dim: Length | None = setting(
        "length of the embedding; None: the network's, or as the coder needs"
    )
    feat: Annotated[str, one_of(EMBEDDING_LAYERS)] = setting(
        "the last layer, which makes embeddings", "linear"
    )
    options: Options = own_options("the network's own, such as hidden or weights")
    trainable_blocks: Number | None = setting(
        "blocks that train, from the last; 0 freezes the trunk; None: all"
    )
    start: Annotated[str, one_of(("auto", "axes", "kept-axes", "random"))] = setting(
        "first weights of the embedding layer: the principal axes of what it sees, the "
        "same axes and nothing of the network trains, or random; auto: axes on a "
        "frozen trunk and on vectors",
        "auto",
    )
    engine: Annotated[str, one_of(ENGINES)] = setting(
        "what computes the outputs of a frozen trunk; auto: OpenVINO where it pays",
        "auto",
    )


class MethodSettings(Section):
    """A named choice of loss, regularizer, layer and coder."""

    name: Annotated[str, one_of(METHODS)] = setting(
        "the method; its parts may be changed one by one below", "codes"
    )


class LossSettings(Section):
    """What the embeddings should achieve."""

    name: Annotated[str, one_of(every_loss)] = setting("the loss", "triplet")
    options: Options = own_options("the loss's own, such as margin")
    mixture: AtLeastZero = setting(
        "weight of the loss of floats alone beside the loss through codes", 0.0
    )
    triplets: Annotated[str, one_of(TRIPLETS)] = setting(
        "how the triplet loss's triplets are chosen", "batch-all"
    )
    triplet_options: Options = own_options("of that choice, such as capacity")


class RegularizerSettings(Section):
    """What is added to the loss."""

    name: Annotated[str, one_of(every_regularizer)] = setting(
        "the regularizer, a term of embeddings and coder", "none"
    )
    options: Options = own_options("the regularizer's own, such as strength")


class LayerSettings(Section):
    """What stands between embeddings and loss, and from when on."""

    name: Annotated[str, one_of(LAYERS)] | None = setting(
        "the layer; None: the method's for quantizers, plain for the other coders"
    )
    options: Options = own_options("the layer's own, such as strength and neighbors")
    warmup: Share = setting(
        "share of the steps before the coder is fitted; where none is named, 0.75 if a "
        "whole network learns through codes",
        0.2,
    )
    ramp: Share = setting(
        "share of the steps after that in which options move from their first values",
        0.0,
    )
    first: Options = own_options("options at the start of the ramp, such as strength")


LEARNING = ("stream", "gradient", "both", "fit")
"""The ways codebooks follow the network."""


class CoderSettings(Section):
    """What makes codes."""

    kind: Annotated[str, one_of(CODERS)] = setting(
        "the quantizer or hasher; where none is named, the method's own", "pq"
    )
    bits: Count = setting("length of a code", 32)
    codebook_size: Annotated[int, Field(ge=2)] | None = setting(
        "codewords in a quantizer's codebook; None: 256, or fewer if bits or training "
        "rows ask for it"
    )
    options: Options = own_options("the coder's own, such as decay")
    learn: Annotated[str, one_of(LEARNING)] | None = setting(
        "how codebooks follow the network: stream, from each batch; gradient, of the "
        "loss; both; or fit, anew to the training part; None: gradient where the layer "
        "chooses codewords softly, else stream"
    )
    rate: Factor = setting(
        "of codebooks that learn by gradient, as a share of optimizer.rate", 1.0
    )
    update_every: Count = setting("steps from one update, or fit, to the next", 1)
    refit: Annotated[str, one_of(("best", "database", "train", "none"))] = setting(
        "what the coder is fitted to when training is over; best: the validation part "
        "chooses among all three",
        "best",
    )


class OptimizerSettings(Section):
    """How the network moves."""

    name: Annotated[str, one_of(("sgd", "adamw"))] = setting("the optimizer", "adamw")
    rate: AtLeastZero | None = setting(
        "learning rate of what starts fresh; None: .01 for a layer on ready vectors "
        "or a frozen trunk, .001 elsewhere and for unseen classes"
    )
    trunk_rate: AtLeastZero | None = setting(
        "learning rate of the trunk's last block; None: rate"
    )
    layer_decay: Share = setting("how much slower each earlier block learns", 1.0)
    momentum: Share = setting("of sgd", 0.9)
    weight_decay: Factor = setting("of the weights", 1e-4)
    schedule: Annotated[str, one_of(("cosine", "step", "constant"))] = setting(
        "of the rate", "cosine"
    )
    milestones: Annotated[tuple[float, ...], SeveralWords] = setting(
        "shares of the steps at which the step schedule divides by ten", (0.5, 0.75)
    )
    clip: AtLeastZero | None = setting("largest norm of the whole gradient; None: any")


class RunSettings(Section):
    """How long, how often, on what."""

    steps: Count = setting("batches to learn from", 2000)
    batch_size: Annotated[int, Field(ge=2)] | None = setting(
        "items a batch, over all processes; None: 128, or eight of "
        "each class where a step is cheap, or all there are"
    )
    items_per_class: Number = setting(
        "items of each class in a batch; 0 takes what comes", 0
    )
    seed: Annotated[int, Field(ge=0, lt=2**23)] = setting(
        "of fresh weights, batches and dropout", 0
    )
    monitor_every: Count = setting("steps between two records", 50)
    validate_every: Count = setting("steps between two validations", 200)
    checkpoint_every: Count = setting("steps between two checkpoints", 200)
    score_queries: bool = setting(
        "score the finished model on the test queries; false while choosing", True
    )
    device: str | None = setting("cpu or cuda; None: cuda where there is one")
    autocast: bool = setting("bfloat16 in the network, on CUDA only", True)
    compile: bool = setting("compile the network with torch.compile", False)


class TrainingConfig(Section):
    """One training run. ``make_config`` reads it from TOML and ``key=value``."""

    data: DataSettings = Field(default_factory=DataSettings)
    network: NetworkSettings = Field(default_factory=NetworkSettings)
    method: MethodSettings = Field(default_factory=MethodSettings)
    loss: LossSettings = Field(default_factory=LossSettings)
    regularizer: RegularizerSettings = Field(default_factory=RegularizerSettings)
    layer: LayerSettings = Field(default_factory=LayerSettings)
    coder: CoderSettings = Field(default_factory=CoderSettings)
    optimizer: OptimizerSettings = Field(default_factory=OptimizerSettings)
    run: RunSettings = Field(default_factory=RunSettings)

"""A method: loss, regularizer, layer and coder, and the recipes that name them.

The loop composes the four in plain sight; a recipe is one file and one line in
``METHODS``. It names parts of the registries or brings a loss or a regularizer of its
own, which then goes by the recipe's name: ``loss.name=dhn`` is DHN's loss, also where
another recipe chose the rest.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import Tensor, nn

from gradsnap.coders.coder import Coder
from gradsnap.coders.quantizers import Quantizer
from gradsnap.layers import gives_items, needs_codewords
from gradsnap.layers.soft_codes import PRODUCTS
from gradsnap.losses import Target
from gradsnap.triplets import Selector, Triplets

Part = str | Callable[..., nn.Module]
"""The short name of a registered part, or the class of one that is the recipe's own."""


class Method(nn.Module):
    """What a step descends, and what makes codes of what it learned.

    Args:
        loss: (embeddings, labels) or (embeddings, labels, triplets) to a scalar.
        regularizer: (embeddings, coder) to a scalar.
        layer: between embeddings and loss.
        coder: makes codes; follows the network where it can.
        selector: chooses triplets inside the batch, for a loss that takes them.
        mixture: μ, the weight of the loss of embeddings alone beside the loss through
            codes, for a layer that gives items.
    """

    def __init__(
        self,
        loss: nn.Module,
        regularizer: nn.Module,
        layer: nn.Module,
        coder: Coder,
        selector: Selector | None = None,
        mixture: float = 0.0,
    ) -> None:
        super().__init__()
        self.loss = loss
        self.regularizer = regularizer
        self.layer = layer
        self.coder = coder
        self.selector = selector
        self.mixture = mixture

    def through_layer(self, embeddings: Tensor) -> Tensor:
        """What the loss sees of embeddings (n, dim).

        A layer that looks at codewords stands aside until there are some.
        """
        if needs_codewords(self.layer) and not self.coder.fitted:
            return embeddings
        passed: Tensor = self.layer(embeddings)
        return passed

    def similarity_loss(
        self,
        embeddings: Tensor,
        passed: Tensor,
        labels: Target,
        triplets: Triplets | None,
    ) -> Tensor:
        """The scalar loss of a whole batch.

        Args:
            embeddings: (n, dim), as the network gave them.
            passed: (n, dim), as the layer gave them.
            labels: (n,) or (n, L), or relations (n, n).
            triplets: rows that were drawn beforehand, or None.
        """
        if self.selector is not None:
            triplets = self.selector.select(embeddings.detach(), labels)
        chosen = () if triplets is None else (triplets,)
        if not (gives_items(self.layer) and self.coder.fitted):
            loss: Tensor = self.loss(passed, labels, *chosen)
            return loss
        # D_ij = ‖y_i − ŷ_j‖²: the query as a float, the item as its code says it is.
        loss = self.loss(embeddings, labels, *chosen, items=passed)
        if self.mixture > 0:
            loss = loss + self.mixture * self.loss(embeddings, labels, *chosen)
        return loss


@dataclass(frozen=True)
class Recipe:
    """Which parts a named method is made of; the user may still change any of them."""

    summary: str
    """The paper, and what is learned, in one line."""
    loss: Part = "triplet"
    regularizer: Part = "none"
    layer: str | None = "plain"
    """None: ``for_products`` where the coder is of the product family,
    ``for_quantizers`` with another quantizer, plain elsewhere."""
    for_quantizers: str = "plain"
    for_products: str | None = None
    """None: as for other quantizers."""
    coder: str = "pq"
    where_scarce: str | None = None
    """The coder where several codebooks have fewer codewords each than there are
    classes, and nobody named one; None: the same."""
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Further settings by section, such as ``{"optimizer": {"rate": 1e-4}}``."""
    tries: tuple[str, tuple[float, ...]] | None = None
    """The setting that a comparison chooses for this method on a validation part, and
    the values to try, the likeliest first, such as ``("loss.mixture", (0.3, 1.0))``;
    None: a strength around the default of its regularizer, layer or loss."""

    def layer_for(self, coder: type[Coder]) -> str:
        """The layer of this recipe over a kind of coder."""
        if self.layer is not None:
            return self.layer
        if self.for_products is not None and issubclass(coder, PRODUCTS):
            return self.for_products
        return self.for_quantizers if issubclass(coder, Quantizer) else "plain"

    def coder_for(self, bits: int, codebook_size: int, classes: int) -> str:
        """The coder of this recipe for a layout of codebooks and a number of classes.

        >>> Recipe("", where_scarce="opq").coder_for(8, 16, classes=50)
        'opq'
        """
        scarce = is_scarce(bits, codebook_size, classes)
        return self.where_scarce if scarce and self.where_scarce else self.coder

    def tables(self, name: str) -> dict[str, dict[str, object]]:
        """The settings of this recipe, by section."""
        tables: dict[str, dict[str, object]] = {
            "method": {"name": name},
            "loss": {"name": _name_of(self.loss, name)},
            "regularizer": {"name": _name_of(self.regularizer, name)},
            "layer": {} if self.layer is None else {"name": self.layer},
            "coder": {"kind": self.coder},
        }
        for section, values in self.settings.items():
            tables.setdefault(section, {}).update(values)
        return tables


def is_scarce(bits: int, codebook_size: int, classes: int) -> bool:
    """Whether several codebooks have fewer codewords each than there are classes.

    Then no codebook can tell the classes apart by itself.

    >>> is_scarce(8, 16, classes=50), is_scarce(4, 16, classes=50)
    (True, False)
    """
    return 1 << bits > codebook_size and codebook_size < classes


def _name_of(part: Part, recipe: str) -> str:
    return part if isinstance(part, str) else recipe

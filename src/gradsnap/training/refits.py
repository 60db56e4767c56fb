"""What the finished coder is fitted to: kept as it is, or fitted anew.

Codebooks of few words that followed a network know more than a fresh fit can find, and
refitting them can destroy codes that were learned. With many words a fit to the
database itself is often better. So the validation part chooses.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field

from gradsnap.coders import Coder

SOURCES = {"database": "database", "train": "train", "none": ""}
"""The part a coder is fitted to, by its name in the settings; none keeps the coder."""

WORTH = 1e-3
"""How much better a source must rank than the one named before it."""


@dataclass(frozen=True, eq=False)
class Refits:
    """The same coder from several sources."""

    kept: Coder
    """As training left it; perhaps not fitted at all."""
    fit: Callable[[Coder, str], Coder]
    """Fits a coder to a part of the split, by the part's name."""
    judge: Callable[[Coder], float]
    """How well a coder's codes rank on the validation part."""
    known: dict[str, Coder] = field(default_factory=dict)
    """Coders that are fitted to a part already, by the part's name."""

    def coder(self, source: str) -> Coder:
        """The coder fitted to a source, or the kept one; fitted once."""
        if source == "none" and self.kept.fitted:
            return self.kept
        part = SOURCES[source] or "train"
        if part not in self.known:
            self.known[part] = self._fit(part)
        return self.known[part]

    def best(self, *, unseen: bool) -> tuple[str, dict[str, float]]:
        """The source whose codes rank best on the validation part, and how all do.

        Args:
            unseen: the validation part is of another kind than what trained. What is
                searched then is the validation database, and "database" is fitted to
                that, as it would be to the real one.
        """
        figures = {}
        for source in SOURCES:
            apart = unseen and source == "database"
            coder = self._fit("validation_database") if apart else self.coder(source)
            figures[source] = self.judge(coder)
        chosen = "database"
        for source, figure in figures.items():
            if figure > figures[chosen] + WORTH:
                chosen = source
        return chosen, figures

    def _fit(self, part: str) -> Coder:
        return self.fit(copy.deepcopy(self.kept), part)

"""The publisher's own division into training items and queries."""

from dataclasses import dataclass

import numpy as np

from gradsnap.data.protocols.base import Parts, Protocol
from gradsnap.data.protocols.splits import Pool
from gradsnap.errors import InputError


@dataclass(frozen=True)
class IlsvrcProtocol(Protocol):
    """ILSVRC2012: all training images train and are searched; validation images ask.

    It serves every data set whose publisher held a part out: the test parts of MNIST
    and CIFAR-10 and the published lists of NUS-WIDE too.
    """

    def _parts(self, pool: Pool) -> Parts:
        apart = pool.held_out
        if apart is None or not apart.any() or apart.all():
            raise InputError(
                "IlsvrcProtocol needs held_out, bool (n,), with training items and "
                "queries; this data set has no published test part, so take another "
                "protocol"
            )
        train = np.flatnonzero(~apart)
        return train, np.flatnonzero(apart), train

"""Which of our methods is which system of the paper."""

SYSTEMS: dict[str, tuple[str, ...]] = {
    "CNNH*": ("cnnh-star",),
    "CNNH": ("cnnh",),
    "SHFC": ("ninh",),
    "DQN": ("dqn",),
    "DHN": ("dhn",),
    "DRSCH": ("drsch",),
    "DSCH": ("dsch",),
    "DSFH": ("dsrh",),
    "Ours": ("snapping",),
    "SQ": ("fixed+sq",),
    "CQ": ("fixed+cq",),
}
"""By the paper's name, those of our rows; Lai et al. call theirs NINH."""


def system_of(name: str) -> str:
    """The paper's name of one of our rows; empty where it has none.

    >>> system_of("dhn"), system_of("snapping"), system_of("codes")
    ('DHN', 'Ours', '')
    """
    return next((theirs for theirs, ours in SYSTEMS.items() if name in ours), "")

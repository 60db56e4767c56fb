"""Ray and Lance, imported where they are needed, with a word on how to get them."""

import logging
from types import ModuleType

from gradsnap.errors import InputError


def require_lance() -> ModuleType:
    """The module ``lance``.

    Raises:
        InputError: the extra is not installed.
    """
    try:
        import lance
    except ImportError as error:
        raise InputError(
            "Lance tables need the extra: install gradsnap[lance]"
        ) from error
    logging.getLogger("pylance").setLevel(logging.WARNING)  # it tells what took long
    module: ModuleType = lance
    return module


def require_ray() -> ModuleType:
    """The module ``ray``.

    Raises:
        InputError: the extra is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise InputError("--on ray needs the extra: install gradsnap[ray]") from error
    module: ModuleType = ray
    return module

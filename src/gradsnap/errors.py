"""Every error gradsnap raises on purpose.

GradsnapError
├── InputError        a value, shape or name that cannot be used (also a ValueError)
│   └── BusyError     another writer is at work or was faster: load again and repeat
├── NotFittedError    a quantizer was used before ``fit`` (also a RuntimeError)
└── FileFormatError   a file that is truncated, changed or not ours
"""


class GradsnapError(Exception):
    """Base of all errors raised on purpose, so that a caller can catch them all."""


class InputError(GradsnapError, ValueError):
    """A value, shape or name that cannot be used; the message says what can."""


class BusyError(InputError):
    """Another writer is at work in a folder, or has changed it since it was loaded."""


class NotFittedError(GradsnapError, RuntimeError):
    """A quantizer was asked for codes before it had codebooks."""


class FileFormatError(GradsnapError):
    """A file that is truncated, changed or was written by something else."""


__all__ = ["FileFormatError", "GradsnapError", "InputError", "NotFittedError"]

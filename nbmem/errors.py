"""Everything nbmem raises, under one base class; each message says what to do next."""


class NbmemError(Exception):
    """Base class of every error that nbmem raises itself."""


class HistoryFileError(NbmemError):
    """A saved history that can't be read; what was in memory is untouched."""


class MissingPackageError(NbmemError, ImportError):
    """An optional package is not there; the message holds the line that installs it."""


class NameNotFoundError(NbmemError, LookupError):
    """A name or key leads to no live storage."""


class ScopeError(NbmemError):
    """A measured scope was read before it closed, or used after nbmem was unloaded."""


class NbmemWarning(UserWarning):
    """Something that was asked of nbmem does not work as asked; nothing else is affected."""

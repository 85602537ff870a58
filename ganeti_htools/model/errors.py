"""The exceptions a user may see, each a single line."""


class HtoolsError(Exception):
    """Something a user can act on; the text is one line. Programs exit with status 1."""


class DataError(HtoolsError):
    """Input that is wrong: the text names the object and the field and what was expected."""


class UsageError(HtoolsError):
    """A command line that cannot be understood. Programs exit with status 2."""


class RequestFailed(HtoolsError):
    """A well-formed iallocator request that cannot be satisfied; answered with ``success: false``."""

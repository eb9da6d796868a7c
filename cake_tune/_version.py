"""The version of cake-tune, as its installation records it."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("cake-tune")
except PackageNotFoundError:
    # A checkout that is only on the path has no version; what it writes must say so rather than fail.
    __version__ = "0+unknown"

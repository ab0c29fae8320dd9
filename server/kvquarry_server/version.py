"""Which kvquarry this is."""

import importlib.metadata


def package_version() -> str:
    """The installed distribution's version; a source tree that is not installed has none."""
    try:
        return importlib.metadata.version("kvquarry")
    except importlib.metadata.PackageNotFoundError:
        return "0+source"

"""What the service itself makes of the flags and variables that deployments give it."""

import argparse
from collections.abc import Mapping, Sequence

from kvquarry_server import settings


def settings_from(flags: Sequence[str], environ: Mapping[str, str]) -> settings.ServeSettings:
    """The settings of `kvquarry serve`; flags that it does not know are an error."""
    parser = argparse.ArgumentParser()
    settings.add_serve_flags(parser, environ)
    return settings.serve_settings(parser.parse_args(flags))


def target_from(environ: Mapping[str, str]) -> str:
    """Where `kvquarry status` asks, which is what the image's health check runs."""
    parser = argparse.ArgumentParser()
    settings.add_status_flags(parser, environ)
    return str(settings.status_settings(parser.parse_args([])).target)

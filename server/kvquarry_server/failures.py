"""What ends a command other than well."""


class CommandFailed(Exception):
    """What was asked for could not be done; the message says why and what to change."""

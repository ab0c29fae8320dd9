"""What a policy that breaks the rules gets to hear."""


class NotConforming(Exception):
    """A policy broke a rule; the message says which, and where the run can be seen again."""


def require(is_so: bool, otherwise: str) -> None:  # noqa: FBT001 - a law, not a switch
    """Say what is wrong unless a rule was kept.

    Raises:
        NotConforming: It was not.
    """
    if not is_so:
        raise NotConforming(otherwise)

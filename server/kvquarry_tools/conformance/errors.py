"""What a policy that breaks the rules gets to hear."""


class NotConforming(Exception):
    """A policy broke a rule; the message says which, and where the run can be seen again."""

"""What is wrong with what a user gave, in words that say what to change."""


class InvalidInput(Exception):
    """Something that a user gave cannot be worked with."""


class UnknownModel(InvalidInput):
    """No file and no known model has this name."""


class UnknownArchitecture(InvalidInput):
    """The configuration is of an architecture whose cache is not known here."""


class InvalidConfiguration(InvalidInput):
    """A field of a model's configuration is missing or makes no sense."""


class InvalidOption(InvalidInput):
    """An option has a value that the model or vLLM does not allow."""


class CannotShare(InvalidOption):
    """A layer cannot be dealt out to so many workers."""

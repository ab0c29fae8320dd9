"""Which layer is of which kind."""

from collections.abc import Callable, Container

from kvquarry_tools.errors import InvalidConfiguration
from kvquarry_tools.models.configuration import Configuration


def layer_types(
    text: Configuration, usual: Callable[[Configuration], list[str]], known: Container[str]
) -> list[str]:
    """The kind of each layer: ``layer_types``, or what the family does without it.

    Raises:
        InvalidConfiguration: A kind is not among the known ones.
    """
    kinds = text.words("layer_types") if text.has("layer_types") else usual(text)
    for index, kind in enumerate(kinds):
        if kind not in known:
            raise InvalidConfiguration(
                f"layer_types: layer {index} is of kind {kind!r}, which this architecture has not"
            )
    return kinds

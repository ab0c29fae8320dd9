"""Reading a Hugging Face ``config.json`` field by field, with messages that name the field."""

from collections.abc import Mapping
from typing import cast

from kvquarry_tools.errors import InvalidConfiguration
from kvquarry_tools.models.dtypes import ACTIVATION_BYTES

#: What a configuration without a number format is taken for.
_USUAL_DTYPE = "bfloat16"
#: Far more than any model has.
_MOST_LAYERS = 10_000
#: Where configurations of models with images or sound keep the language model's fields.
_TEXT_SECTIONS = ("text_config", "llm_config", "language_config")


class Configuration:
    """The fields of one configuration, or of a section of it."""

    def __init__(self, fields: Mapping[str, object], where: str) -> None:
        self._fields = fields
        self._where = where

    @property
    def architecture(self) -> str:
        """The first architecture that the configuration names.

        Raises:
            InvalidConfiguration: It names none.
        """
        named = self.words("architectures") if self.has("architectures") else []
        if not named:
            raise InvalidConfiguration(
                f"{self._where} names no architecture; give the config.json of a model, with its "
                '"architectures"'
            )
        return named[0]

    @property
    def text(self) -> "Configuration":
        """The section of the language model: the whole where there is none."""
        for name in _TEXT_SECTIONS:
            if isinstance(self._fields.get(name), Mapping):
                return self.section(name)
        return self

    @property
    def dtype(self) -> str:
        """The format of the model's activations."""
        named = self._fields.get("dtype", self._fields.get("torch_dtype"))
        if named is None:
            return _USUAL_DTYPE
        if not isinstance(named, str) or named not in ACTIVATION_BYTES:
            raise self._wrong("dtype", f"is {named!r}", f"one of {', '.join(ACTIVATION_BYTES)}")
        return named

    @property
    def num_layers(self) -> int:
        """How many layers there are, each of which is then looked at.

        Raises:
            InvalidConfiguration: It is no number from 1 on, or more than any model has.
        """
        num_layers = self.count("num_hidden_layers")
        if num_layers > _MOST_LAYERS:
            raise self._wrong("num_hidden_layers", f"is {num_layers}", f"at most {_MOST_LAYERS}")
        return num_layers

    def has(self, name: str) -> bool:
        """Whether a field is given and not null."""
        return self._fields.get(name) is not None

    def raw(self, name: str) -> object:
        """A field as it is, of whatever type; None where it is not given."""
        return self._fields.get(name)

    def section(self, name: str) -> "Configuration":
        """A nested object."""
        value = self._fields.get(name)
        if not isinstance(value, Mapping):
            raise self._wrong(name, "is missing or no object", "an object")
        return Configuration(cast("Mapping[str, object]", value), f"{self._where}, {name}")

    def count(self, *names: str, default: int | None = None) -> int:
        """A whole number from 1 on, under the first of these names that is given."""
        return self._whole(names, default, least=1)

    def count_or_zero(self, *names: str, default: int | None = None) -> int:
        """A whole number from 0 on, under the first of these names that is given."""
        return self._whole(names, default, least=0)

    def word(self, name: str, default: str) -> str:
        """A text."""
        value = self._fields.get(name, default)
        if not isinstance(value, str):
            raise self._wrong(name, f"is {value!r}", "a text")
        return value

    def words(self, name: str) -> list[str]:
        """A list of texts."""
        value = self._fields.get(name)
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            raise self._wrong(name, "is missing or no list of texts", "a list of texts")
        return value

    def numbers(self, name: str) -> list[int]:
        """A list of whole numbers."""
        value = self._fields.get(name)
        if not isinstance(value, list) or not all(isinstance(entry, int) for entry in value):
            raise self._wrong(name, "is missing or no list of numbers", "a list of numbers")
        return value

    def _whole(self, names: tuple[str, ...], default: int | None, least: int) -> int:
        given = [name for name in names if self.has(name)]
        if not given:
            if default is None:
                raise self._wrong(" or ".join(names), "is missing", "a whole number")
            return default
        value = self._fields[given[0]]
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self._wrong(given[0], f"is {value!r}", f"a whole number from {least} on")
        return value

    def _wrong(self, name: str, fault: str, wanted: str) -> InvalidConfiguration:
        return InvalidConfiguration(f"{self._where}: {name} {fault}; it must be {wanted}")

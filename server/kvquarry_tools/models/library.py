"""Models by name or by file."""

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import cast

from kvquarry_core.work import Work
from kvquarry_tools.errors import InvalidConfiguration, UnknownArchitecture, UnknownModel
from kvquarry_tools.models.configuration import Configuration
from kvquarry_tools.models.dtypes import AUTO
from kvquarry_tools.models.families import NOTES, READERS
from kvquarry_tools.models.model import Model
from kvquarry_tools.models.quantization import stored_kv_dtype
from kvquarry_tools.models.work import work_of

_SHIPPED = resources.files("kvquarry_tools.models") / "configurations"
_NAMES = "names.json"
_QUANTIZATION = "hf_quant_config.json"
_MOST_SUGGESTIONS = 3
#: All architectures end alike, so that only slips of the pen are as close as this.
_LIKE_AN_ARCHITECTURE = 0.9


def known_models() -> tuple[str, ...]:
    """The names that :func:`find_model` knows without a file."""
    return tuple(_names())


def find_model(name_or_path: str) -> Model:
    """A model by its name, or by the path of its ``config.json`` or of the folder that holds it.

    A name is looked up in any case. With an owner before a slash it is taken for the shipped one
    of its last part, and a note of the model says so; whatever else looks like a path must exist.

    Raises:
        UnknownModel: There is no such name and no such file.
        UnknownArchitecture: The cache of its architecture is not known here.
        InvalidConfiguration: A field is missing or makes no sense.
    """
    path = _path_of(name_or_path)
    if path is not None:
        return _model(name_or_path, _checkpoint(path), str(path))
    owner, _, wanted = name_or_path.rpartition("/")
    for name, file in _names().items():
        if name.casefold() == wanted.casefold():
            model = _model(name, _parsed((_SHIPPED / file).read_bytes(), file), name)
            return _noted(model, name_or_path) if owner else model
    raise UnknownModel(_not_found(name_or_path))


def read_model(name: str, fields: Mapping[str, object]) -> Model:
    """A model from the fields of its configuration.

    Raises:
        UnknownArchitecture: The cache of its architecture is not known here.
        InvalidConfiguration: A field is missing or makes no sense.
    """
    return _model(name, fields, name)


def _path_of(text: str) -> Path | None:
    """Where a configuration is, or should be; None for what is no path, but a name perhaps."""
    # With or without its owner, a name looks otherwise.
    is_no_name = text.startswith((".", "/", "~")) or text.count("/") > 1 or text.endswith(".json")
    path = Path(text)
    try:
        path = path.expanduser()
        path = path / "config.json" if path.is_dir() else path
        return path if is_no_name or path.exists() else None
    except (OSError, RuntimeError, ValueError):  # an endless name, or the home of nobody
        return path if is_no_name else None


def _noted(model: Model, asked: str) -> Model:
    """With whose configuration was taken: that of a shipped model, whoever owns it."""
    note = f"there is no file {asked}; the configuration is the one shipped for {model.name}"
    return replace(model, notes=(*model.notes, note))


def _names() -> dict[str, str]:
    names: dict[str, str] = json.loads((_SHIPPED / _NAMES).read_bytes())
    return names


def _checkpoint(path: Path) -> Mapping[str, object]:
    """The configuration, with the quantization that older checkpoints keep in a file beside it."""
    fields = _parsed(_content(path), str(path))
    beside = path.with_name(_QUANTIZATION)
    if fields.get("quantization_config") is None and beside.is_file():
        return {**fields, "quantization_config": _parsed(_content(beside), str(beside))}
    return fields


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnknownModel(
            f"{path} cannot be read: {error.strerror}; give the path of a model's config.json"
        ) from None


def _parsed(content: bytes, where: str) -> Mapping[str, object]:
    try:
        fields = json.loads(content)
    except ValueError as error:
        raise InvalidConfiguration(f"{where} is no JSON: {error}") from None
    except RecursionError:
        raise InvalidConfiguration(
            f"{where} is nested too deeply; give a model's config.json"
        ) from None
    if not isinstance(fields, dict):
        raise InvalidConfiguration(f"{where} holds no JSON object; give a model's config.json")
    return cast("Mapping[str, object]", fields)


def _model(name: str, fields: Mapping[str, object], where: str) -> Model:
    config = Configuration(fields, where)
    architecture = config.architecture
    reader = READERS.get(architecture)
    if reader is None:
        raise UnknownArchitecture(_unknown(architecture, where))
    text = config.text
    max_tokens = text.count("max_position_embeddings", "model_max_length", default=0)
    kv_dtype = stored_kv_dtype(config)
    layers = reader(config)
    if not layers:
        raise InvalidConfiguration(
            f"{where}: no layer of this model keeps a cache; check its layers"
        )
    notes = list(_notes(architecture, kv_dtype))
    work: Work | None = None
    try:
        work = work_of(config, layers)
    except InvalidConfiguration as error:
        notes.append(f"what the model computes is not known, so tokens stand for work: {error}")
    return Model(
        name=name,
        architecture=architecture,
        layers=layers,
        dtype=(text if text.has("dtype") or text.has("torch_dtype") else config).dtype,
        kv_dtype=kv_dtype,
        num_query_heads=text.count("num_attention_heads", default=0) or None,
        max_tokens=max_tokens or None,
        notes=tuple(notes),
        work=work,
    )


def _notes(architecture: str, kv_dtype: str) -> Iterator[str]:
    if architecture in NOTES:
        yield NOTES[architecture]
    if kv_dtype != AUTO:
        yield f"the checkpoint asks for a cache of {kv_dtype}, which is what auto takes"


def _unknown(architecture: str, where: str) -> str:
    fault = f"{where}: the cache of {architecture} is not known here"
    if close := difflib.get_close_matches(architecture, READERS, n=1, cutoff=_LIKE_AN_ARCHITECTURE):
        return f"{fault}; did you mean {close[0]}? Then change its architectures"
    return (
        f"{fault}; give a model of another, or add its layers to kvquarry_tools/models/families; "
        f"known are: {', '.join(sorted(READERS))}"
    )


def _not_found(name: str) -> str:
    by_case = {known.casefold(): known for known in _names()}
    wanted = name.rpartition("/")[2].casefold()
    close = difflib.get_close_matches(wanted, by_case, n=_MOST_SUGGESTIONS, cutoff=0.5)
    if close:
        suggestion = "did you mean " + " or ".join(by_case[found] for found in close) + "?"
    else:
        suggestion = "known are: " + ", ".join(by_case.values())
    return f"no model is known as {name!r} and no file has that name; {suggestion}"

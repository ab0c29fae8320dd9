"""deploy/docker/Dockerfile, instruction by instruction."""

import json
import re
from dataclasses import dataclass

from tests.architecture.repository import ROOT

DOCKERFILE = ROOT / "deploy/docker/Dockerfile"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction with its continuation lines joined."""

    word: str
    text: str

    def words(self) -> list[str]:
        """The text in exec form, taken apart."""
        words: list[str] = json.loads(self.text[self.text.index("[") :])
        return words


def stages() -> list[list[Instruction]]:
    """The image's stages; what precedes the first FROM is left out."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found: list[list[Instruction]] = []
    for line in filter(None, joined.splitlines()):
        word, _, text = line.partition(" ")
        if word == "FROM":
            found.append([])
        if found:
            found[-1].append(Instruction(word, text))
    return found


def copied_sources() -> list[str]:
    """What the first stage copies out of the build context."""
    return [
        source
        for instruction in stages()[0]
        if instruction.word == "COPY"
        for source in instruction.text.split()[:-1]
    ]


def environment() -> dict[str, str]:
    """What the last stage sets."""
    (instruction,) = (one for one in stages()[-1] if one.word == "ENV")
    return dict(re.findall(r"(\w+)=(\S+)", instruction.text))


def only(word: str) -> Instruction:
    """The last stage's one instruction of a kind."""
    (found,) = (one for one in stages()[-1] if one.word == word)
    return found

"""What this processor can show: the hybrid kernels need AVX512-BF16 or AMX."""

from dataclasses import dataclass
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Processor:
    """What matters of a processor here.

    Attributes:
        name: As the processor calls itself.
        bf16_units: Which of the two kinds of instructions it has, for people to read.
    """

    name: str
    bf16_units: tuple[str, ...]

    @property
    def runs_hybrids(self) -> bool:
        """Whether vLLM's CPU kernels for recurrent layers run."""
        return bool(self.bf16_units)

    @property
    def model(self) -> str:
        """The name of the demo's model that it can run."""
        return "qwen3-next" if self.runs_hybrids else "llama"

    @property
    def verdict(self) -> str:
        """One line: what it has and what is therefore shown."""
        if self.runs_hybrids:
            units = " and ".join(self.bf16_units)
            return f"{self.name} has {units}: a hybrid model (Qwen3-Next) is shown."
        return (
            f"{self.name} has neither AVX512-BF16 nor AMX, which the hybrid kernels need: "
            "a full-attention model (Llama) is shown instead."
        )


def this_processor() -> Processor:
    """The processor this runs on."""
    return read_processor(_CPUINFO.read_text())


def read_processor(cpuinfo: str) -> Processor:
    """Understand the text of /proc/cpuinfo; all cores are taken to be like the first."""
    fields: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    flags = set(fields.get("flags", "").split())
    units = {"AVX512-BF16": "avx512_bf16" in flags, "AMX": {"amx_tile", "amx_bf16"} <= flags}
    present = tuple(unit for unit, is_present in units.items() if is_present)
    return Processor(fields.get("model name", "This processor"), present)

"""What ``kvquarry simulate --trace`` prints."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from statistics import fmean

from kvquarry_tools.planning.notes import note_lines
from kvquarry_tools.planning.plain import plain_work
from kvquarry_tools.planning.sizes import count, memory
from kvquarry_tools.simulation.replay.occupancy import Occupancy
from kvquarry_tools.simulation.results import Figures
from kvquarry_tools.simulation.settings import Baseline, SimulationSettings

_LABEL_COLUMNS = 34
_SPAN_COLUMNS = 22
_NUM_MOMENTS = 5


@dataclass(frozen=True, slots=True)
class Report:
    """A simulation, and what it took.

    Attributes:
        settings: What was simulated.
        figures: What came of it.
        cpu_s: Processor time of the replay.
    """

    settings: SimulationSettings
    figures: Figures
    cpu_s: float


def as_text(report: Report) -> str:
    """Everything for people."""
    lines = [*_title(report.settings), "", *_lines(report)]
    if notes := report.settings.served.model.notes:
        lines += ["", *note_lines(notes)]
    return "\n".join(lines)


def as_plain(report: Report) -> dict[str, object]:
    """Everything for scripts."""
    settings, figures = report.settings, report.figures
    return {
        "model": settings.served.model.name,
        "serving": asdict(settings.served.serving),
        "work": plain_work(settings.served.model.work),
        "notes": list(settings.served.model.notes),
        "memory_bytes": settings.memory_bytes,
        "replay": settings.replay.value,
        **asdict(settings.policies),
        "retention": None if settings.baseline is Baseline.BELADY else settings.retention,
        "baseline": settings.baseline.value if settings.baseline else None,
        "token_hit_rate": figures.token_hit_rate,
        **asdict(figures),
        "cpu_s": report.cpu_s,
    }


def _title(settings: SimulationSettings) -> Iterator[str]:
    served = settings.served
    block_tokens = served.serving.block_tokens
    is_infinite = settings.baseline is Baseline.INFINITE
    pool = "memory without end" if is_infinite else memory(settings.memory_bytes)
    yield f"{served.model.name}, {pool}, blocks of {block_tokens} tokens"
    if settings.baseline is Baseline.BELADY:
        yield "baseline belady"
    elif settings.baseline is not None:
        yield f"baseline {settings.baseline.value}, retention {settings.retention}"
    else:
        names = settings.policies
        yield (
            f"placement {names.placement}, eviction {names.eviction}, "
            f"relocation {names.relocation}, retention {settings.retention}"
        )


def _lines(report: Report) -> Iterator[str]:
    figures = report.figures
    yield _line("token hit rate", f"{figures.token_hit_rate:.4f}")
    if figures.work_hit_rate is not None:
        yield _line("prefill work saved, of all", f"{figures.work_hit_rate:.4f}")
    yield _line("prefill tokens saved", f"{count(figures.hit_tokens)}")
    yield _line("  of", count(figures.prompt_tokens))
    yield _line("requests", count(figures.num_requests))
    if figures.num_refused:
        yield _line("refused: larger than the pool", count(figures.num_refused))
    for holds, num_blocks in (figures.evictions or {}).items():
        yield _line(f"evicted blocks, {holds}", count(num_blocks))
    if figures.checkpoints and figures.interval_tokens:
        yield _line("tokens between checkpoints", count(figures.interval_tokens))
    if figures.checkpoints:
        yield _line("checkpoints at the end", count(figures.checkpoints))
    if figures.moved_bytes:
        yield _line("moved", memory(figures.moved_bytes))
        per_request = figures.moved_bytes / max(figures.num_requests, 1)
        yield _line("  per request", memory(per_request))
    yield _line("preemptions", count(figures.num_preempted))
    yield _line("tokens computed again for them", count(figures.recomputed_tokens))
    if figures.samples:
        yield _line("utilisation at first shortage", _utilisation(figures.first_shortage))
    yield _line("CPU time", f"{report.cpu_s:.1f} s")
    if figures.samples:
        yield ""
        yield from _moments(figures.samples)


def _line(label: str, value: str) -> str:
    return f"{label:<{_LABEL_COLUMNS}}{value:>16}"


def _utilisation(moment: Occupancy | None) -> str:
    return "no shortage" if moment is None else f"{moment.content:.3f}"


def _moments(samples: tuple[Occupancy, ...]) -> Iterator[str]:
    """The pool over time, a line for each fifth of the samples."""
    size = -(-len(samples) // _NUM_MOMENTS)
    parts = [samples[start : start + size] for start in range(0, len(samples), size)]
    spans = [f"{part[0].now_s:,.0f} to {part[-1].now_s:,.0f} s" for part in parts]
    width = max(_SPAN_COLUMNS, *(len(span) + 1 for span in spans))
    yield f"{'pool over time':<{width}}{'running':>9}{'internal':>10}{'cached':>9}{'external':>10}"
    for span, part in zip(spans, parts, strict=True):
        yield (
            f"{span:<{width}}{fmean(one.content for one in part):>9.3f}"
            f"{fmean(one.internal for one in part):>10.4f}"
            f"{fmean(one.cached for one in part):>9.3f}"
            f"{fmean(one.external for one in part):>10.4f}"
        )

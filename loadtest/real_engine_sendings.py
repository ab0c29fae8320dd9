"""What becomes of prompts that are sent again and again, in each run of each arm."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvquarry_vllm.demo.job import EngineResult, RequestResult
from loadtest.real_engine import STOCK, Ratio, ratio_to_stock


@dataclass(frozen=True, slots=True)
class Sendings:
    """One prompt: sent alone, then again and again at once.

    Attributes:
        multiple: How often it repeats the prefix.
        prompt_tokens: Its length.
        hit_tokens: What each later sending found; the least of them.
        first_s: How long the first took.
        later_s: How long all later ones took together.
        num_later: How many these were.
        output: The token that the first got, computed without a hit.
        num_equal: Later ones that got the same token.
    """

    multiple: int
    prompt_tokens: int
    hit_tokens: int
    first_s: float
    later_s: float
    num_later: int
    output: int
    num_equal: int


@dataclass(frozen=True, slots=True)
class Run:
    """One engine's life: its block size and what became of each prompt."""

    block_tokens: int
    sendings: tuple[Sendings, ...]

    @property
    def later_s(self) -> float:
        """The later sendings of all prompts together."""
        return sum(each.later_s for each in self.sendings)

    @property
    def total_s(self) -> float:
        """All sendings."""
        return self.later_s + sum(each.first_s for each in self.sendings)


Runs = Mapping[str, Sequence[Run]]


def run_of(
    prompts: Mapping[int, tuple[int, ...]],
    num_later: int,
    result: EngineResult,
    waves_s: Sequence[float],
) -> Run:
    """Put the engine's answers and the waves' times together; the warm-up was request 0."""
    sendings: list[Sendings] = []
    for index, (multiple, prompt) in enumerate(prompts.items()):
        begin = 1 + index * (1 + num_later)
        first, later = result.requests[begin], result.requests[begin + 1 : begin + 1 + num_later]
        sendings.append(
            Sendings(
                multiple=multiple,
                prompt_tokens=len(prompt),
                hit_tokens=min(one.num_cached_tokens for one in later),
                first_s=waves_s[2 * index],
                later_s=waves_s[2 * index + 1],
                num_later=num_later,
                output=_output(first),
                num_equal=sum(_output(one) == _output(first) for one in later),
            )
        )
    return Run(result.block_size_tokens, tuple(sendings))


def speedup(runs: Runs, name: str, figure: str) -> Ratio:
    """Stock's time over the arm's, in the same run."""
    times = [[getattr(run, figure) for run in runs[which]] for which in (STOCK, name)]
    return ratio_to_stock(times[0], times[1])


def by_prompt(of_arm: Sequence[Run]) -> list[tuple[Sendings, ...]]:
    """For each prompt what became of it in each run."""
    return list(zip(*(run.sendings for run in of_arm), strict=True))


def least_hit_tokens(sendings: Sequence[Sendings]) -> int:
    """Of one prompt in all runs."""
    return min(each.hit_tokens for each in sendings)


def median_later_s(sendings: Sequence[Sendings]) -> float:
    """Of one prompt: the middle run."""
    return statistics.median(each.later_s for each in sendings)


def share_as_stock(runs: Runs, name: str) -> float:
    """Later sendings whose token is the one that stock computed without a hit."""
    right = [each.output for each in runs[STOCK][0].sendings]
    of_arm = [zip(right, run.sendings, strict=True) for run in runs[name]]
    pairs = [pair for run in of_arm for pair in run]
    num_right = sum(each.num_equal for output, each in pairs if each.output == output)
    return num_right / sum(each.num_later for _, each in pairs)


def _output(result: RequestResult) -> int:
    return result.tokens[0]

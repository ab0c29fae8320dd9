"""The requests of a saturated queue."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

_QUANTILE_95 = 1.6448536269514722


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lognormally distributed lengths in tokens.

    Attributes:
        median_tokens: Half of them are shorter.
        p95_tokens: Nineteen of twenty are shorter.
        most_tokens: None is longer: the model's own limit.
    """

    median_tokens: int
    p95_tokens: int
    most_tokens: int = 131_072

    def draw(self, source: random.Random) -> int:
        """One length, at least 1."""
        sigma = math.log(self.p95_tokens / self.median_tokens) / _QUANTILE_95
        drawn = round(source.lognormvariate(math.log(self.median_tokens), sigma))
        return min(max(drawn, 1), self.most_tokens)


@dataclass(frozen=True, slots=True)
class Demand:
    """What one life of a request asks of the pool.

    Attributes:
        num_tokens: Tokens to compute at once: the prompt, and after a preemption the output so
            far as well.
        num_output_tokens: Tokens still to be generated, one a step.
    """

    num_tokens: int
    num_output_tokens: int

    def after(self, num_generated_tokens: int) -> "Demand":
        """What is left of it when it was preempted after so many tokens."""
        return Demand(
            self.num_tokens + num_generated_tokens, self.num_output_tokens - num_generated_tokens
        )


@dataclass(frozen=True, slots=True)
class Traffic:
    """Lengths of prompts and of outputs, independent of each other."""

    prompts: Lengths = Lengths(900, 8_000)
    outputs: Lengths = Lengths(200, 1_200)

    def requests(self, seed: int) -> Iterator[Demand]:
        """Requests without end."""
        source = random.Random(seed)
        while True:
            yield Demand(self.prompts.draw(source), self.outputs.draw(source))

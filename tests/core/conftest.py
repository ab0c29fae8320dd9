"""How hypothesis runs here: the same examples every time, and more of them on request.

``pytest tests/core --hypothesis-profile=explore`` draws new examples, twenty times as many.
"""

import pytest
from hypothesis import HealthCheck, settings

# No deadlines: a time limit would measure the machine.
settings.register_profile(
    "suite", max_examples=100, deadline=None, derandomize=True, print_blob=True
)
settings.register_profile(
    "explore",
    max_examples=2000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")


def pytest_configure(config: pytest.Config) -> None:
    """The profile asked for on the command line is the one that counts."""
    chosen = config.getoption("--hypothesis-profile", default=None)
    if chosen is not None:
        settings.load_profile(chosen)

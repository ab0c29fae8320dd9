"""What several of these tests go through."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.running_service import RunningService
from tests.integration.proxy import Link


@pytest.fixture
def link(service: RunningService, tmp_path: Path) -> Iterator[Link]:
    """A way to the module's service that can be cut."""
    link = Link(tmp_path / "front", Path(service.target.removeprefix("unix:")))
    yield link
    link.close()

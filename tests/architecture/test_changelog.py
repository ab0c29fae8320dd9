"""Every fragment of the changelog is named as CONTRIBUTING.md says."""

import re

from tests.architecture.repository import ROOT

# A word without a plus would be taken for an issue's number.
FRAGMENT = re.compile(r"(\d+|\+[a-z0-9-]+)\.(added|changed|fixed|removed)\.md")


def test_fragments_are_of_an_issue_or_an_orphan() -> None:
    fragments = [path.name for path in (ROOT / "changelog.d").glob("*.md")]
    assert fragments
    assert [name for name in fragments if not FRAGMENT.fullmatch(name)] == []

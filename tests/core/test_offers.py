"""What a package offers is loaded when it is chosen, and refused by name where it is broken."""

import sys
from importlib.metadata import EntryPoint, distributions
from pathlib import Path

import pytest

from kvquarry_core.errors import Reason, UnknownPolicy, UsageError
from kvquarry_core.offers import PROTOCOLS, members_of
from kvquarry_core.policies import ENTRY_POINT_GROUP, Catalog, PolicyNames, installed_policies
from tests.contract.installed_package import note_installed

SOURCE = """
class Whole:
    def kept(self, lengths, landmarks):
        return []

class NoKept:
    pass

class ChoosesOnly:
    def choose(self, candidates, num_slabs):
        return ()

class KeptIsData(Whole):
    kept = ()

class Crashes(Whole):
    def __init__(self):
        raise OSError("no such\\nfile")

class Numbered(Whole):
    def __init__(self, number):
        self.number = number

def nothing():
    return None

AN_OBJECT = Whole()
"""


def catalog_of(folder: Path, monkeypatch: pytest.MonkeyPatch, **offered: str) -> Catalog:
    """What there is where a package offers objects of a module by names; ``__`` for a dot."""
    (folder / "kvq_bad_module.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "kvq_bad_module", raising=False)
    entries = {name.replace("__", "."): value for name, value in offered.items()}
    note_installed(folder, "kvq-bad", {ENTRY_POINT_GROUP: entries})
    return installed_policies(
        entry for one in distributions(path=[str(folder)]) for entry in one.entry_points
    )


def test_what_nobody_chose_is_never_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = catalog_of(
        tmp_path,
        monkeypatch,
        retention__y="no_such_module:Y",
        placement__y="kvq_bad_module:NoSuchThing",
        retetion__z="kvq_bad_module:Whole",
        w="nothing at all",
        retention__good="kvq_bad_module:Whole",
    )
    assert {"y", "good"} <= set(catalog.retentions)
    catalog.make(PolicyNames())
    assert catalog.make_retention("good") is not None


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no_such_module:Y", "cannot be loaded: ModuleNotFoundError: No module named"),
        ("kvq_bad_module:Y", "cannot be loaded: AttributeError: .* has no attribute 'Y'"),
        ("not even a name", "cannot be loaded: "),
        ("kvq_bad_module:AN_OBJECT", "cannot be made: TypeError: .* not callable"),
        ("kvq_bad_module:Crashes", "cannot be made: OSError: no such file"),
        ("kvq_bad_module:Numbered", "cannot be made: TypeError: "),
        ("kvq_bad_module:NoKept", r"lacks kept \(a retention has kept\)"),
        ("kvq_bad_module:KeptIsData", r"lacks kept \("),
    ],
)
def test_what_cannot_be_had_is_refused_in_a_line_that_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, why: str
) -> None:
    catalog = catalog_of(tmp_path, monkeypatch, retention__y=value)
    line = f"^package kvq-bad offers retention.y, which {why}.*; fix or uninstall it$"
    for choose in (catalog.make_retention, lambda name: catalog.make(PolicyNames(retention=name))):
        with pytest.raises(UsageError, match=line) as caught:
            choose("y")
        assert caught.value.reason is Reason.UNKNOWN_POLICY


@pytest.mark.parametrize(
    ("kind", "value", "missing"),
    [
        ("relocation", "ChoosesOnly", "most_kept_bytes, spare"),
        ("placement", "NoKept", "choose"),
        ("placement", "nothing", "choose"),
        ("eviction", "nothing", "victims, block_worth, slab_worth"),
    ],
)
def test_a_policy_that_lacks_some_of_its_protocol_is_refused_when_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, value: str, missing: str
) -> None:
    """Else it would end a service at its first shortage, long after it was chosen."""
    catalog = catalog_of(tmp_path, monkeypatch, **{f"{kind}__y": f"kvq_bad_module:{value}"})
    with pytest.raises(UsageError, match=rf"offers {kind}.y, which lacks {missing} \(a"):
        catalog.make(PolicyNames(**{kind: "y"}))


def test_none_stands_for_moving_nothing_and_for_the_engines_own_retention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = "kvq_bad_module:nothing"
    catalog = catalog_of(tmp_path, monkeypatch, relocation__y=nothing, retention__y=nothing)
    assert catalog.make(PolicyNames(relocation="y", retention="y")).relocation is None
    assert catalog.make_retention("y") is None


def test_a_name_that_ends_in_n_is_made_with_the_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {"retention__powers-of-N": "kvq_bad_module:Numbered"}
    made = catalog_of(tmp_path, monkeypatch, **entries).make_retention("powers-of-3")
    assert vars(made) == {"number": 3}


@pytest.mark.parametrize("name", ["retetion.y", "y", "retetion.y-N"])
def test_who_offers_under_no_kind_is_named_to_whoever_misses_it(name: str) -> None:
    entry = EntryPoint(name, "kvq_bad_module:Whole", ENTRY_POINT_GROUP)
    offer = name.rpartition(".")[2]
    with pytest.raises(UnknownPolicy, match=f"offers '{name}': name it retention.{offer}"):
        installed_policies([entry]).make_retention(offer.replace("N", "7"))


def test_the_members_of_a_kind_are_those_that_its_protocol_shows() -> None:
    assert {kind: members_of(kind) for kind in PROTOCOLS} == {
        "placement": ("choose",),
        "eviction": ("victims", "block_worth", "slab_worth"),
        "relocation": ("most_kept_bytes", "choose", "spare"),
        "retention": ("kept",),
    }

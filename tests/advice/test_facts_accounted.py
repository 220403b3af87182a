"""Everything that was known is a rule, is answered by asking, or is left out with a reason (facts_accounted.toml)."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kerneltui.advice.limits import LIMITS

TESTS = Path(__file__).parents[1]
ADVICE = TESTS.parent / "kerneltui" / "advice"
_FILE = Path(__file__).with_name("facts_accounted.toml")
TABLE: dict[str, dict[str, Any]] = tomllib.loads(_FILE.read_text("utf-8"))
SOURCES = "\n".join(path.read_text("utf-8") for path in sorted(ADVICE.rglob("*.py")))
ENTRIES = [(name, how) for part, entries in TABLE.items() if part != "own" for name, how in entries.items()]
# Ids that stand whole in the code, and the beginnings of those that are put together.
WHOLE = set(re.findall(r'\bid="([a-z_]+\.[\w.]+)"', SOURCES)) | {limit.id for limit in LIMITS}
BEGINNINGS = {found for found in re.findall(r'\bid=f"([a-z_.]+)\{', SOURCES) if "." in found}


def _exists(rule: str) -> bool:
    """Whether a rule of this id is in the code: whole, or as a beginning and a name that is given to it."""
    if rule in WHOLE:
        return True
    rests = [rule.removeprefix(start) for start in BEGINNINGS if rule.startswith(start)]
    words = {word for rest in rests for word in (rest, rest.partition(".")[2])}
    return any(word and re.search(rf'["\'._]{re.escape(word)}\b', SOURCES) for word in words)


@pytest.mark.parametrize(("name", "how"), ENTRIES, ids=[name for name, _ in ENTRIES])
def test_each_entry_is_accounted_for(name: str, how: list[str] | str) -> None:
    if isinstance(how, list):
        assert how
        assert [rule for rule in how if not _exists(rule)] == []
        return
    word, _, rest = how.partition(": ")
    assert word in ("asked", "handled", "left out")
    if word == "left out":
        assert len(rest) > 10
        return
    file, _, test = rest.partition("::")
    assert (TESTS / file).is_file()
    assert not test or re.search(rf"def {test}\b", (TESTS / file).read_text("utf-8"))


def test_all_public_reports_are_there() -> None:
    numbers = [int(name.split()[0]) for name in TABLE["reports"]]
    assert numbers == list(range(1, 90))


def test_no_rule_is_without_an_entry() -> None:
    named = {rule for _, how in ENTRIES if isinstance(how, list) for rule in how}
    own = tuple(TABLE["own"]["rules"])
    assert sorted(rule for rule in WHOLE if rule not in named and not rule.startswith(own)) == []


def test_an_id_that_is_not_there_is_seen() -> None:
    assert not _exists("packing.nonsense")
    assert not _exists("features.nonsense")
    assert _exists("features.head_dim")

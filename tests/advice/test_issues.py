"""Known issues as data: where they hold, where they end, a person's own file, and a trial that counts more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerneltui.advice.issues import FILE, known_issues, read_issues
from kerneltui.errors import RecordError
from kerneltui.facts.proof import Check, Preflight, Subject
from kerneltui.facts.server import Package
from tests.advice.situations import COMMUNITY, H200, MHA, blocks, findings, make_build, make_server

RTX = ("NVIDIA GeForce RTX 5090", (12, 0))
FLASH4 = f"{COMMUNITY}/flash-attn4"
OWN = """
[[issue]]
id = "own"
severity = "warn"
title = "Our cluster drops this"
why = "Seen twice."
source = "https://example.org/1"
seen = "2026-11-30"
ended = "the cluster is updated"
options = { packing = true }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("kerneltui.advice.issues.config_directory", lambda: tmp_path)
    return tmp_path


def test_every_issue_says_where_it_was_seen_and_how_it_ends() -> None:
    assert len({issue.id for issue in known_issues()}) == len(known_issues()) > 2
    for issue in known_issues():
        assert issue.source.startswith("https://")
        assert len(issue.seen) == 10
        assert issue.ended


def test_case_29_processes_that_drift_apart() -> None:
    name = "issues.liger-unsynchronized"
    given = {"use_liger_kernel": True}
    old, new = make_server(H200, H200, trl="1.13.0"), make_server(H200, H200, trl="1.14.0")
    assert name in blocks("dpo", server=old, processes=2, given=given)
    assert name not in findings("dpo", server=new, processes=2, given=given)
    assert name not in findings("dpo", server=old, gpus=(0,), given=given)
    assert name not in findings("sft", server=old, processes=2, given=given)
    assert name not in findings("dpo", server=old, processes=2)


def test_case_43_consumer_cards_and_what_a_trial_says_of_them() -> None:
    name = "issues.flash-attn4-consumer-blackwell"
    build = make_build("v0", "torch-cuda", repository=FLASH4)
    asked: dict[str, Any] = {"given": {"attn_implementation": FLASH4}, "model": MHA, "build": build}
    card = make_server(RTX)
    assert findings(server=card, **asked)[name].severity == "warn"
    assert name not in findings(server=make_server(H200), **asked)
    subject = Subject(implementation=FLASH4, device="RTX", dtype="bfloat16", shapes=(), length=1)
    check = Check(name="forward", case="dense", outcome="passed")
    made = Preflight(time="2026-12-01T09:00:00.000+00:00", seconds=1, subject=subject, checks=(check,))
    proven = findings(server=card, preflight=made, **asked)[name]
    assert proven.severity == "note"
    assert "counts more" in proven.why


def test_heads_of_160_with_one_release_of_flash_attn() -> None:
    model = msgspec.structs.replace(MHA, head_dims=(160,))
    server = make_server(H200, flash=("flash_attention_2",))
    with_package = msgspec.structs.replace(server, packages={**server.packages, "flash-attn": Package(version="2.8.3")})
    given = {"attn_implementation": "flash_attention_2"}
    assert "issues.flash-attn-head-160" in findings(server=with_package, given=given, model=model)
    assert "issues.flash-attn-head-160" not in findings(server=with_package, given=given, model=MHA)
    assert "issues.flash-attn-head-160" not in findings(server=server, given=given, model=model)


def test_a_persons_own_issues_are_added(folder: Path) -> None:
    assert "issues.own" not in findings(given={"packing": True})
    (folder / FILE).write_text(OWN, encoding="utf-8")
    assert findings(given={"packing": True})["issues.own"].severity == "warn"
    assert "issues.own" not in findings()


def test_a_file_that_cannot_be_read_is_named_and_stops_nothing(folder: Path) -> None:
    (folder / FILE).write_text("[[issue]\n", encoding="utf-8")
    found = findings()["issues.unreadable"]
    assert found.severity == "warn"
    assert str(folder / FILE) in found.title
    with pytest.raises(RecordError, match="versions"):
        read_issues(OWN + 'packages = { trl = "1.10 or so" }\n', "a file")
    with pytest.raises(RecordError):
        read_issues('[[issue]]\nid = "x"\n', "a file")

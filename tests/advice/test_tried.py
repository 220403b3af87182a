from __future__ import annotations

import msgspec
import pytest

from kerneltui.advice.verdict import verdict_of
from tests.advice.situations import GQA, H200, findings, make_build, make_server, make_situation
from tests.facts.test_proof import BAD, PREFLIGHT

KERNEL = {"attn_implementation": "kernels-community/flash-attn2@v4"}
V4 = make_build("v4", "torch-stable-abi210-cu130-x86_64-linux")


def test_a_preflight_that_failed_blocks_and_names_what_failed() -> None:
    made = msgspec.structs.replace(PREFLIGHT, checks=(BAD,))
    found = findings(given=KERNEL, build=make_build(), preflight=made)["attention.preflight"]
    assert (found.severity, found.origin) == ("block", "observed")
    assert "backward: it raised (not without grouped heads)." in found.why
    assert found.source == "preflight of 2026-12-01 09:00 on NVIDIA H200"
    assert found.fixes[0].changes == {"attn_implementation": "sdpa"}
    assert verdict_of(make_situation(given=KERNEL, build=make_build(), preflight=made)).kind == "refused"


@pytest.mark.parametrize(
    ("ended", "words"),
    [("crashed", "killed its process"), ("hung", "hung"), ("raised", "could not be loaded")],
)
def test_a_process_that_ended_badly_blocks(ended: str, words: str) -> None:
    made = msgspec.structs.replace(PREFLIGHT, ended=ended, ending="signal 11", at="dense 65")
    found = findings(given=KERNEL, build=make_build(), preflight=made)["attention.preflight"]
    assert words in found.title and "signal 11. It was at dense 65." in found.why


def test_what_passed_on_this_card_outweighs_what_was_reported_of_others() -> None:
    facts = {"given": KERNEL, "build": V4, "model": GQA, "server": make_server(H200)}
    assert "backward.unproven" in findings(**facts)  # type: ignore[arg-type]
    passed = findings(**facts, preflight=PREFLIGHT)  # type: ignore[arg-type]
    assert "backward.unproven" not in passed and "attention.preflight" not in passed

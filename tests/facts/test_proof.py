from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kerneltui.facts.proof import AttentionShape, Check, Preflight, Proof, Raised, Rehearsal, Speed, Subject
from kerneltui.facts.proofs import find_preflight, keep_preflight
from kerneltui.records import from_json, to_json

SUBJECT = Subject(
    implementation="kernels-community/flash-attn2@v2",
    repository="kernels-community/flash-attn2",
    commit="a" * 40,
    variant="torch211-cxx11-cu130-x86_64-linux",
    device="NVIDIA H200",
    capability=(9, 0),
    driver="580.95.05",
    packages={"torch": "2.11.0"},
    dtype="bfloat16",
    shapes=(AttentionShape(heads=14, kv_heads=2, head_dim=64),),
    length=1024,
)
GOOD = Check(name="forward", case="dense", outcome="passed", figures={"error": 2e-3, "sdpa": 2e-3})
BAD = Check(name="backward", case="dense", outcome="failed", reason="it raised", only=("grouped heads",))
PREFLIGHT = Preflight(
    time="2026-12-01T09:00:00+00:00",
    seconds=8.0,
    subject=SUBJECT,
    checks=(GOOD,),
    speed=(Speed(implementation="sdpa"),),
)
REHEARSAL = Rehearsal(
    time="2026-12-01T09:00:00+00:00", seconds=20, ended="raised", device="cpu", raised=Raised(type="E", message="m")
)


def test_a_proof_survives_the_way_to_disk_and_back() -> None:
    proof = Proof(time="t", preflight=PREFLIGHT, rehearsal=REHEARSAL, unmade={"memory": "not asked for"})
    assert from_json(to_json(proof), Proof, "proof.json") == proof
    assert proof.failed and not proof.passed


@pytest.mark.parametrize(
    ("changes", "passed"),
    [
        ({}, True),
        ({"checks": (GOOD, BAD)}, False),
        ({"ended": "crashed"}, False),
        ({"checks": ()}, False),
        ({"checks": (msgspec.structs.replace(GOOD, outcome="skipped", reason="no room"),)}, False),
    ],
)
def test_a_preflight_passes_when_it_came_to_its_end_and_nothing_failed(
    changes: dict[str, object], passed: bool
) -> None:
    preflight = msgspec.structs.replace(PREFLIGHT, **changes)
    assert preflight.passed is passed
    assert Proof(time="t", preflight=preflight).failed is not passed


def test_a_proof_of_nothing_neither_passed_nor_failed() -> None:
    proof = Proof(time="t", unmade={"preflight": "no proof was asked for"})
    assert not proof.passed and not proof.failed


def test_a_preflight_is_found_for_just_its_subject(tmp_path: Path) -> None:
    keep_preflight(PREFLIGHT, tmp_path)
    found = find_preflight(SUBJECT, tmp_path)
    assert found is not None and found.cached and found.checks == PREFLIGHT.checks
    for name, value in {"commit": "b" * 40, "driver": "590.1", "device": "NVIDIA A100", "length": 2048}.items():
        assert find_preflight(msgspec.structs.replace(SUBJECT, **{name: value}), tmp_path) is None
    longer = msgspec.structs.replace(SUBJECT, length=2048, batch=4)
    assert find_preflight(longer, tmp_path) is None
    assert find_preflight(longer, tmp_path, measured=False) == found


def test_what_says_nothing_of_the_kernel_is_not_kept(tmp_path: Path) -> None:
    keep_preflight(msgspec.structs.replace(PREFLIGHT, ended="out_of_memory"), tmp_path)
    assert find_preflight(SUBJECT, tmp_path) is None


def test_what_was_kept_and_cannot_be_read_is_made_again(tmp_path: Path) -> None:
    keep_preflight(PREFLIGHT, tmp_path)
    next(tmp_path.iterdir()).write_bytes(b"{")
    assert find_preflight(SUBJECT, tmp_path) is None

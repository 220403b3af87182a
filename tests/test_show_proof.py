from __future__ import annotations

from typing import Any

import msgspec

from kerneltui.facts.proof import Check, Proof, Raised, Rehearsal, Speed
from kerneltui.show_proof import proof_lines
from tests.facts.test_proof import PREFLIGHT

CASE = "dense 65, 14/2 heads of 64, bfloat16"


def _check(name: str, case: str = CASE, **more: Any) -> Check:
    return Check(**{"name": name, "case": case, "outcome": "passed", **more})


def test_a_preflight_is_a_table_of_cases_beside_sdpa() -> None:
    checks = tuple(
        _check(name, figures={"error": 2e-3, "baseline": 1.9e-3})
        for name in ("forward", "gradient.q", "gradient.k", "gradient.v")
    )
    speed = (Speed(implementation="a/b", forward=1.25, backward=2.5), Speed(implementation="eager", reason="no memory"))
    made = msgspec.structs.replace(PREFLIGHT, checks=checks, speed=speed, speed_case="dense 2×1024", load_seconds=4.0)
    lines = proof_lines(Proof(time="t", preflight=made, unmade={"rehearsal": "it was not asked for"}))
    assert lines[0].startswith("✔ Preflight of kernels-community/flash-attn2@v2 (torch211-cxx11-cu130-x86_64-linux) on")
    assert lines[0].endswith("4 checks passed, in 8 s")
    assert lines[2].split() == ["✔", *["2.0e-03", "1.9e-03"] * 2, *CASE.split()]
    assert [line.split() for line in lines[5:7]] == [["a/b", "1.25", "2.5"], ["eager", "–", "–", "no", "memory"]]
    assert lines[-1] == "· No rehearsal: it was not asked for"


def test_what_failed_is_told_once_with_its_reason() -> None:
    bad: dict[str, Any] = {"outcome": "failed", "reason": "it raised RuntimeError: no", "only": ("grouped heads",)}
    checks = (_check("backward", **bad), _check("backward", "packed 9", **bad))
    lines = proof_lines(Proof(time="t", preflight=msgspec.structs.replace(PREFLIGHT, checks=checks, speed=())))
    assert "2 of 2 checks failed" in lines[0]
    assert lines[-1] == (
        "  ✖ backward: it raised RuntimeError: no; not without grouped heads: "
        "dense 65, 14/2 heads of 64, bfloat16 (and 1 other case)"
    )


def test_an_end_of_the_process_is_told_with_its_last_words() -> None:
    made = msgspec.structs.replace(
        PREFLIGHT, ended="crashed", ending="signal 11", at=CASE, tail="free(): \x1b[31minvalid pointer", speed=()
    )
    lines = proof_lines(Proof(time="t", preflight=made))
    assert f"it was killed by the kernel (signal 11) at {CASE}" in lines[0]
    assert lines[-1] == "  free(): invalid pointer"


def test_a_rehearsal_is_told_with_what_it_points_at() -> None:
    made = Rehearsal(time="t", seconds=20, device="cpu", steps=2, losses=(5.5, 5.25), attention="sdpa")
    (line,) = proof_lines(Proof(time="t", rehearsal=made))
    assert line == "✔ Rehearsal: 2 steps, attention sdpa, loss 5.25, in 20 s"
    raised = Raised(type="ValueError", message="no such column\nat all", field="dataset_text_field", row=3)
    failed = msgspec.structs.replace(made, ended="raised", ending="ValueError", raised=raised, warnings=("slow",))
    assert proof_lines(Proof(time="t", rehearsal=failed)) == [
        "✖ Rehearsal: it raised (ValueError), in 20 s",
        "  ValueError: no such column",
        "  at all",
        "  It points at dataset_text_field.",
        "  It points at row 3 of the data.",
        "  ▲ slow",
    ]

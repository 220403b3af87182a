"""Kernels that are wrong in one way each, loaded and called by transformers in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerneltui.facts.proof import AttentionShape, Preflight
from kerneltui.plan.plan import Launch
from kerneltui.prove.preflight import Limits, Preflighting
from tests.advice.situations import GQA, make_build, make_server, make_situation
from tests.worker.faults import make_kernel

NAME = "kerneltui-tests/faulty"


def _preflight(tmp_path: Path, fault: str, *, dtype: str = "float32", window: int | None = None) -> Preflight:
    """Return the preflight of a faulty kernel at the shape of a tiny model with grouped heads."""
    shape = AttentionShape(heads=4, kv_heads=2, head_dim=16, window=window)
    found = make_situation(
        server=make_server(),
        model=msgspec.structs.replace(GQA, attention=(shape,)),
        given={"attn_implementation": NAME, "max_length": 64, "dtype": dtype, "bf16": dtype == "bfloat16"},
        build=make_build("v1", "torch-cpu", repository=NAME, source="local", commit="local"),
    )
    kernel = make_kernel(tmp_path / "kernel", fault)
    environment = {"LOCAL_KERNELS": f"{NAME}={kernel}", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    plan = msgspec.structs.replace(found.plan, cwd=str(tmp_path), launch=Launch(environment=environment))
    limits = Limits(case=20) if fault == "hangs" else Limits()
    trial = Preflighting(msgspec.structs.replace(found, plan=plan), Path(sys.executable), limits=limits, again=True)
    return trial.run()


def _failed(made: Preflight) -> set[str]:
    return {check.name for check in made.failed}


def test_a_backward_that_raises_for_grouped_heads_is_caught_before_training(tmp_path: Path) -> None:
    made = _preflight(tmp_path, "backward_raises")
    assert made.ended == "ok" and not made.passed
    assert _failed(made) == {"backward"}
    assert all(check.only[0] == "grouped heads" for check in made.failed)
    assert {kernel["variant"] for kernel in made.loaded} == {"torch-cpu"}
    assert [(it.implementation, it.forward is not None) for it in made.speed][1:] == [("sdpa", True), ("eager", True)]


@pytest.mark.full
@pytest.mark.parametrize(
    ("fault", "options", "failed"),
    [
        ("none", {"window": 32}, set()),
        ("gradient_of_k", {}, {"gradient.k"}),
        ("leaks", {}, {"forward", "gradient.q", "gradient.k", "gradient.v", "borders"}),
        ("odd_nan", {}, {"finite"}),
        ("ignores_window", {"window": 32}, {"forward", "gradient.q", "gradient.k", "gradient.v"}),
        ("no_gradient", {}, {"backward"}),
        ("float32_only", {"dtype": "float32"}, set()),
        ("float32_only", {"dtype": "bfloat16"}, {"forward", "gradient.q", "gradient.k", "gradient.v"}),
    ],
)
def test_each_fault_is_caught_for_what_it_is(
    tmp_path: Path, fault: str, options: dict[str, Any], failed: set[str]
) -> None:
    made = _preflight(tmp_path, fault, **options)
    assert made.ended == "ok"
    assert made.passed is not bool(failed)
    assert _failed(made) == failed


@pytest.mark.full
@pytest.mark.parametrize(
    ("fault", "ended", "ending"),
    [
        ("killed", "crashed", "signal 11"),
        ("exits", "exited", "exit code 1"),
        ("hangs", "hung", "it did not answer in time and was ended"),
    ],
)
def test_a_kernel_that_takes_the_process_with_it(tmp_path: Path, fault: str, ended: str, ending: str) -> None:
    made = _preflight(tmp_path, fault)
    assert (made.ended, made.ending) == (ended, ending)
    assert made.at is not None and made.at.startswith("dense 16+16")
    assert {check.outcome for check in made.checks} == {"skipped"}

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerneltui.advice.assessment import Attention
from kerneltui.runs.directory import read_lines
from kerneltui.runs.follow import follow
from kerneltui.runs.loaded import alerts_of
from kerneltui.runs.supervisor import Supervisor
from kerneltui.runs.view import view_run
from tests.advice.situations import make_server
from tests.runs.fakes import KERNEL, NoGpus, make_record, make_run, set_state

COMMIT, MOVED = "1" * 40, "2" * 40
VARIANT = "torch211-cxx11-cu130-x86_64-linux"
HUB = Attention(
    asked=f"{KERNEL}@v2", implementation=f"{KERNEL}@v2", repository=KERNEL, revision="v2", commit=COMMIT,
    variant=VARIANT,
)  # fmt: skip
NATIVE = Attention(asked="flash_attention_2", implementation="flash_attention_2")
DEFAULT = Attention(asked=None, implementation="sdpa")
LOCAL = msgspec.structs.replace(HUB, commit="local", content_hash="abc", variant="torch-cpu")


def _kernel(**changes: Any) -> dict[str, Any]:
    return {
        "name": "flash-attn2", "version": 2, "repository": KERNEL, "revision": "v2", "commit": COMMIT,
        "variant": VARIANT, "path": "/cache/build", **changes,
    }  # fmt: skip


LOCAL_KERNEL = _kernel(name="flash_attn2", repository=None, revision=None, commit="local", variant="torch-cpu")


@pytest.mark.parametrize(
    ("promised", "attention", "kernels", "alerts"),
    [
        (HUB, f"{KERNEL}@v2", [_kernel()], []),
        (HUB, KERNEL, [_kernel()], []),
        (msgspec.structs.replace(HUB, implementation=KERNEL), KERNEL, [_kernel()], []),
        (HUB, f"{KERNEL}@v2", [_kernel(repository="other/norm", commit=MOVED), _kernel()], []),
        (DEFAULT, "sdpa", [], []),
        (NATIVE, "flash_attention_2", [], []),
        # What one side does not tell.
        (HUB, None, [], []),
        (HUB, f"{KERNEL}@v2", [], []),
        (msgspec.structs.replace(HUB, commit=None), f"{KERNEL}@v2", [_kernel(commit=MOVED)], []),
        (msgspec.structs.replace(HUB, variant=None), f"{KERNEL}@v2", [_kernel()], []),
        (HUB, f"{KERNEL}@v2", [_kernel(commit=None, variant=None)], []),
        # A kernel from LOCAL_KERNELS has neither repository nor commit.
        (LOCAL, f"{KERNEL}@v2", [LOCAL_KERNEL], []),
        (HUB, f"{KERNEL}@v2", [_kernel(name="norm", repository=None, commit="local")], []),
        # What differs.
        (HUB, "sdpa", [], [("other_attention", "block")]),
        (HUB, f"{KERNEL}@v1", [_kernel()], [("other_attention", "block")]),
        (NATIVE, KERNEL, [_kernel()], [("other_attention", "block")]),
        (DEFAULT, "eager", [], [("other_attention", "warn")]),
        (HUB, f"{KERNEL}@v2", [_kernel(commit=MOVED, variant="torch-cuda")], [("other_commit", "warn")]),
        (HUB, f"{KERNEL}@v2", [_kernel(variant="torch-cuda")], [("other_variant", "warn")]),
        (HUB, f"{KERNEL}@v2", [LOCAL_KERNEL], [("local_kernel", "warn")]),
        (HUB, f"{KERNEL}@v2", [_kernel(repository="me/flash-attn2")], [("other_repository", "block")]),
    ],
)  # fmt: skip
def test_what_was_loaded_is_held_against_the_promise(
    tmp_path: Path, promised: Attention, attention: Any, kernels: list[dict[str, Any]],
    alerts: list[tuple[str, str]],
) -> None:  # fmt: skip
    record = make_record(make_run(tmp_path / "run", ""), promised)
    found = alerts_of(record, {"attention": attention, "kernels": kernels})
    assert [(alert.id, alert.severity) for alert in found] == alerts
    assert all(alert.text and alert.next_step.endswith((".", COMMIT)) for alert in found)


def test_a_promise_without_the_libraries_own_tables_says_nothing_of_native_names(tmp_path: Path) -> None:
    run, server = make_run(tmp_path / "run", ""), msgspec.structs.replace(make_server(), libraries=None)
    begin = {"attention": KERNEL, "kernels": [_kernel()]}
    assert alerts_of(make_record(run, NATIVE, server=server), begin) == []
    record = make_record(run, HUB, server=server)
    assert [alert.id for alert in alerts_of(record, {"attention": "sdpa"})] == ["other_attention"]


def test_events_of_any_shape_are_no_difference(tmp_path: Path) -> None:
    record = make_record(make_run(tmp_path / "run", ""), HUB)
    for begin in ({}, {"attention": 3}, {"attention": KERNEL, "kernels": None}, {"attention": KERNEL, "kernels": [1]}):
        assert alerts_of(record, begin) == []


def test_an_alert_is_written_once_and_told(tmp_path: Path) -> None:
    begin = {"attention": f"{KERNEL}@v2", "kernels": [_kernel(commit=MOVED)], "step": 0, "total": 3}
    run = make_run(tmp_path / "run", f"begin(); event('train_begin', **{begin!r}); end('finished')")
    make_record(run, HUB)
    Supervisor(run, gpus=NoGpus()).supervise()
    (alert,) = [event for event in read_lines(run.events) if event["event"] == "alert"]
    assert (alert["id"], alert["severity"], alert["attempt"]) == ("other_commit", "warn", 1)
    text = f"{KERNEL} was promised at commit 11111111, 22222222 is loaded: the branch has moved"
    assert alert["text"] == text
    assert view_run(run).alert == text
    (line,) = [line for line in follow(run) if "▲" in line]
    assert line.endswith(f"▲ {text}. To keep the one that was checked, name the commit: "
                         f"attn_implementation {KERNEL}@{COMMIT}")  # fmt: skip

    set_state(run, phase="running")
    Supervisor(run, gpus=NoGpus()).supervise()
    assert len([event for event in read_lines(run.events) if event["event"] == "alert"]) == 1


def test_an_alert_of_an_earlier_attempt_is_past(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "")
    make_record(run)
    run.events.write_text(json.dumps({"event": "alert", "attempt": 1, "text": "old"}) + "\n")
    assert view_run(run).alert == "old"
    set_state(run, attempt=2, phase="finished")
    assert view_run(run).alert is None

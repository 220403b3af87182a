"""What of a server's health a plan is told: of its own cards, of what it needs, and nothing twice."""

from __future__ import annotations

from typing import Any

import msgspec

from kerneltui.advice.finding import Finding
from kerneltui.facts.server import Package, Toolchain, Torch
from tests.advice.situations import changes, findings
from tests.servers import recorded

GIB = 1 << 30


def told(server: Any, given: dict[str, Any] | None = None, **facts: Any) -> dict[str, Finding]:
    return findings(server=server, given={"dtype": "bfloat16", **(given or {})}, **facts)


def test_only_the_cards_of_the_plan_count() -> None:
    server = recorded("eight-a100-two-busy")
    assert told(server, gpus=(0, 1), processes=2) == {}
    finding = told(server, gpus=(0, 2), processes=2)["gpu.busy"]
    assert (finding.severity, finding.title) == ("warn", "GPU 2 is in use by alice")
    assert finding.why.endswith("Free: GPUs 0, 1, 3, 4, 6, 7.")
    assert told(server, {"use_cpu": True}, gpus=(2,)) == {}


def test_a_cause_is_told_with_its_effect_and_what_mends_it() -> None:
    cpu = Torch(version="2.11.0+cpu", unavailable={"devices": "Torch not compiled with CUDA enabled"})
    found = told(msgspec.structs.replace(recorded("h200"), torch=cpu))
    assert set(found) == {"device.no_gpu"}
    finding = found["device.no_gpu"]
    assert finding.title.startswith("torch 2.11.0+cpu is built without CUDA")
    assert "transformers refuses that without a GPU" in finding.why
    assert changes(finding)[0] == {"use_cpu": True}
    assert str(finding.fixes[1].command).endswith("/whl/cu130")


def test_a_driver_that_fails_is_told_once() -> None:
    for name, cause in (("driver-mismatch", "updated while it ran"), ("container-lost-gpu", "lost its GPUs")):
        found = told(recorded(name))
        assert set(found) == {"device.no_gpu"}
        assert cause in found["device.no_gpu"].title


def test_a_server_without_a_gpu_is_told_once() -> None:
    assert set(told(recorded("no-gpu"))) == {"device.no_gpu"}
    assert told(recorded("no-gpu"), {"use_cpu": True}) == {}


def test_what_a_plan_does_not_need_is_not_told() -> None:
    bare = msgspec.structs.replace(recorded("h200"), toolchain=Toolchain())
    assert told(bare) == {}
    assert "triton.toolchain" in told(bare, {"use_liger_kernel": True})
    healthy = recorded("h200")
    broken = msgspec.structs.replace(healthy, packages={**healthy.packages, "peft": Package(version="0.1", error="x")})
    assert told(broken) == {}
    assert "packages.broken.peft" in told(broken, {"use_peft": True})


def test_a_healthy_server_adds_nothing_to_a_plan() -> None:
    for name in ("h200", "b200", "wsl", "gb10", "h100-mig"):
        assert told(recorded(name)) == {}
    # Its parts are alike, but a number does not name one of them.
    assert set(told(recorded("h100-mig"), gpus=(0,))) == {"device.divided"}

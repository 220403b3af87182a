"""One build by itself: each answer about it, and what they come to."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kerneltui.advice.catalogue import catalogue
from kerneltui.advice.kernel_verdict import Answer, KernelVerdict, kernel_verdict, no_verdict, with_answer
from kerneltui.errors import HubError
from kerneltui.facts.kernel_records import KernelBuild
from kerneltui.facts.packages import read_version
from tests.advice.situations import A100, COMMUNITY, H200, make_build, make_server

STABLE_128, STABLE_130 = "torch-stable-abi210-cu128-x86_64-linux", "torch-stable-abi210-cu130-x86_64-linux"
CPU = "torch211-cxx11-cpu-x86_64-linux"
PLAIN = "torch211-cxx11-cu130-x86_64-linux"


def verdict(build: KernelBuild, *, trusted: bool | None = True, **server: Any) -> KernelVerdict:
    """Return the verdict on a build for an H200."""
    return kernel_verdict(build, make_server(H200, **server), trusted=trusted)


def kinds(found: KernelVerdict) -> dict[str, str]:
    """Return what each answer comes to."""
    return {answer.subject: answer.kind for answer in found.answers}


def test_a_build_that_loads_and_trains() -> None:
    found = verdict(make_build())
    assert (found.kind, found.reason) == ("ready", PLAIN)
    assert kinds(found) == dict.fromkeys(("variant", "metadata", "gpu", "training", "device", "trust"), "ready")
    training = found.answer("training")
    assert training and training.source and training.source.endswith("2026-08-21")


@pytest.mark.parametrize(
    ("metadata", "kind", "subject", "reason"),
    [
        (
            {"error": "missing field `name`\nat line 4"}, "refused", "metadata",
            "its metadata.json cannot be read: missing field `name`",
        ),
        (
            {"python_depends": ("einops", "x"), "missing_depends": ("einops", "x")}, "care", "packages",
            "it needs Python packages that are not installed: pip install einops x",
        ),
        ({"load_error": "it depends on what is not known"}, "refused", "metadata", "it depends on what is not known"),
        (
            {"kernels_minimum": "0.18.0"}, "refused", "metadata",
            "It asks for kernels 0.18.0 or newer; 0.17.2 is installed.",
        ),
        (
            {"archs": ("8.0",), "arch_error": "CUDA capability 9.0 is not supported"}, "refused", "gpu",
            "CUDA capability 9.0 is not supported",
        ),
    ],
    ids=["unreadable", "packages", "load error", "minimum", "GPU"],
)  # fmt: skip
def test_what_keeps_a_build_from_loading(metadata: dict[str, Any], kind: str, subject: str, reason: str) -> None:
    found = verdict(make_build(**metadata))
    assert (found.kind, found.reason, kinds(found)[subject]) == (kind, reason, kind)
    assert kinds(found)["variant"] == "ready", "its name fits"


def test_metadata_that_was_not_read_is_told_from_metadata_that_cannot_be() -> None:
    build = msgspec.structs.replace(make_build(), metadata=None)
    found = verdict(build)
    assert (found.kind, kinds(found)["metadata"]) == ("ready", "unknown")


def test_a_revision_without_a_build_that_fits() -> None:
    build = make_build("v1", None)
    assert (verdict(build).kind, verdict(build).reason) == ("refused", "no build for torch 2.11.0+cu130 on x86_64")
    unknown = msgspec.structs.replace(make_server(H200), torch=None)
    assert kernel_verdict(build, unknown).reason == "no build for this server"


@pytest.mark.parametrize(
    ("kind", "verdict_kind"),
    [("no_build", "refused"), ("not_found", "refused"), ("gated", "refused"), ("unreachable", "unknown"),
     ("rate_limited", "unknown"), ("garbage", "unknown")],
)  # fmt: skip
def test_no_answer_is_not_the_same_as_no_build(kind: str, verdict_kind: str) -> None:
    found = no_verdict(HubError(kind, "what it says"))
    assert (found.kind, found.reason) == (verdict_kind, "what it says")


@pytest.mark.parametrize(
    ("build", "kind", "words"),
    [
        (make_build("v1", repository="sgl-project/sgl-flash-attn3"), "refused", "not for training: it is forward only"),
        (make_build("v1", repository=f"{COMMUNITY}/paged-attention"), "refused", "has no backward"),
        (make_build("v1", repository=f"{COMMUNITY}/flash-mla"), "refused", "its arguments have other names"),
        (make_build("v1", repository=f"{COMMUNITY}/mra"), "refused", "no attention that transformers can call"),
        (make_build("v1", repository=f"{COMMUNITY}/relu"), "ready", "it is for layers, not for attention"),
        (make_build("v1", repository="somebody/thing"), "ready", "nothing is known of what it is for"),
        (make_build("v1", repository="somebody/fast-attention"), "care", "nothing is known of its backward"),
        (make_build("v3", CPU), "refused", "its CPU build has no backward"),
        (make_build("v2", CPU), "care", "nothing is known of its backward on the CPU"),
    ],
)
def test_what_is_known_of_the_backward(build: KernelBuild, kind: str, words: str) -> None:
    answer = verdict(build).answer("training")
    assert answer
    assert (answer.kind, words in answer.text) == (kind, True), answer
    assert verdict(build).kind != "ready" or kind == "ready"


def test_no_kernel_without_a_backward_is_ready_for_training() -> None:
    forward = [kernel.id for kernel in catalogue().values() if kernel.backward in ("no", "partly")]
    assert len(forward) >= 9
    for repository in forward:
        assert verdict(make_build("v1", repository=repository)).kind == "refused", repository


@pytest.mark.parametrize(
    ("build", "kind", "words"),
    [
        (make_build("v3", STABLE_128), "care", "its backward fails for models whose query heads share"),
        (make_build("v4", STABLE_130), "ready", "its backward is unproven for models whose query heads share"),
        (make_build("v0", "torch-cuda", repository=f"{COMMUNITY}/flash-attn4"), "care", "it is a beta"),
    ],
)
def test_reports(build: KernelBuild, kind: str, words: str) -> None:
    answer = verdict(build).answer("known")
    assert answer and answer.source
    assert (answer.kind, words in answer.text) == (kind, True), answer
    assert verdict(build).kind == kind


def test_flash4_has_no_backward_before_hopper() -> None:
    build = make_build("v0", "torch-cuda", repository=f"{COMMUNITY}/flash-attn4")
    found = kernel_verdict(build, make_server(A100), trusted=True)
    assert (found.kind, found.reason) == ("refused", "it has no backward on compute capability 8.0")


def test_a_publisher_that_the_hub_does_not_trust_needs_care() -> None:
    assert verdict(make_build(), trusted=False).kind == "care"
    assert kinds(verdict(make_build(), trusted=None))["trust"] == "unknown"
    assert verdict(make_build(), trusted=None).kind == "ready"


def test_transformers_own_table_of_devices() -> None:
    build = make_build("v2", "torch-cpu")
    found = kernel_verdict(build, make_server(), trusted=True).answer("device")
    assert found == Answer(
        subject="device", kind="care", text="transformers expects it on cuda, xpu; this torch is for cpu"
    )


def test_a_kernel_of_this_disk_is_nobody_elses_business() -> None:
    found = verdict(make_build("v3", STABLE_128, commit="local", source="local"), trusted=None)
    assert (found.kind, set(kinds(found))) == ("ready", {"variant", "metadata", "gpu"})


def test_one_more_answer_may_decide() -> None:
    found = with_answer(verdict(make_build()), Answer(subject="cache", kind="refused", text="it is not in the cache"))
    assert (found.kind, found.reason, len(found.answers)) == ("refused", "it is not in the cache", 7)


def test_a_version_or_nothing() -> None:
    assert str(read_version("2.13.0+cpu")) == "2.13.0+cpu"
    assert [read_version(text) for text in (None, "", "newest")] == [None, None, None]

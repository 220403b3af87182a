"""One build by itself: whether it loads on a server, and what is known of training with it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kerneltui.advice.build_verdict import build_verdict
from kerneltui.facts.hub import KernelBuild
from kerneltui.facts.packages import read_version
from tests.advice.situations import COMMUNITY, H200, make_build, make_server

STABLE_128, STABLE_130 = "torch-stable-abi210-cu128-x86_64-linux", "torch-stable-abi210-cu130-x86_64-linux"
CPU = "torch211-cxx11-cpu-x86_64-linux"


def test_a_build_that_loads() -> None:
    assert build_verdict(make_build(), make_server(H200)) == (None, "torch211-cxx11-cu130-x86_64-linux")


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"error": "missing field `name`\nat line 4"}, "its metadata.json cannot be read: missing field `name`"),
        ({"missing_depends": ("einops", "x")}, "it needs Python packages that are not installed: einops, x"),
        ({"load_error": "it depends on what kernels does not know"}, "it depends on what kernels does not know"),
        ({"kernels_minimum": "0.18.0"}, "It asks for kernels 0.18.0 or newer; 0.17.2 is installed."),
        ({"arch_error": "CUDA capability 9.0 is not supported"}, "CUDA capability 9.0 is not supported"),
    ],
)
def test_a_build_that_does_not_load(metadata: dict[str, Any], reason: str) -> None:
    assert build_verdict(make_build(**metadata), make_server(H200)) == ("block", reason)


def test_a_revision_without_a_build_that_fits() -> None:
    build = make_build("v1", None)
    assert build_verdict(build, make_server(H200)) == ("block", "no build for torch 2.11.0+cu130 on x86_64")
    unknown = msgspec.structs.replace(make_server(H200), torch=None)
    assert build_verdict(build, unknown) == ("block", "no build for this server")


@pytest.mark.parametrize(
    ("build", "severity", "words"),
    [
        (make_build("v1", repository="sgl-project/sgl-flash-attn3"), "block", "forward only"),
        (make_build("v1", repository=f"{COMMUNITY}/relu"), "note", "no attention that transformers can call"),
        (make_build("v1", repository="somebody/relu"), None, "torch211-cxx11-cu130"),
        (make_build("v3", CPU), "block", "its CPU build has no backward"),
        (make_build("v2", CPU), "warn", "nothing is known of its backward on the CPU"),
        (make_build("v3", STABLE_128), "warn", "its backward fails for models whose query heads share"),
        (make_build("v4", STABLE_130), "note", "it is unproven for models whose query heads share"),
        (make_build("v3", STABLE_130), None, "torch-stable-abi210-cu130"),
        (make_build("v3", STABLE_128, commit="local", source="local"), None, "torch-stable-abi210-cu128"),
    ],
)
def test_what_is_known_of_training(build: KernelBuild, severity: str | None, words: str) -> None:
    found, reason = build_verdict(build, make_server(H200))
    assert (found, words in reason) == (severity, True), reason


def test_a_version_or_nothing() -> None:
    assert str(read_version("2.13.0+cpu")) == "2.13.0+cpu"
    assert [read_version(text) for text in (None, "", "newest")] == [None, None, None]

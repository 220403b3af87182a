"""The rows of the kernel table: never anything else than what the findings say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kerneltui import demo
from kerneltui.advice import known
from kerneltui.advice.finding import Finding
from kerneltui.advice.rules import judge
from kerneltui.advice.verdict import Verdict, attention_candidates, attention_findings, try_attention, verdict_of
from kerneltui.facts.server import Libraries
from tests.advice.situations import (
    A100,
    COMMUNITY,
    GEMMA2,
    GPT_OSS,
    GQA,
    H200,
    MHA,
    OTHER_COMMIT,
    T4,
    make_build,
    make_libraries,
    make_server,
    make_situation,
)

FLASH2 = f"{COMMUNITY}/flash-attn2"


def _verdict(name: str, *, given: dict[str, Any] | None = None, model: Any = MHA, **more: Any) -> Verdict:
    server = more.pop("server", make_server(H200))
    return verdict_of(try_attention(make_situation(server=server, model=model, given=given), name, **more))


def test_a_kernel_with_a_build_is_ready_and_names_it() -> None:
    found = _verdict(f"{FLASH2}@v2", build=make_build(), trusted=True)
    assert (found.kind, found.severity) == ("ready", None)
    assert found.reason == "v2 · torch211-cxx11-cu130-x86_64-linux"


def test_native_names() -> None:
    assert _verdict("sdpa") == Verdict(kind="ready", reason="part of torch and transformers")
    stand_in = _verdict("flash_attention_2", build=make_build("v4"), trusted=True)
    assert (stand_in.kind, stand_in.severity) == ("ready", "note")
    assert stand_in.reason == f"flash_attention_2 will really be {FLASH2}, branch v4"
    installed = _verdict("flash_attention_2", server=make_server(H200, flash=("flash_attention_2",)))
    assert installed.reason == "its own package is installed"


REFUSED = [
    (FLASH2, {"build": make_build("v4", None, refused={"torch210-cu128": "Torch version"})}, "variants.none"),
    (FLASH2, {"build": make_build(missing_depends=("einops",))}, "variants.depends"),
    (FLASH2, {"build_error": ("not_found", "There is no such kernel")}, "source.not_found"),
    (FLASH2, {"build": make_build(), "trusted": False}, "source.untrusted"),
    (f"{COMMUNITY}/paged-attention", {}, "backward.none"),
    (FLASH2, {"server": make_server(T4), "build": make_build()}, "device.flash"),
    (FLASH2, {"server": make_server(H200, transformers="5.24.0"), "build": make_build()}, "packages.kernels"),
    ("flash_attention_2", {"server": make_server(H200, kernels=None)}, "packages.flash_attention"),
    ("sdpa", {"model": GEMMA2}, "attention.no_sdpa"),
    ("flex_attention", {"server": make_server()}, "attention.flex_on_cpu"),
    ("a/b@refs/heads/v1", {}, "attention.revision"),
    (FLASH2, {"given": {"bf16": False}, "build": make_build()}, "dtype.flash"),
    (f"{COMMUNITY}/flash-attn4", {"server": make_server(A100)}, "backward.flash4"),
]


@pytest.mark.parametrize(("name", "more", "identifier"), REFUSED)
def test_what_blocks_is_refused(name: str, more: dict[str, Any], identifier: str) -> None:
    found = _verdict(name, **more)
    assert (found.kind, found.severity) == ("refused", "block")
    assert identifier in found.ids


def test_why_a_kernel_is_not_for_training_is_the_reason() -> None:
    assert "no backward" in _verdict(f"{COMMUNITY}/paged-attention").reason


def test_a_warning_is_care_and_a_note_is_not() -> None:
    old = make_build("v3", "torch-stable-abi210-cu126-x86_64-linux", commit=OTHER_COMMIT)
    assert _verdict(f"{FLASH2}@v3", model=GQA, build=old, trusted=True).kind == "care"
    new = make_build("v4", "torch-stable-abi210-cu130-x86_64-linux", commit=OTHER_COMMIT)
    found = _verdict(f"{FLASH2}@v4", model=GQA, build=new, trusted=True)
    assert (found.kind, found.ids) == ("ready", ("backward.unproven",))
    pinned = _verdict(f"{COMMUNITY}/vllm-flash-attn3@v1", model=GPT_OSS, build=make_build("v1"), trusted=True)
    assert (pinned.kind, pinned.ids) == ("care", ("attention.swapped",))


def test_what_was_not_asked_is_unknown() -> None:
    assert _verdict(FLASH2).kind == "unknown"
    assert _verdict("sdpa", server=make_server(H200, libraries=None)).kind == "unknown"
    there = make_situation(unknown={"local_kernel": "/somewhere"}, elsewhere=True)
    assert verdict_of(try_attention(there, FLASH2)).reason == "it comes from a folder on that server"


def test_findings_about_other_things_do_not_count() -> None:
    situation = make_situation(model=MHA, given={"model_name_or_path": None, "learning": 1}, unknown_keys=("learning",))
    found = judge(try_attention(situation, "sdpa"))
    assert {finding.severity for finding in found} == {"block"}
    assert verdict_of(try_attention(situation, "sdpa"), found).kind == "ready"
    assert attention_findings(found) == []


def test_another_attention_wherever_the_plan_asks_for_it() -> None:
    given = {"model_init_kwargs": {"attn_implementation": "eager"}}
    situation = make_situation(given=given)
    tried = try_attention(situation, "sdpa")
    assert (tried.settings.attention, tried.attention.implementation) == ("sdpa", "sdpa")
    assert tried.plan == situation.plan


def test_candidates_have_a_fixed_order() -> None:
    libraries = make_libraries()
    found = attention_candidates(libraries)
    assert found[:4] == [
        FLASH2, f"{COMMUNITY}/vllm-flash-attn3", f"{COMMUNITY}/flash-attn4", f"{COMMUNITY}/aiter-flash-attn",
    ]  # fmt: skip
    assert found[4:10] == [
        "sdpa", "flex_attention", "eager", "flash_attention_2", "flash_attention_3", "flash_attention_4",
    ]  # fmt: skip
    assert set(found[10:]) <= set(known.forward_only())
    assert len(found) == len(set(found))
    assert "paged|eager" not in found
    assert attention_candidates(libraries, embedded=True)[0] == demo.ATTENTION
    # What transformers names, whatever the order of its table.
    shuffled = dict(reversed(libraries.attention_versions.items()))
    assert attention_candidates(msgspec.structs.replace(libraries, attention_versions=shuffled)) == found


def test_candidates_without_tables() -> None:
    assert attention_candidates(None)[:3] == ["sdpa", "flex_attention", "eager"]
    assert attention_candidates(Libraries())[:3] == ["sdpa", "flex_attention", "eager"]


def test_every_severity_has_its_kind() -> None:
    kinds = {"block": "refused", "warn": "care", "note": "ready"}
    for severity, kind in kinds.items():
        finding = Finding(id="attention.x", severity=severity, title="X", why="", origin="asked", source="x")  # type: ignore[arg-type]
        assert verdict_of(make_situation(given={"attn_implementation": "sdpa"}), [finding]).kind == kind

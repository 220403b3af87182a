"""Which attention kernel and which of its revisions is recommended."""

from __future__ import annotations

import msgspec

from kerneltui import demo
from kerneltui.advice.recommend import Recommendation, recommend_attention, recommend_revision
from kerneltui.advice.situation import Situation
from kerneltui.advice.verdict import Verdict
from kerneltui.plan.plan import Launch
from tests.advice.recommending import FLASH2, server_of
from tests.advice.situations import COMMUNITY, GPT_OSS, H200, make_situation

READY = Verdict(kind="ready", reason="fits")
CARE = Verdict(kind="care", reason="careful", severity="warn", titles=("careful",))
REFUSED = Verdict(kind="refused", reason="no build", severity="block", titles=("no build",))
UNKNOWN = Verdict(kind="unknown", reason="not asked")
NATIVE = dict.fromkeys(("sdpa", "flex_attention", "eager"), READY)
HERE, THERE = make_situation(server=server_of(H200)), make_situation(server=server_of())


def _attention(verdicts: dict[str, Verdict], situation: Situation = HERE) -> str:
    found = recommend_attention(situation, {**verdicts, **NATIVE})
    assert found.why.endswith(".")
    return str(found.values["attn_implementation"])


def test_a_kernel_without_a_warning_before_sdpa() -> None:
    third = f"{COMMUNITY}/vllm-flash-attn3"
    assert _attention({third: READY, FLASH2: READY}) == FLASH2
    assert _attention({third: READY, FLASH2: CARE}) == third
    assert _attention({FLASH2: CARE}) == "sdpa"
    assert _attention({FLASH2: UNKNOWN}) == "sdpa"
    assert _attention({FLASH2: READY}, THERE) == "sdpa"


def test_kernels_that_are_chosen_but_not_recommended() -> None:
    assert _attention({f"{COMMUNITY}/flash-attn4": READY}) == "sdpa"
    assert _attention({f"{COMMUNITY}/paged-attention": READY}) == "sdpa"
    unproven = msgspec.structs.replace(READY, ids=("backward.unproven",))
    assert recommend_attention(HERE, {FLASH2: unproven}).why.endswith("Prove it before a long run.")


def test_the_embedded_kernel_for_the_embedded_model() -> None:
    plan = msgspec.structs.replace(THERE.plan, launch=Launch(environment={"LOCAL_KERNELS": "a/b=/c"}))
    found = recommend_attention(msgspec.structs.replace(THERE, plan=plan), {**NATIVE, demo.ATTENTION: READY})
    assert found.values == {"attn_implementation": demo.ATTENTION}
    assert found.environment == {
        "LOCAL_KERNELS": f"a/b=/c:{demo.ATTENTION}={demo.attention_path()}", "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    assert _attention({demo.ATTENTION: REFUSED}) == "sdpa"


def test_an_installed_flash_attention_and_not_its_stand_in() -> None:
    assert _attention({"flash_attention_2": READY}) == "flash_attention_2"
    assert _attention({"flash_attention_2": msgspec.structs.replace(READY, severity="note")}) == "sdpa"


def test_sdpa_says_why_without_regret() -> None:
    found = recommend_attention(HERE, {FLASH2: REFUSED, **NATIVE})
    assert found.why == (
        "No kernel of the Hub fits this server and model without a warning (no build); torch's own is a good choice."
    )
    refused = recommend_attention(THERE, {"sdpa": REFUSED, "flex_attention": REFUSED, "eager": READY})
    assert refused.values == {"attn_implementation": "eager"}


def _revision(verdicts: dict[str, Verdict], torch: str = "2.11.0") -> Recommendation:
    server = server_of(H200, torch=torch)
    return recommend_revision(make_situation(server=server, given={"attn_implementation": FLASH2}), verdicts)


def test_the_branch_of_transformers_unless_it_has_a_block() -> None:
    fine = _revision({"v5": READY, "v4": READY, "v2": READY})
    assert fine.values == {"attn_implementation": f"{FLASH2}@v4"}
    other = _revision({"v4": REFUSED, "v3": CARE, "v2": READY})
    assert other.values == {"attn_implementation": f"{FLASH2}@v2"}
    assert other.why == "The newest with no warning. Not v4: no build."
    assert _revision({"v4": REFUSED, "v3": CARE}).values == {"attn_implementation": f"{FLASH2}@v3"}
    careful = _revision({"v4": CARE, "v3": CARE}, torch="2.9.1")
    assert careful.values == {"attn_implementation": f"{FLASH2}@v3"}
    assert careful.why == "The branch that transformers takes by itself, though: careful."
    assert _revision({"v4": REFUSED}).values == {}
    assert _revision({"main": READY}).why.endswith("Not v4: it is not there.")


def test_a_class_with_a_closed_list_keeps_the_bare_name() -> None:
    repository = f"{COMMUNITY}/vllm-flash-attn3"
    situation = make_situation(model=GPT_OSS, given={"attn_implementation": repository})
    assert recommend_revision(situation, {"v1": READY}).values == {"attn_implementation": repository}

"""What an attention implementation becomes, and whether the model's class can use it."""

from __future__ import annotations

import msgspec
import pytest

from kerneltui.facts.attention import device_type, resolve_attention
from kerneltui.facts.server import Torch
from tests.advice.situations import (
    BLOOM,
    COMMUNITY,
    GEMMA2,
    GPT_OSS,
    GQA,
    H200,
    MHA,
    blocks,
    changes,
    findings,
    make_libraries,
    make_server,
    make_situation,
)

VLLM = f"{COMMUNITY}/vllm-flash-attn3"


def test_a_pinned_kernel_is_swapped_and_loses_its_revision() -> None:
    finding = findings(model=GPT_OSS, given={"attn_implementation": f"{VLLM}@v1"})["attention.swapped"]
    assert finding.severity == "warn"
    assert finding.title == f"{VLLM}@v1 will be replaced by {VLLM}"
    assert changes(finding) == [{"attn_implementation": VLLM}]


def test_a_swap_without_a_pin_is_told() -> None:
    found = findings(model=GPT_OSS, given={"attn_implementation": "flash_attention_2"})
    assert {name: finding.severity for name, finding in found.items()} == {"attention.swapped": "note"}


@pytest.mark.parametrize("asked", [VLLM, "eager", "flex_attention", None])
def test_what_the_class_allows_is_not_swapped(asked: str | None) -> None:
    assert "attention.swapped" not in findings(model=GPT_OSS, given={"attn_implementation": asked})
    assert "attention.swapped" not in findings(model=GQA, given={"attn_implementation": f"{VLLM}@v1"})


@pytest.mark.parametrize("asked", ["flash_attention_2", f"{COMMUNITY}/flash-attn2@v2", f"{COMMUNITY}/flash-attn3"])
def test_a_class_without_flash_cannot_use_it(asked: str) -> None:
    found = findings(model=BLOOM, given={"attn_implementation": asked})
    assert {name for name, finding in found.items() if finding.severity == "block"} == {"attention.no_flash"}
    assert changes(found["attention.no_flash"]) == [{"attn_implementation": "eager"}]
    assert blocks(model=MHA, given={"attn_implementation": asked}) == set()


def test_a_class_without_flash_has_it_neither_with_the_package_nor_with_a_broken_pair() -> None:
    given = {"attn_implementation": "flash_attention_2"}
    packaged, broken = make_server(H200, flash=("flash_attention_2",)), make_server(H200, transformers="5.24.0")
    assert blocks(server=packaged, model=BLOOM, given=given) == {"attention.no_flash"}
    assert blocks(server=broken, model=BLOOM, given=given) == {"attention.no_flash"}


def test_a_kernel_whose_name_does_not_say_flash_is_not_checked_by_transformers() -> None:
    given = {"attn_implementation": "kerneltui/demo-attention"}
    assert findings(model=BLOOM, given=given)["attention.no_flash"].severity == "warn"
    assert not findings(model=MHA, given=given)


def test_sdpa_and_flex_need_the_class() -> None:
    assert blocks(model=GEMMA2, given={"attn_implementation": "sdpa"}) == {"attention.no_sdpa"}
    assert blocks(model=BLOOM, given={"attn_implementation": "flex_attention"}) == {"attention.no_flex"}
    for asked in ("sdpa", "flex_attention", "eager", None):
        assert not findings(model=GQA, given={"attn_implementation": asked})
    assert not findings(model=GEMMA2)
    assert not findings(model=msgspec.structs.replace(GQA, supports_sdpa=None), given={"attn_implementation": "sdpa"})


def test_softcap_needs_another_attention_than_sdpa() -> None:
    capped = msgspec.structs.replace(GEMMA2, supports_sdpa=True)
    for asked in ("sdpa", None):
        finding = findings(model=capped, given={"attn_implementation": asked})["attention.softcap"]
        assert finding.severity == "block"
        assert changes(finding) == [{"attn_implementation": "flex_attention"}, {"attn_implementation": "eager"}]
    assert not findings(model=capped, given={"attn_implementation": "eager"})


def test_an_unknown_name_gets_the_nearest() -> None:
    finding = findings(given={"attn_implementation": "flash_attention2"})["attention.unknown"]
    assert finding.severity == "block"
    assert finding.why.endswith("Did you mean flash_attention_2?")
    assert changes(finding) == [{"attn_implementation": "flash_attention_2"}, {"attn_implementation": "sdpa"}]
    assert changes(findings(given={"attn_implementation": "spda"})["attention.unknown"]) == [
        {"attn_implementation": "sdpa"}
    ]
    assert not findings(given={"attn_implementation": "paged|eager"})


def test_without_the_tables_of_transformers_nothing_is_said_of_names() -> None:
    server = make_server(H200, libraries=None)
    assert not findings(server=server, given={"attn_implementation": "whatever"})


@pytest.mark.parametrize(
    ("asked", "fixes"),
    [
        ("a/b@refs/heads/v2", [{"attn_implementation": "a/b@v2"}]),
        ("a/b@refs/tags/x", [{"attn_implementation": "a/b@x"}]),
        ("a/b@refs/pr/3", []),
        ("a/b@v2:f:g", []),
    ],
)
def test_a_revision_with_a_slash_or_a_colon_cannot_be_written(asked: str, fixes: list[dict[str, str]]) -> None:
    found = findings(given={"attn_implementation": asked})
    assert set(found) == {"attention.revision"}
    assert found["attention.revision"].severity == "block"
    assert changes(found["attention.revision"]) == fixes


def test_a_revision_with_a_function_can_be_written() -> None:
    assert not findings(given={"attn_implementation": "a/b@v2:f"})


def test_model_init_kwargs_is_changed_where_it_decides() -> None:
    given = {"model_init_kwargs": {"attn_implementation": "sdpa", "use_cache": False}, "attn_implementation": "eager"}
    finding = findings(model=GEMMA2, given=given)["attention.no_sdpa"]
    assert changes(finding) == [{"model_init_kwargs": {"attn_implementation": "eager", "use_cache": False}}]


@pytest.mark.parametrize(
    ("asked", "taken"),
    [
        ({"": "sdpa", "vision_config": "eager"}, "sdpa"),
        ({"": "eager", "text_config": "sdpa"}, "sdpa"),
        ({"text_config": {"": "sdpa", "inner_config": "eager"}}, "sdpa"),
        ({"vision_config": "sdpa"}, None),
    ],
)
def test_of_a_mapping_by_sub_model_that_of_the_text_model_counts(asked: dict[str, object], taken: str | None) -> None:
    given = {"model_init_kwargs": {"attn_implementation": asked}}
    assert make_situation(given=given).settings.attention == taken
    assert blocks(model=GEMMA2, given=given) == ({"attention.no_sdpa"} if taken else set())


@pytest.mark.parametrize(
    ("torch", "device"),
    [
        (Torch(version="2.13.0", cuda="13.0"), "cuda"),
        (Torch(version="2.13.0", hip="7.1"), "rocm"),
        (Torch(version="2.13.0", xpu="20250301"), "xpu"),
        (Torch(version="2.13.0"), "cpu"),
        (None, "cuda"),
    ],
)
def test_a_class_that_swaps_takes_what_is_built_for_the_device_of_torch(torch: Torch | None, device: str) -> None:
    assert device_type(torch) == device
    both = msgspec.structs.replace(GPT_OSS, compatible_flash=(VLLM, f"{COMMUNITY}/aiter-flash-attn"))
    libraries = make_libraries()
    libraries = msgspec.structs.replace(
        libraries, attention_devices={VLLM: ("cuda",), f"{COMMUNITY}/aiter-flash-attn": ("rocm",)}
    )
    choice = resolve_attention(f"{COMMUNITY}/flash-attn2@v2", libraries, both, True, device)
    assert (choice.repository, choice.pinned) == (f"{COMMUNITY}/aiter-flash-attn" if device == "rocm" else VLLM, False)


def test_model_init_kwargs_of_the_command_line_is_json() -> None:
    given = {"model_init_kwargs": '{"attn_implementation": "sdpa"}'}
    assert blocks(model=GEMMA2, given=given) == {"attention.no_sdpa"}
    assert not findings(given={"model_init_kwargs": "{not json"})


def test_flex_attention_trains_on_a_gpu_alone() -> None:
    flex = {"attn_implementation": "flex_attention"}
    found = findings(server=make_server(), given={**flex, "use_cpu": True})["attention.flex_on_cpu"]
    assert (found.severity, changes(found)) == ("block", [{"attn_implementation": "sdpa"}])
    assert not blocks(given=flex)
    assert not blocks(server=make_server(), given={"attn_implementation": "eager", "use_cpu": True})

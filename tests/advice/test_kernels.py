"""Builds, where a kernel comes from, and whether it can train."""

from __future__ import annotations

import msgspec
import pytest

from kerneltui.advice.rules import judge, wants_alternatives
from tests.advice.situations import (
    A100,
    COMMUNITY,
    GPT_OSS,
    H200,
    MHA,
    blocks,
    changes,
    findings,
    make_build,
    make_server,
    make_situation,
)

FLASH2 = f"{COMMUNITY}/flash-attn2"
ASKED = {"attn_implementation": f"{FLASH2}@v2"}


def test_a_build_that_fits_is_not_spoken_of() -> None:
    assert not findings(given=ASKED, build=make_build())
    assert not findings(given=ASKED)


def test_no_builds_at_all() -> None:
    finding = findings(given=ASKED, build=make_build(variant=None))["variants.none"]
    assert finding.why == "This revision has no builds at all."


def test_unreadable_metadata_is_told_apart_from_no_build() -> None:
    build = make_build(error="Cannot parse metadata from metadata.json: missing field `name`", archs=())
    assert blocks(given=ASKED, build=build) == {"variants.metadata"}


def test_python_packages_that_a_build_needs() -> None:
    build = make_build(missing_depends=("einops", "apache-tvm-ffi"))
    finding = findings(given=ASKED, build=build)["variants.depends"]
    assert finding.fixes[0].command == "/opt/train/bin/python -m pip install einops apache-tvm-ffi"
    assert not findings(given=ASKED, build=make_build(python_depends=("einops",)))


def test_a_build_for_a_newer_kernels() -> None:
    build = make_build(kernels_minimum="0.17.9")
    finding = findings(given=ASKED, build=build)["variants.refused"]
    assert finding.severity == "block"
    assert finding.fixes[0].command == "/opt/train/bin/python -m pip install 'kernels>=0.17.9,<0.18.0'"
    beyond = findings(given=ASKED, build=make_build(kernels_minimum="0.18.0"))["variants.refused"]
    assert [fix.command for fix in beyond.fixes] == [None]
    assert not findings(given=ASKED, build=make_build(kernels_minimum="0.17.2"))
    told = findings(given=ASKED, build=make_build(load_error="it depends on what kernels does not know"))
    assert told["variants.refused"].why == "it depends on what kernels does not know"


def test_architectures_are_judged_by_kernels_alone() -> None:
    assert not findings(given=ASKED, build=make_build(archs=("7.0",)))
    reason = "CUDA capability 9.0 of the current device is not supported"
    refused = make_build(archs=("8.0",), arch_error=reason)
    assert blocks(given=ASKED, build=refused) == {"variants.architecture"}
    none = make_situation(given=ASKED, build=make_build("v1", None))
    others = msgspec.structs.replace(none, alternatives=(msgspec.structs.replace(refused, revision="v3"),))
    assert changes(judge(others)[0]) == [{"attn_implementation": "sdpa"}]


@pytest.mark.parametrize("kind", ["not_found", "no_revision", "no_build", "no_metadata", "gated", "bad_token"])
def test_what_the_hub_refuses_for_sure_blocks(kind: str) -> None:
    finding = findings(given=ASKED, build_error=(kind, "The title\nThe reason\nThe hint"))[f"source.{kind}"]
    assert (finding.severity, finding.title, finding.why) == ("block", "The title", "The reason\nThe hint")


@pytest.mark.parametrize("kind", ["rate_limited", "unavailable", "unreachable", "garbage"])
def test_a_hub_without_an_answer_blocks_here_and_warns_for_another_machine(kind: str) -> None:
    here = findings(given=ASKED, build_error=(kind, "The title\nThe reason"))[f"source.{kind}"]
    assert here.severity == "block"
    assert here.why.startswith("The reason\nUntil the Hub answers, kernels loads nothing")
    assert changes(here) == [{"attn_implementation": "sdpa"}]
    there = findings(given=ASKED, build_error=(kind, "The title"), elsewhere=True)[f"source.{kind}"]
    assert there.severity == "warn"
    assert "not asked for" in there.why


@pytest.mark.parametrize("kind", ["offline", "new"])
def test_what_may_still_work_warns_that_nothing_was_asked(kind: str) -> None:
    finding = findings(given=ASKED, build_error=(kind, "The title"))[f"source.{kind}"]
    assert finding.severity == "warn"
    assert "not asked for" in finding.why
    assert not findings(given=ASKED, build=make_build(), build_error=None)


def test_other_revisions_are_worth_asking_for_where_they_may_mend_it() -> None:
    nothing = make_situation(given=ASKED, build=make_build())
    assert not wants_alternatives(judge(nothing))
    missing = make_situation(given=ASKED, build_error=("no_revision", "There is no v9"))
    assert wants_alternatives(judge(missing))
    others = msgspec.structs.replace(missing, alternatives=(make_build("v3", "torch-stable-abi210-cu130"),))
    assert changes(judge(others)[0])[0] == {"attn_implementation": f"{FLASH2}@v3"}


def test_a_repository_of_the_old_type_has_a_new_name() -> None:
    asked = {"attn_implementation": f"{COMMUNITY}/flash-attn"}
    finding = findings(given=asked, build_error=("not_found", "There is no such kernel"))["source.not_found"]
    assert changes(finding)[0] == {"attn_implementation": FLASH2}


def test_a_repository_that_is_not_there_gets_the_nearest_name() -> None:
    asked = {"attn_implementation": f"{COMMUNITY}/flash-atn2@v2"}
    error = ("not_found", "There is no such kernel")
    found = findings(given=asked, build_error=error, similar=FLASH2)["source.not_found"]
    assert changes(found)[0] == {"attn_implementation": FLASH2}
    assert changes(findings(given=asked, build_error=error)["source.not_found"]) == [{"attn_implementation": "sdpa"}]


def test_trust_that_could_not_be_asked_takes_nothing_of_the_build_away() -> None:
    unknown = {"trust": "The Hub has a failure of its own (503)"}
    found = findings(given=ASKED, build=make_build(), unknown=unknown)
    assert {name: finding.severity for name, finding in found.items()} == {"source.trust_not_asked": "note"}
    assert "503" in found["source.trust_not_asked"].why
    assert not findings(given=ASKED, build=make_build(), unknown=unknown, trusted=True)


def test_a_run_that_does_not_ask_the_hub_needs_the_kernel_in_its_cache() -> None:
    offline = {**ASKED, "env": {"HF_HUB_OFFLINE": 1}}
    assert findings(given=offline, build=make_build(), trusted=True)["source.offline_run"].severity == "warn"
    cached = msgspec.structs.replace(make_build(), source="cache")
    assert not findings(given=offline, build=cached, cached=True)
    for build, error in ((cached, None), (None, ("offline", "HF_HUB_OFFLINE is set"))):
        found = findings(given=offline, build=build, build_error=error, cached=False)
        assert {name: finding.severity for name, finding in found.items()} == {"source.not_cached": "block"}
        assert "kerneltui fetch" in found["source.not_cached"].why
    local = make_build(commit="local", source="local", archs=())
    assert "source.offline_run" not in findings(given=offline, build=local)
    assert not findings(given={**ASKED, "env": {"HF_HUB_OFFLINE": "0"}}, build=make_build(), trusted=True)


def test_hub_kernels_that_are_switched_off_are_those_for_layers() -> None:
    off = {**ASKED, "env": {"USE_HUB_KERNELS": "0"}}
    finding = findings(given=off, build=make_build(), trusted=True)["source.hub_kernels_off"]
    assert (finding.severity, changes(finding)) == ("note", [{"attn_implementation": "sdpa"}])
    assert not findings(given={**ASKED, "env": {"USE_HUB_KERNELS": "yes"}}, build=make_build(), trusted=True)
    assert not findings(given={"attn_implementation": "sdpa", "env": {"USE_HUB_KERNELS": "0"}})


def test_what_is_unproven_is_tried_first() -> None:
    v4 = make_build("v4", "torch-stable-abi210-cu130-x86_64-linux", commit="4" * 40)
    found = findings(given={"attn_implementation": f"{FLASH2}@v4"}, build=v4)["backward.unproven"]
    assert changes(found) == [{"max_steps": 2}]


def test_trust() -> None:
    asked = {"attn_implementation": "somebody/flash-attn2@v1"}
    finding = findings(given=asked, trusted=False)["source.untrusted"]
    assert finding.severity == "block"
    assert changes(finding)[1] == {"model_init_kwargs": {"allow_all_kernels": True}}
    allowed = {**asked, "model_init_kwargs": {"allow_all_kernels": True}}
    assert findings(given=allowed, trusted=False)["source.untrusted"].severity == "note"
    assert not findings(given=asked, trusted=True)
    assert not findings(given=asked, trusted=None)


def test_trust_is_not_asked_offline_or_of_what_the_class_names_or_of_a_local_folder() -> None:
    asked = {"attn_implementation": "somebody/attention@v1"}
    offline = make_server(H200, environment={"HF_HUB_OFFLINE": "1"})
    assert not findings(server=offline, given=asked, trusted=False)
    model = msgspec.structs.replace(GPT_OSS, compatible_flash=("somebody/flash",))
    assert not findings(model=model, given={"attn_implementation": "somebody/flash"}, trusted=False)
    local = make_build("v1", "torch-cuda", repository="somebody/attention", commit="local", source="local")
    assert set(findings(given=asked, build=local, trusted=False)) == {"source.local"}


def test_a_local_kernel_is_told_and_its_revision_is_ignored() -> None:
    local = make_build("v2", "torch-cuda", commit="local", source="local", archs=())
    finding = findings(given=ASKED, build=local)["source.local"]
    assert (finding.severity, "The revision v2 is ignored" in finding.why) == ("note", True)
    unpinned = findings(model=MHA, given={"attn_implementation": FLASH2}, build=local)["source.local"]
    assert "ignored" not in unpinned.why


@pytest.mark.parametrize(
    "repository",
    [
        f"{COMMUNITY}/sage-attention",
        f"{COMMUNITY}/relu",
        "sgl-project/sgl-flash-attn3",
        f"{COMMUNITY}/metal-flash-sdpa",
    ],
)
def test_kernels_that_cannot_train(repository: str) -> None:
    assert "backward.none" in blocks(given={"attn_implementation": repository})
    local = make_build("v1", "torch-cuda", repository=repository, commit="local", source="local", archs=())
    assert not blocks(given={"attn_implementation": repository}, build=local)


def test_names_of_other_owners_are_not_judged_by_a_table() -> None:
    assert not findings(given={"attn_implementation": "somebody/relu"})


def test_the_cpu_build_of_flash_attn2() -> None:
    server, given = make_server(torch="2.13.0"), {"use_cpu": True, "attn_implementation": f"{FLASH2}@v2"}
    variant = "torch213-cxx11-cpu-x86_64-linux"
    found = findings(server=server, model=MHA, given=given, build=make_build("v2", variant, archs=()))
    assert {name: finding.severity for name, finding in found.items()} == {"backward.cpu": "warn"}
    v3 = {**given, "attn_implementation": f"{FLASH2}@v3"}
    assert blocks(server=server, given=v3, build=make_build("v3", variant, archs=())) == {"backward.cpu"}
    own = {**given, "attn_implementation": "kerneltui/demo-attention"}
    build = make_build("v1", "torch-cpu", repository="kerneltui/demo-attention", archs=())
    assert not findings(server=server, given=own, build=build)


def test_flash_attn4_has_no_backward_on_ampere() -> None:
    given = {"attn_implementation": f"{COMMUNITY}/flash-attn4"}
    build = make_build("v0", "torch-cuda", repository=f"{COMMUNITY}/flash-attn4", archs=())
    assert blocks(server=make_server(A100), given=given, build=build) == {"backward.flash4"}
    assert not findings(server=make_server(H200), given=given, build=build)


def test_heads_that_are_not_known_are_not_guessed() -> None:
    build = make_build("v3", "torch-stable-abi210-cu128-x86_64-linux")
    given = {"attn_implementation": f"{FLASH2}@v3"}
    for model in (None, msgspec.structs.replace(MHA, kv_heads=None)):
        found = findings(server=make_server(H200, cuda="12.8"), model=model, given=given, build=build)
        assert {name: finding.severity for name, finding in found.items()} == {"backward.heads_unknown": "note"}
    pinned = make_build("c" * 40, "torch-stable-abi210-cu128-x86_64-linux", commit="c" * 40)
    assert not findings(given={"attn_implementation": f"{FLASH2}@{'c' * 40}"}, build=pinned)

"""Fetching: what a plan needs, the room for it, what comes, and that kernels loads it with the Hub gone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerneltui import fetch
from kerneltui.advice.situation import Situation
from kerneltui.errors import KerneltuiError
from kerneltui.facts.cached import CachedKernel, cached_kernels, make_loadable
from kerneltui.fetch import Part
from kerneltui.plan.plan import Launch
from kerneltui.show import fetched_lines
from tests.advice.situations import COMMUNITY, make_build, make_situation
from tests.hub import LoopbackHub, machine_variant
from tests.hub.process import run_python

FLASH = f"{COMMUNITY}/flash-attn2"


def situation(hub: LoopbackHub, **given: Any) -> Situation:
    """Return a situation whose libraries use the loopback Hub alone."""
    made = make_situation(given=given)
    plan = msgspec.structs.replace(made.plan, cwd=str(hub.home.parent), launch=Launch(environment=hub.environment()))
    return msgspec.structs.replace(made, plan=plan)


def bring(hub: LoopbackHub, *parts: Part) -> dict[str, Part]:
    """Fetch parts and return them by their names."""
    found = fetch.fetch(list(parts), situation(hub), Path(sys.executable)).parts
    return {part.name: part for part in found}


def kernel(revision: str) -> Part:
    """Return the build of flash-attn2 for this machine."""
    return Part(kind="kernel", name=FLASH, revision=revision, variant=machine_variant())


OFFLINE = """
import kernels
said = []
for asked in arguments[0]:
    try:
        module = kernels.get_kernel(arguments[1], **asked)
        said.append(module.__file__)
    except (ValueError, FileNotFoundError) as error:
        said.append(type(error).__name__)
print(json.dumps(said))
"""


def test_a_fetched_kernel_loads_without_the_hub_by_its_branch_its_commit_and_without_a_name(hub: LoopbackHub) -> None:
    heads = {name: hub.repository(FLASH).branches[name][0].id for name in ("v2", "v4")}
    first = bring(hub, kernel("v2"), kernel("v4"))
    assert first[FLASH].commit == heads["v4"]
    held = {it.revisions: it for it in cached_kernels(hub.home / "hub")[FLASH]}
    assert {it.variants for it in held.values()} == {(machine_variant(),)}
    assert all(it.whole for it in held.values())
    hub.close()
    asked = [{"revision": "v2"}, {"revision": heads["v2"]}, {"version": 4}, {"version": 3}]
    said = run_python(OFFLINE, hub, asked, FLASH, HF_HUB_OFFLINE="1")
    assert [Path(it).parent.name for it in said[:3]] == [machine_variant()] * 3
    assert [heads["v2"] in said[0], heads["v2"] in said[1], heads["v4"] in said[2]] == [True] * 3
    assert said[3] == "ValueError"


def test_what_kernels_itself_downloads_loads_offline_once_its_listing_is_gone(hub: LoopbackHub) -> None:
    source = 'import kernels; kernels.get_kernel(arguments[0], revision="v2"); print("null")'
    run_python(source, hub, FLASH)
    (held,) = cached_kernels(hub.home / "hub")[FLASH]
    assert (held.whole, held.revisions, held.variants) == (True, ("v2",), (machine_variant(),))
    assert held.missing > 10
    assert run_python(OFFLINE, hub, [{"revision": "v2"}], FLASH, HF_HUB_OFFLINE="1") == ["FileNotFoundError"]
    make_loadable(held)
    assert cached_kernels(hub.home / "hub")[FLASH][0].missing == 0
    (path,) = run_python(OFFLINE, hub, [{"revision": "v2"}], FLASH, HF_HUB_OFFLINE="1")
    assert Path(path).parent.name == machine_variant()


def test_a_build_that_lacks_a_listed_file_is_not_whole_and_keeps_its_listing(hub: LoopbackHub) -> None:
    run_python('import kernels; kernels.get_kernel(arguments[0], revision="v2"); print("null")', hub, FLASH)
    (held,) = cached_kernels(hub.home / "hub")[FLASH]
    next(Path(held.path, "build", machine_variant()).glob("*.py")).unlink()
    (held,) = cached_kernels(hub.home / "hub")[FLASH]
    make_loadable(held)
    assert (held.whole, held.broken) == (False, (machine_variant(),))
    assert cached_kernels(hub.home / "hub")[FLASH] == [held]


def test_of_a_model_comes_what_transformers_reads(hub: LoopbackHub) -> None:
    files = {
        "config.json": b"{}", "model.safetensors": b"0" * 100, "model.safetensors.index.json": b"{}",
        "pytorch_model.bin": b"0" * 100, "pytorch_model.bin.index.json": b"{}", "tokenizer.model": b"0",
        "onnx/model.onnx": b"0", "original/consolidated.safetensors": b"0", "README.md": b"x",
        "chat_template.jinja": b"",
    }  # fmt: skip
    hub.add("model", "a/b", files)
    hub.add("model", "a/old", {"config.json": b"{}", "pytorch_model.bin": b"0" * 50})
    told: list[tuple[str, int]] = []
    parts = [Part(kind="model", name=name, revision="main") for name in ("a/b", "a/old")]
    done = fetch.fetch(
        parts, situation(hub), Path(sys.executable), on_progress=lambda part, count: told.append((part.name, count))
    )
    new, old = (sorted(path.name for path in Path(str(part.path)).iterdir()) for part in done.parts)
    assert new == [
        "chat_template.jinja", "config.json", "model.safetensors", "model.safetensors.index.json", "tokenizer.model",
    ]  # fmt: skip
    assert old == ["config.json", "pytorch_model.bin"]
    assert [part.size for part in done.parts] == [105, 52]
    assert told[0] == ("a/b", 0)
    assert told[-1] == ("a/old", 52)
    again = fetch.fetch(parts, situation(hub), Path(sys.executable))
    assert [part.size for part in again.parts] == [0, 0]
    assert [line for line in fetched_lines(again) if "was there" not in line] == [
        "It starts without a network now: HF_HUB_OFFLINE=1"
    ]


def test_nothing_is_fetched_where_the_disk_has_no_room(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("model", "a/b", {"config.json": b"0" * 1000})
    monkeypatch.setattr(fetch, "_SPARE", 1 << 60)
    with pytest.raises(KerneltuiError) as caught:
        bring(hub, Part(kind="model", name="a/b", revision="main"))
    assert caught.value.title == "There is no room for what the run needs"
    assert hub.count("/resolve/") == 0


@pytest.mark.parametrize("fault", [{"status": 404}, {"cut": True}, {"status": 401}])
def test_what_cannot_be_had_is_said(hub: LoopbackHub, fault: dict[str, Any]) -> None:
    hub.add("model", "a/b", {"config.json": b"0" * 1000})
    hub.fail("/a/b/resolve", **fault)
    with pytest.raises(KerneltuiError) as caught:
        bring(hub, Part(kind="model", name="a/b", revision="main"))
    assert caught.value.title == "The model a/b could not be fetched"
    assert "try again" in caught.value.hint


def test_an_interrupted_download_counts_as_part(tmp_path: Path) -> None:
    snapshot = tmp_path / "kernels--a--b" / "snapshots" / ("0" * 40)
    (snapshot / "build" / "torch-cpu").mkdir(parents=True)
    (tmp_path / "kernels--a--b" / "refs" / "x").mkdir(parents=True)
    (tmp_path / "kernels--a--b" / "refs" / "x" / "y").write_text("0" * 40)
    (tmp_path / "models--a--b").mkdir()
    found = CachedKernel(repository="a/b", commit="0" * 40, path=str(snapshot), revisions=("x/y",))
    assert cached_kernels(tmp_path) == {"a/b": [found]}
    assert not found.whole
    assert cached_kernels(tmp_path / "nothing") == {}


def test_what_a_plan_needs(hub: LoopbackHub, tmp_path: Path) -> None:
    made = situation(
        hub, model_name_or_path="a/b", model_revision="r", datasets=[{"path": "c/d", "name": "e"}, {"path": "json"}],
        attn_implementation=f"{FLASH}@v2",
    )  # fmt: skip
    made = msgspec.structs.replace(made, build=make_build())
    parts = fetch.needed(made, None, None)  # type: ignore[arg-type]
    assert [(part.kind, part.name, part.revision, part.source) for part in parts] == [
        ("kernel", FLASH, "v2", {}),
        ("model", "a/b", "r", {}),
        ("data", "c/d", None, {"name": "e"}),
    ]
    local = situation(hub, model_name_or_path=str(tmp_path), dataset_name=str(tmp_path))
    assert fetch.needed(local, None, None) == []  # type: ignore[arg-type]
    assert fetched_lines(fetch.Fetched()) == ["Nothing to fetch: all that this run needs is on this disk."]


def test_ranks_start_from_the_cache_where_nothing_else_is_taken_from_the_hub() -> None:
    def alone(trainer: str = "sft", processes: int = 2, **given: Any) -> bool:
        return fetch.for_all_ranks(make_situation(trainer, given=given, processes=processes))

    assert alone()
    assert alone("dpo")
    assert not alone(processes=1)
    assert not alone("grpo")
    assert not alone(push_to_hub=True)
    assert not alone(report_to="trackio")
    assert not alone(model_init_kwargs={"use_kernels": True})
    assert not alone(datasets=[{"path": "a/b", "streaming": True}])
    assert not alone(trust_remote_code=True)
    assert not fetch.for_all_ranks(make_situation(processes=2, machines=2))
    alone_now = fetch.offline(make_situation(processes=2), fetch.Fetched())
    assert alone_now.offline
    assert not fetch.for_all_ranks(alone_now)


def test_a_run_on_an_adapter_goes_on_asking_for_the_model_that_it_names(tmp_path: Path) -> None:
    fetched = fetch.Fetched(parts=(Part(kind="model", name="a/b", path=str(tmp_path)),))
    assert fetch.offline(make_situation(), fetched).offline
    (tmp_path / "adapter_config.json").write_text("{}")
    assert not fetch.offline(make_situation(), fetched).offline


def test_a_kernel_without_a_build_cannot_be_fetched(hub: LoopbackHub) -> None:
    made = situation(hub, attn_implementation=f"{FLASH}@v1")
    for build, words in ((None, "Nothing is known of"), (make_build("v1", None), "has no build for this server")):
        with pytest.raises(KerneltuiError, match=words):
            fetch.needed(msgspec.structs.replace(made, build=build), None, None)  # type: ignore[arg-type]

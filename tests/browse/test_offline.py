"""Without the Hub: the list shows what the cache holds, with the verdicts that the Hub's answers would give."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerneltui.browse.browser import KernelBrowser
from kerneltui.browse.records import KernelRow
from kerneltui.errors import HubError
from kerneltui.facts.hub import Hub
from kerneltui.interpreter import Asker
from kerneltui.show_kernels import kernel_list_lines, repository_lines
from tests.advice.situations import COMMUNITY, H200, make_server
from tests.hub import LoopbackHub, Repository

FLASH, FLASH3, FLASH4 = (f"{COMMUNITY}/flash-attn{number}" for number in (2, 3, 4))
SERVER = make_server(H200)


@pytest.fixture(scope="module")
def asker() -> Iterator[Asker]:
    """Return the asker of this interpreter."""
    with Asker(Path(sys.executable)) as started:
        yield started


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that kernels are cached in."""
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep everybody off the Hub."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def put(cache: Path, repository: Repository, branch: str, variant: str, *, missing: tuple[str, ...] = ()) -> None:
    """Put a build into the cache as huggingface_hub lays it out; `missing` are listed files that are not there."""
    commit = repository.branches[branch][0]
    folder = cache / f"kernels--{repository.id.replace('/', '--')}"
    for name, content in commit.files.items():
        if name.startswith(f"build/{variant}/"):
            path = folder / "snapshots" / commit.id / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    (folder / "refs").mkdir(exist_ok=True)
    (folder / "refs" / branch).write_text(commit.id)
    if missing:
        (folder / "trees").mkdir()
        tree = {"format_version": 1, "files": {name: {"size": 1, "blob_id": "0"} for name in missing}}
        (folder / "trees" / f"{commit.id}.json").write_text(json.dumps(tree))


def rows(asker: Asker, hub: LoopbackHub, answers: Path) -> dict[str, KernelRow]:
    """Return the list as a new process would get it."""
    found = KernelBrowser(asker, Hub(hub.url, folder=answers), SERVER).rows()
    return {row.repository: row for row in found.repositories}


STABLE = "torch-stable-abi210-cu130-x86_64-linux"


@pytest.mark.usefixtures("offline")
def test_a_machine_that_never_asked_the_hub_shows_its_cache(
    hub: LoopbackHub, asker: Asker, cache: Path, tmp_path: Path
) -> None:
    put(cache, hub.repository(FLASH), "v4", STABLE)
    hopper = "torch-stable-abi29-cu130-x86_64-linux"
    put(cache, hub.repository(FLASH3), "v1", hopper, missing=(f"build/{hopper}/gone.py", "x.pyc"))
    put(cache, hub.repository(FLASH4), "main", "torch-cuda")
    found = rows(asker, hub, tmp_path / "answers")
    assert hub.requests == []
    assert set(found) == {FLASH, FLASH3, FLASH4}
    whole, part, other = (found[name] for name in (FLASH, FLASH3, FLASH4))
    assert (whole.cached, whole.revision, whole.variant) == ("whole", "v4", STABLE)
    assert whole.verdict and whole.verdict.kind == "ready"
    assert (part.cached, part.verdict and part.verdict.kind) == ("part", "refused")
    assert part.verdict and part.verdict.reason.startswith("the cache holds it in part")
    assert other.verdict and other.verdict.answer("cache")
    assert str(other.verdict.answer("cache")).count("the cache holds main, not v0")


def test_verdicts_are_those_that_the_hub_gave(
    hub: LoopbackHub, asker: Asker, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(cache, hub.repository(FLASH), "v4", STABLE)
    online = rows(asker, hub, tmp_path / "answers")
    assert (online[FLASH].cached, online[FLASH3].cached) == ("whole", None)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    hub.close()
    kept, anew = rows(asker, hub, tmp_path / "answers"), rows(asker, hub, tmp_path / "none")
    assert set(kept) == set(online)
    for now in (kept[FLASH], anew[FLASH]):
        before = online[FLASH]
        assert (now.revision, now.commit, now.variant) == (before.revision, before.commit, before.variant)
        assert now.verdict and before.verdict and now.verdict.kind == before.verdict.kind
        for subject in ("variant", "training", "known", "device"):
            assert now.verdict.answer(subject) == before.verdict.answer(subject)
    absent = kept[FLASH3].verdict
    assert absent and absent.reason == "it is not in the cache"


@pytest.mark.usefixtures("offline")
def test_the_page_of_a_kernel_shows_what_the_cache_holds_of_it(
    hub: LoopbackHub, asker: Asker, cache: Path, tmp_path: Path
) -> None:
    put(cache, hub.repository(FLASH), "v4", STABLE)
    put(cache, hub.repository(FLASH), "v2", "torch211-cxx11-cu130-x86_64-linux")
    browser = KernelBrowser(asker, Hub(hub.url, folder=tmp_path / "answers"), SERVER)
    view = browser.view(FLASH)
    assert view.row.revision == "v4"
    assert {it.revision.name: (it.default, it.verdict.kind) for it in view.revisions} == {
        "v2": (False, "ready"),
        "v4": (True, "ready"),
    }
    assert [it.revision.name for it in browser.view(FLASH, "v2").revisions] == ["v2"]
    assert repository_lines(browser.view(FLASH, "v2"), revision="v2", width=80)
    with pytest.raises(HubError, match="HF_HUB_OFFLINE is set"):
        browser.view(FLASH3)


@pytest.mark.usefixtures("offline")
def test_an_empty_cache_is_said_in_one_line(hub: LoopbackHub, asker: Asker, tmp_path: Path) -> None:
    found = KernelBrowser(asker, Hub(hub.url, folder=tmp_path / "answers"), SERVER).rows()
    assert kernel_list_lines(found, width=80) == [
        "▲ HF_HUB_OFFLINE is set, so the Hub is not asked",
        "  Branches, commits and variants are known to the Hub alone.",
        "  Unset HF_HUB_OFFLINE (and TRANSFORMERS_OFFLINE), or name a kernel on this disk",
        "  in LOCAL_KERNELS.",
    ]


def test_a_build_in_the_cache_says_whether_it_is_signed(
    hub: LoopbackHub, asker: Asker, cache: Path, tmp_path: Path
) -> None:
    put(cache, hub.repository(FLASH), "v4", STABLE)
    browser = KernelBrowser(asker, Hub(hub.url, folder=tmp_path / "answers"), SERVER)
    found = {it.revision.name: it.verdict for it in browser.view(FLASH).revisions}
    signature = found["v4"].answer("signature")
    assert signature and (signature.kind, signature.text) == ("unknown", "this build carries no signature")
    assert found["v2"].answer("signature") is None
    said = "\n".join(repository_lines(browser.view(FLASH, "v4"), revision="v4", width=80))
    assert "signature this build carries no signature" in said

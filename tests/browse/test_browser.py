"""The browser against the loopback Hub: what it costs, what it keeps, and what it says when the Hub fails."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerneltui.advice.catalogue import catalogue
from kerneltui.browse.browser import KernelBrowser
from kerneltui.browse.records import KernelRow, sort_rows
from kerneltui.errors import HubError
from kerneltui.facts.hub import Hub
from kerneltui.facts.server import Server
from kerneltui.interpreter import Asker
from kerneltui.records import to_json
from kerneltui.show_kernels import kernel_list_lines, repository_lines
from tests.advice.situations import COMMUNITY, H200, make_server
from tests.bad_input.command import real
from tests.hub import LoopbackHub
from tests.hub.repositories import METADATA

FLASH = f"{COMMUNITY}/flash-attn2"
SERVER = make_server(H200)
ATTENTION = {kernel.id for kernel in catalogue().values() if kernel.role == "attention"}


@pytest.fixture(scope="module")
def asker() -> Iterator[Asker]:
    """Return the asker of this interpreter."""
    with Asker(Path(sys.executable)) as started:
        yield started


@pytest.fixture(autouse=True)
def no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that kernels are cached in; it is not there."""
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


@pytest.fixture
def browse(hub: LoopbackHub, asker: Asker, tmp_path: Path) -> Any:
    """Return a function that opens the browser as a new process would, with the answers that others kept."""

    def start(server: Server = SERVER, *, url: str = hub.url) -> KernelBrowser:
        return KernelBrowser(asker, Hub(url, folder=tmp_path / "answers"), server)

    return start


def asked(hub: LoopbackHub) -> list[str]:
    """Return the requests so far without those of huggingface_hub for itself."""
    return [request for request in hub.requests if "agent-harnesses" not in request]


def test_the_list_is_whole_and_those_for_attention_are_judged_first(hub: LoopbackHub, browse: Any) -> None:
    told: list[KernelRow] = []
    found = browse().rows(on_row=told.append)
    assert (found.error, len(found.repositories)) == (None, 60)
    judged = {row.repository for row in found.repositories if row.verdict}
    assert judged == {row.repository for row in found.repositories} & ATTENTION
    assert [row.role for row in found.repositories[: len(judged)]] == ["attention"] * len(judged)
    assert list(found.repositories) == sort_rows(found.repositories)
    last = {row.repository: row for row in told}
    assert all(last[row.repository] == row for row in found.repositories)
    flash = next(row for row in found.repositories if row.repository == FLASH)
    assert (flash.revision, flash.variant, flash.trusted) == ("v4", "torch-stable-abi210-cu130-x86_64-linux", True)
    assert flash.reason == "the installed transformers names version 4 (FLASH_ATTN_KERNEL_VERSIONS)"
    assert flash.commit == hub.repository(FLASH).branches["v4"][0].id


def test_a_verdict_costs_at_most_two_requests_and_there_are_at_most_16_at_once(hub: LoopbackHub, browse: Any) -> None:
    hub.fail("/", delay=0.02)
    found = browse().rows()
    judged = [row.repository for row in found.repositories if row.verdict]
    requests = asked(hub)
    for repository in judged:
        own = [it for it in requests if f"/kernels/{repository}/" in it]
        assert len(own) <= 2, own
        assert not any("metadata.json" in it for it in own)
    others = [it for it in requests if not any(f"/kernels/{repository}/" in it for repository in judged)]
    assert sorted(it.partition("?")[0] for it in others) == [
        "GET /api/kernels", f"GET /api/organizations/{COMMUNITY}/overview"
    ]  # fmt: skip
    assert 1 < hub.most_at_once <= 16


def test_a_second_start_shows_everything_before_it_asks(hub: LoopbackHub, browse: Any) -> None:
    first = browse().rows()
    hub.requests.clear()
    usable: dict[str, int] = {}

    def look(row: KernelRow) -> None:
        if row.verdict:
            usable.setdefault(row.repository, len(hub.requests))

    again = browse().rows(on_row=look)
    assert {row.repository for row in first.repositories if row.verdict} == set(usable)
    assert max(usable.values()) <= 3
    assert [row.verdict for row in again.repositories] == [row.verdict for row in first.repositories]
    assert asked(hub) == []  # all of it was asked a moment ago


def test_what_has_changed_meanwhile_is_told(hub: LoopbackHub, browse: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    browse().rows()
    monkeypatch.setattr("kerneltui.browse.browser.FRESH", 1e-9)
    hub.add("kernel", FLASH, {"build/torch-cuda/metadata.json": b"{}"}, branch="v4")
    hub.add("kernel", f"{COMMUNITY}/new-attention", {"build/torch-cuda/metadata.json": b"{}"}, branch="v1")
    del hub.repositories["kernel", f"{COMMUNITY}/gemm"]
    told: list[KernelRow] = []
    rows = {row.repository: row for row in browse().rows(on_row=told.append).repositories}
    assert [row.variant for row in told if row.repository == FLASH and row.verdict][-1] == "torch-cuda"
    assert rows[FLASH].variant == "torch-cuda"
    assert rows[f"{COMMUNITY}/new-attention"].verdict
    assert f"{COMMUNITY}/gemm" not in rows


def test_those_for_other_things_are_judged_when_they_are_looked_at(hub: LoopbackHub, browse: Any) -> None:
    row = browse().row(f"{COMMUNITY}/relu")
    assert (row.revision, row.reason, row.verdict.kind) == ("v1", "its newest version", "refused")
    everything = browse().rows(everything=True)
    assert all(row.verdict for row in everything.repositories)


def test_search_looks_at_all_publishers(browse: Any) -> None:
    found = browse().rows(None, text="MSA")
    assert [(row.repository, row.trusted) for row in found.repositories] == [("MiniMaxAI/msa", False)]
    assert found.repositories[0].verdict and found.repositories[0].verdict.kind == "refused"
    owners = {row.repository.partition("/")[0] for row in browse().rows(None).repositories}
    assert owners >= {COMMUNITY, "MiniMaxAI", "shi-labs", "sgl-project"}
    assert browse().rows("shi-labs").repositories[0].repository == "shi-labs/natten"


def test_nothing_more_is_asked_once_it_is_to_stop(hub: LoopbackHub, browse: Any) -> None:
    browse().rows(stop=lambda: True)
    assert [it.partition("?")[0] for it in asked(hub)] == ["GET /api/kernels"]


def test_what_the_hub_still_allows_is_left_for_the_run(hub: LoopbackHub, browse: Any) -> None:
    limit = {"RateLimit": '"api";r=90;t=60', "RateLimit-Policy": '"fixed window";"api";q=500;w=300'}
    hub.fail("/api/kernels", extra=limit)
    found = browse().rows()
    assert found.error and found.error.kind == "rate_limited"
    assert found.error.title == "Not asked: the last 90 requests are left for the run's own downloads"
    assert len(found.repositories) == 60
    assert len(asked(hub)) <= 18


@pytest.fixture
def view(browse: Any) -> Any:
    """Return the page of flash-attn2."""
    return browse().view(FLASH)


def test_a_page_has_every_branch_with_its_date_and_verdict(view: Any) -> None:
    assert [(it.revision.name, it.verdict.kind, it.default) for it in view.revisions] == [
        ("v4", "ready", True),
        ("v3", "ready", False),
        ("v2", "ready", False),
        ("v1", "refused", False),
        ("main", "refused", False),
    ]
    assert [str(it.revision.date)[:10] for it in view.revisions[:3]] == ["2026-08-21", "2026-10-01", "2026-07-15"]
    assert view.revisions[0].verdict.answer("metadata").kind == "ready"
    assert view.card == f"# {FLASH}\n"


def test_commits_are_judged_without_their_metadata(hub: LoopbackHub, browse: Any) -> None:
    view = browse().view(FLASH, "v3")
    assert [it.revision.name for it in view.revisions] == ["v3"]
    assert [it.revision.commit[:8] for it in view.commits] == ["81fb77c1", "0510be1e", "239bb21b"]
    assert [it.verdict.answer("metadata").kind for it in view.commits] == ["ready", "unknown", "unknown"]
    pinned = browse().view(FLASH, view.commits[2].revision.commit)
    assert pinned.revisions[0].revision.kind == "commit"
    assert pinned.revisions[0].build.variant == "torch-stable-abi210-cu130-x86_64-linux"


def test_a_default_branch_that_is_not_there_is_said(browse: Any) -> None:
    row = browse().row("MiniMaxAI/msa")
    assert (row.verdict.kind, row.commit) == ("refused", None)
    assert row.verdict.reason == "transformers takes branch v1, which it does not have: name one"


# What each file comes to on an H200, in a build whose name fits, and the answer that decides.
METADATA_FILES = {
    "01_fa2_v3_stable_abi_cu130": ("ready", "gpu", "compiled for 8.0, 9.0, 10.0, 12.0"),
    "02_fa3_v1_stable_abi_cu126": ("ready", "gpu", "compiled for 8.0, 9.0a"),
    "03_fa4_v0_noarch_cuda": (None, "packages", "einops"),
    "04_liger_v3_noarch_rocm": ("ready", "metadata", "metadata.json of version 3"),
    "05_fa2_cpu": ("ready", "metadata", "metadata.json of version 3"),
    "06_activation_cu126_default_archs": ("ready", "gpu", "compiled for "),
    "07_activation_rocm": ("ready", "metadata", "metadata.json of version 1"),
    "08_paged_attention_metal": ("ready", "metadata", "metadata.json of version 1"),
    "09_einops_cpu_legacy_sha": ("ready", "metadata", "metadata.json of version 1"),
    "10_minver_too_new": ("refused", "metadata", "kernels>=0.18.0"),
    "90_broken_fa2_torch28": ("refused", "metadata", "missing field `name` at line 4"),
    "91_broken_fa2_torch29_partial": ("refused", "metadata", "missing field `name` at line 12"),
    "92_broken_fa4_main": ("refused", "metadata", "missing field `name` at line 9"),
    "93_broken_deep_gemm_backend_no_name": ("refused", "metadata", "missing field `name` at line 11"),
    "94_broken_minver_two_components": ("refused", "metadata", "Version has 2 components, expected 3"),
}


@pytest.mark.parametrize("stem", sorted(path.stem for path in METADATA.glob("*.json")))
def test_every_metadata_file_gives_its_answer(hub: LoopbackHub, browse: Any, stem: str) -> None:
    text = (METADATA / f"{stem}.json").read_bytes()
    hub.add("kernel", f"{COMMUNITY}/example", {"build/torch-cuda/metadata.json": text}, branch="v1")
    kind, subject, words = METADATA_FILES[stem]
    verdict = browse().row(f"{COMMUNITY}/example").verdict
    answer = verdict.answer(subject)
    assert words in answer.text
    assert verdict.answer("variant").kind == "ready", "its name fits"
    assert verdict.kind == (kind or answer.kind)
    if kind == "refused":
        assert verdict.reason == answer.text


def test_kernels_of_this_disk_come_before_the_hub(hub: LoopbackHub, asker: Asker, tmp_path: Path) -> None:
    folder = tmp_path / "local" / "build" / "torch-cuda"
    folder.mkdir(parents=True)
    (folder / "metadata.json").write_text("{}")
    server = make_server(H200, environment={"LOCAL_KERNELS": f"{FLASH}={tmp_path / 'local'}"})
    row = KernelBrowser(asker, Hub(hub.url), server).row(FLASH)
    assert (row.commit, row.variant, row.reason) == ("local", "torch-cuda", "it comes from LOCAL_KERNELS")
    assert row.verdict and row.verdict.reason.startswith("its metadata.json cannot be read")
    assert KernelBrowser(asker, Hub(hub.url), server).view(FLASH).revisions == ()


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "401": ({"status": 401}, "not_found"),
    "404": ({"status": 404}, "not_found"),
    "429": ({"status": 429, "headers": {"Retry-After": "7"}}, "rate_limited"),
    "503": ({"status": 503}, "unavailable"),
    "cut": ({"cut": True}, "unreachable"),
    "wrong JSON": ({"body": b'{"a": 1}'}, "garbage"),
    "no JSON": ({"body": b"<html>"}, "garbage"),
    "10 MB": ({"body": b"\x1b[2J" * 2_500_000}, "garbage"),
    "redirect": ({"status": 302, "headers": {"Location": "/api/kernels"}}, "unreachable"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_list_is_one_clear_line(hub: LoopbackHub, browse: Any, name: str) -> None:
    fault, kind = FAULTS[name]
    hub.fail("/api/kernels", **fault)
    found = browse().rows()
    assert (found.error and found.error.kind, found.repositories) == (kind, ())
    lines = kernel_list_lines(found, width=80)
    assert sum(line.startswith("▲") for line in lines) == 1
    assert "\x1b" not in "".join(lines)
    with pytest.raises(HubError):
        browse().view(FLASH)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_loses_nothing_of_what_was_known(
    hub: LoopbackHub, browse: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = browse().rows()
    monkeypatch.setattr("kerneltui.browse.browser.FRESH", 1e-9)
    fault, kind = FAULTS[name]
    hub.fail("/api/kernels", **fault)
    after = browse().rows()
    assert after.error and after.error.kind == kind
    assert [row.verdict for row in after.repositories] == [row.verdict for row in before.repositories]
    assert not any(row.fresh for row in after.repositories)


def test_a_fault_of_one_repository_is_told_of_that_one(hub: LoopbackHub, browse: Any) -> None:
    hub.fail(f"/api/kernels/{FLASH}/", status=503)
    found = browse().rows()
    rows = {row.repository: row for row in found.repositories}
    assert found.error is None
    assert (rows[FLASH].verdict.kind, rows[FLASH].verdict.reason) == (
        "unknown", "The Hub has a failure of its own (503)",
    )  # fmt: skip
    assert rows[f"{COMMUNITY}/flash-attn3"].verdict.kind == "ready"


def test_names_and_cards_of_others_are_plain_text(hub: LoopbackHub, browse: Any) -> None:
    evil = "x/[bold]y\x1b]0;title\x07\x1b[31mred"
    hub.fail("/api/kernels", body=json.dumps([{"id": evil, "lastModified": "\x1b[2J"}]).encode(), times=1)
    lines = kernel_list_lines(browse().rows(), width=80)
    assert any("[bold]yred" in line for line in lines)
    hub.add("kernel", FLASH, {"README.md": b"\x1b]8;;http://x\x07[link=x]card\x1b[2J\n" * 40,
                              "build/\x1b[31mx/a": b""}, branch="v4")  # fmt: skip
    lines = [*lines, *repository_lines(browse().view(FLASH, "v4"), revision="v4", width=80)]
    assert "  [link=x]card" in lines
    assert not any(character < " " or character == "\x7f" for line in lines for character in line)


def test_the_command_says_a_fault_as_any_other_error(hub: LoopbackHub, tmp_path: Path) -> None:
    (tmp_path / "server.json").write_bytes(to_json(SERVER))
    hub.fail("/api/kernels", status=404)
    environment = {**hub.environment(), "XDG_CACHE_HOME": str(tmp_path)}
    for flags in ([], ["--json"]):
        said = real("kernels", "--server", "server.json", *flags, cwd=tmp_path, **environment)
        assert (said.code, said.out) == (1, "")
        assert said.err.startswith(f"✖ {hub.url} has no list of kernels\n  /api/kernels answered 404;")

"""Answers that are kept: nothing is asked for twice without need, and nothing wrong is kept."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path

import pytest

from kerneltui.errors import HubError
from kerneltui.facts.hub import Hub
from kerneltui.facts.hub_budget import Budget, seconds_to_wait
from kerneltui.facts.hub_errors import Reply
from kerneltui.facts.hub_store import ReplyStore
from tests.hub import LoopbackHub

FLASH = "kernels-community/flash-attn2"
V2 = "db6b51744f0cd7061386442c09df890fc6d9f47e"
VARIANT = "torch211-cxx11-cu130-x86_64-linux"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder for answers that is not there yet."""
    return tmp_path / "cache" / "hub"


def asked(hub: LoopbackHub) -> int:
    """Return the requests so far without those of huggingface_hub for itself."""
    return hub.count("/kernels")


def test_what_a_commit_holds_is_asked_for_once_and_for_ever(hub: LoopbackHub, folder: Path) -> None:
    first = Hub(hub.url, folder=folder)
    told = (first.variants(FLASH, V2), first.metadata(FLASH, V2, VARIANT), first.commits(FLASH, V2))
    with pytest.raises(HubError, match="no build/ folder"):
        first.variants("kernels-community/relu", first.commit_of("kernels-community/relu", "main"))
    before = asked(hub)
    again = Hub(hub.url, folder=folder)
    assert (again.variants(FLASH, V2), again.metadata(FLASH, V2, VARIANT), again.commits(FLASH, V2)) == told
    with pytest.raises(HubError, match="kernels-community/relu@main has no build/ folder"):
        again.variants("kernels-community/relu", hub.repository("kernels-community/relu").branches["main"][0].id,
                       called="main")  # fmt: skip
    assert asked(hub) == before


def test_other_answers_hold_for_as_long_as_one_says(hub: LoopbackHub, folder: Path) -> None:
    client = Hub(hub.url, folder=folder)
    whole = client.list_kernels(keep=600)
    assert client.list_kernels(keep=600) == Hub(hub.url, folder=folder).list_kernels(keep=600) == whole
    assert asked(hub) == 1
    assert client.list_kernels() == whole
    assert asked(hub) == 2


def test_an_old_answer_is_asked_for_by_its_tag(hub: LoopbackHub, folder: Path) -> None:
    Hub(hub.url, folder=folder).list_kernels(keep=600)
    kept = json.loads(next(folder.iterdir()).read_text())
    next(folder.iterdir()).write_text(json.dumps({**kept, "time": time.time() - 3600}))
    sent: list[int] = []
    hub.on_answer = sent.append
    whole = Hub(hub.url, folder=folder).list_kernels(keep=600)
    assert (len(whole), sent[-1]) == (60, 304)
    assert Hub(hub.url, folder=folder).list_kernels(keep=600) == whole  # it holds again
    assert asked(hub) == 2


def test_a_change_is_seen(hub: LoopbackHub, folder: Path) -> None:
    client = Hub(hub.url, folder=folder)
    client.revisions(FLASH, keep=1e-9)
    hub.add("kernel", FLASH, {"build/torch-cpu/metadata.json": b"{}"}, branch="v9")
    assert client.revisions(FLASH, keep=1e-9)[0].name == "v9"


def test_kept_answers_can_be_had_without_asking(hub: LoopbackHub, folder: Path) -> None:
    client = Hub(hub.url, folder=folder)
    with pytest.raises(HubError) as caught:
        client.kept().revisions(FLASH, keep=60)
    assert caught.value.kind == "not_asked"
    assert hub.requests == []
    told = client.revisions(FLASH, keep=60)
    hub.close()
    assert Hub(hub.url, folder=folder).kept().revisions(FLASH, keep=60) == told


@pytest.mark.parametrize("body", [b"<html>Log in to the Wi-Fi</html>", b"{}"])
def test_an_answer_that_is_not_the_hubs_is_not_kept(hub: LoopbackHub, folder: Path, body: bytes) -> None:
    client = Hub(hub.url, folder=folder)
    hub.fail("/api/kernels", body=body)
    for _ in range(2):
        with pytest.raises(HubError, match="does not answer as the Hub does"):
            client.revisions(FLASH, keep=60)
    hub.heal()
    assert client.revisions(FLASH, keep=60)


def test_a_refusal_is_not_kept(hub: LoopbackHub, folder: Path) -> None:
    client = Hub(hub.url, folder=folder)
    hub.fail("/api/kernels", status=503, times=2)
    with pytest.raises(HubError, match="failure of its own"):
        client.variants(FLASH, V2)
    assert client.variants(FLASH, V2)


def test_answers_are_kept_apart_by_token_and_endpoint(hub: LoopbackHub, folder: Path) -> None:
    hub.add("kernel", "me/secret", {"build/torch-cpu/metadata.json": b"{}"}).private = True
    Hub(hub.url, token="hf_test", folder=folder).revisions("me/secret", keep=600)
    with pytest.raises(HubError, match="There is no kernel repository me/secret"):
        Hub(hub.url, folder=folder).revisions("me/secret", keep=600)
    with pytest.raises(HubError, match="cannot be reached"):
        Hub("http://127.0.0.1:9", token="hf_test", folder=folder).revisions("me/secret", keep=600)
    files = list(folder.iterdir())
    assert not [path for path in files if b"hf_test" in path.read_bytes()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


@pytest.mark.parametrize("content", [b"", b"{", b'{"reply": 1, "time": 2}', b"\xff"])
def test_a_damaged_file_is_asked_for_again(hub: LoopbackHub, folder: Path, content: bytes) -> None:
    told = Hub(hub.url, folder=folder).variants(FLASH, V2)
    next(folder.iterdir()).write_bytes(content)
    assert Hub(hub.url, folder=folder).variants(FLASH, V2) == told
    assert asked(hub) == 2


def test_a_folder_that_cannot_be_written_is_no_error(hub: LoopbackHub, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    client = Hub(hub.url, folder=tmp_path / "file" / "hub")
    assert client.variants(FLASH, V2) == client.variants(FLASH, V2)


def test_files_that_nobody_reads_are_removed(folder: Path) -> None:
    store = ReplyStore(folder)
    for name in ("old", "new"):
        store.put(name, Reply("", 200, {}, b"[]"))
    old = [path for path in folder.iterdir() if ReplyStore(folder)._path("old") == path][0]  # noqa: RUF015
    os.utime(old, (0, 0))
    Hub("http://127.0.0.1:9", folder=folder).tidy()
    assert (ReplyStore(folder).get("old"), bool(ReplyStore(folder).get("new"))) == (None, True)


def reply(status: int = 200, **headers: str) -> Reply:
    """Return an answer with headers, by names with underscores."""
    return Reply("", status, {name.replace("_", "-"): value for name, value in headers.items()}, b"")


def test_the_last_fifth_of_what_the_hub_allows_is_for_the_run() -> None:
    budget, policy = Budget(), '"fixed window";"api";q=500;w=300'
    budget.check("x")
    budget.note(reply(ratelimit='"api";r=101;t=200', ratelimit_policy=policy))
    budget.check("x")
    budget.note(reply(ratelimit='"api";r=100;t=200', ratelimit_policy=policy))
    with pytest.raises(HubError) as caught:
        budget.check("http://hub")
    assert str(caught.value) == (
        "Not asked: the last 100 requests are left for the run's own downloads\n"
        "http://hub allows more in 200 s.\n"
        "Try again then; a login (hf auth login) has a higher limit than none."
    )
    budget.note(reply(ratelimit='"api";r=499;t=300', ratelimit_policy=policy))
    budget.check("x")


def test_an_allowance_whose_time_is_over_counts_no_more() -> None:
    budget = Budget()
    budget.note(reply(ratelimit='"api";r=0;t=0'))
    budget.check("x")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7),
        ({"ratelimit": '"api";r=0;t=55'}, 55),
        ({"retry_after": "Wed, 02 Dec 2026 07:28:00 GMT"}, None),
        ({}, None),
    ],
)
def test_how_long_a_refusal_says_to_wait(headers: dict[str, str], seconds: int | None) -> None:
    assert seconds_to_wait(reply(429, **headers)) == seconds
    budget = Budget()
    budget.note(reply(429, **headers))
    assert 0 < budget.wait() <= (seconds or 30)


def test_nothing_is_sent_until_the_hub_takes_requests_again(hub: LoopbackHub) -> None:
    client = Hub(hub.url)
    hub.fail("/api/kernels", status=429, headers={"Retry-After": "300"}, times=1)
    for _ in range(3):
        with pytest.raises(HubError) as caught:
            client.revisions(FLASH)
        assert caught.value.kind == "rate_limited"
    assert hub.count("/refs") == 1
    client = Hub(hub.url)
    hub.fail("/api/kernels", status=429, headers={"Retry-After": "0"}, times=1)
    with pytest.raises(HubError):
        client.revisions(FLASH)
    assert client.revisions(FLASH)

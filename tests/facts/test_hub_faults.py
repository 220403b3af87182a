"""Every fault of the Hub has one kind, one message and one next step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kerneltui.errors import HubError
from kerneltui.facts.hub import Hub
from kerneltui.facts.hub_errors import HUB_ERROR_KINDS
from tests.hub import LoopbackHub

FLASH = "kernels-community/flash-attn2"
V2 = "db6b51744f0cd7061386442c09df890fc6d9f47e"
RELU = "kernels-community/relu"


@pytest.fixture
def client(hub: LoopbackHub) -> Hub:
    """Return a client of the loopback Hub."""
    return Hub(hub.url, timeout=30)


def error_of(ask: Callable[[], Any]) -> HubError:
    """Return the error that `ask` raises."""
    with pytest.raises(HubError) as caught:
        ask()
    assert caught.value.kind in HUB_ERROR_KINDS
    return caught.value


def test_no_such_repository(hub: LoopbackHub, client: Hub) -> None:
    error = error_of(lambda: client.revisions("kernels-community/nope"))
    assert (error.kind, str(error)) == (
        "not_found",
        "There is no kernel repository kernels-community/nope\n"
        "The Hub answers 401: it does not exist, is not a kernel repository, or is private.\n"
        "Check the name; for a private one log in with: hf auth login",
    )
    known = error_of(lambda: Hub(hub.url, token="hf_test").revisions("kernels-community/nope"))
    assert (known.kind, known.message[:20]) == ("not_found", "The Hub answers 404:")


def test_no_such_revision(client: Hub) -> None:
    for ask in (client.commit_of, client.variants, client.commits):
        error = error_of(lambda ask=ask: ask(FLASH, "v77"))  # type: ignore[misc]
        assert (error.kind, str(error)) == (
            "no_revision",
            "kernels-community/flash-attn2 has no revision v77\n"
            "It is no branch, no tag and no full commit id there.\n"
            "List its branches with: kerneltui kernels kernels-community/flash-attn2",
        )


def test_no_build_folder(client: Hub) -> None:
    error = error_of(lambda: client.variants(RELU, "main"))
    assert (error.kind, str(error)) == (
        "no_build",
        "kernels-community/relu@main has no build/ folder\n"
        "There is nothing on that revision that kernels can load.\n"
        "Choose a version branch (v1, v2 …): kerneltui kernels kernels-community/relu",
    )


def test_no_metadata(client: Hub) -> None:
    error = error_of(lambda: client.metadata(FLASH, "main", "torch27-cxx11-cu126-x86_64-linux"))
    assert (error.kind, str(error)) == (
        "no_metadata",
        "kernels-community/flash-attn2@main has no metadata.json for torch27-cxx11-cu126-x86_64-linux\n"
        "kernels cannot load a build without it.\n"
        "Choose another branch: kerneltui kernels kernels-community/flash-attn2",
    )


def test_a_server_without_the_list_of_kernels(hub: LoopbackHub, client: Hub) -> None:
    hub.fail("/api/kernels", status=404)
    error = error_of(client.list_kernels)
    assert (error.kind, str(error)) == (
        "not_found",
        f"{hub.url} has no list of kernels\n"
        "/api/kernels answered 404; older servers and mirrors do not know it.\n"
        "Name the repository yourself, or set HF_ENDPOINT to a Hub that has kernels.",
    )


def test_gated(hub: LoopbackHub, client: Hub) -> None:
    hub.repository(FLASH).gated = "manual"
    error = error_of(lambda: client.metadata(FLASH, "v2", "torch211-cxx11-cpu-x86_64-linux"))
    assert (error.kind, str(error)) == (
        "gated",
        "The Hub refuses access to kernels-community/flash-attn2\n"
        "Access to kernels-community/flash-attn2 is restricted.\n"
        f"Ask for access at {hub.url}/kernels/kernels-community/flash-attn2, then log in with: hf auth login",
    )


def test_a_token_that_the_hub_does_not_accept(hub: LoopbackHub, client: Hub) -> None:
    hub.fail(status=401, headers={"X-Error-Message": "Invalid credentials in Authorization header"})
    error = error_of(lambda: client.revisions(FLASH))
    assert (error.kind, str(error)) == (
        "bad_token",
        "The Hub does not accept the token\n"
        "Invalid credentials in Authorization header\n"
        "Log in again with: hf auth login",
    )


@pytest.mark.parametrize("token", ["hf_ключ", "hf_two\nlines"])
def test_a_token_that_cannot_be_sent_is_not_shown(hub: LoopbackHub, token: str) -> None:
    error = error_of(lambda: Hub(hub.url, token=token).revisions(FLASH))
    assert (error.kind, error.title) == ("bad_token", "The Hub's token cannot be sent")
    assert "hf_" not in str(error)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry-After": "7"}, "It says to wait 7 s."),
        ({"RateLimit": '"api";r=0;t=55'}, "It says to wait 55 s."),
        ({"Retry-After": "Wed, 02 Dec 2026 07:28:00 GMT"}, "It does not say for how long."),
        ({}, "It does not say for how long."),
    ],
)
def test_too_many_requests_are_not_repeated(hub: LoopbackHub, client: Hub, headers: dict[str, str], wait: str) -> None:
    hub.fail("/api/kernels", status=429, headers=headers)
    error = error_of(lambda: client.revisions(FLASH))
    assert (error.kind, str(error)) == (
        "rate_limited",
        "The Hub refuses more requests for now (429)\n"
        f"{hub.url} had too many from this address or token. {wait}\n"
        "Wait, then try again; a login (hf auth login) has a higher limit than none.",
    )
    assert hub.count("/refs") == 1


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_server_errors_are_tried_twice(hub: LoopbackHub, client: Hub, status: int) -> None:
    hub.fail("/api/kernels", status=status)
    error = error_of(lambda: client.revisions(FLASH))
    assert (error.kind, str(error)) == (
        "unavailable",
        f"The Hub has a failure of its own ({status})\n"
        f"{hub.url} answered {status} twice for /api/kernels/kernels-community/flash-attn2/refs.\n"
        "Try again in a minute; https://status.huggingface.co tells of outages.",
    )
    assert hub.count("/refs") == 2


@pytest.mark.parametrize("fault", [{"status": 503}, {"cut": True}])
def test_one_failure_is_overcome(hub: LoopbackHub, client: Hub, fault: dict[str, Any]) -> None:
    hub.fail("/api/kernels", times=1, **fault)
    assert client.commit_of(FLASH, "v2") == V2


def unreachable(endpoint: str, why: str) -> tuple[str, str]:
    """Return the kind and text of the error for a Hub that gives no answer."""
    return (
        "unreachable",
        f"The Hub cannot be reached\n{endpoint}: {why}\n"
        "Check the network, proxy variables and HF_ENDPOINT; LOCAL_KERNELS can name a kernel on this disk.",
    )


def test_an_answer_that_is_cut_off(hub: LoopbackHub, client: Hub) -> None:
    hub.fail("/api/kernels", cut=True)
    error = error_of(lambda: client.revisions(FLASH))
    assert (error.kind, str(error)) == unreachable(hub.url, "the connection ended before the whole answer was there")


def test_an_answer_that_does_not_come(hub: LoopbackHub) -> None:
    hub.fail("/api/kernels", delay=3)
    error = error_of(lambda: Hub(hub.url, timeout=0.2).revisions(FLASH))
    assert (error.kind, str(error)) == unreachable(hub.url, "no answer within 0.2 s")


def test_an_answer_that_comes_byte_by_byte(hub: LoopbackHub) -> None:
    hub.fail("/api/kernels", drip=0.02)
    error = error_of(lambda: Hub(hub.url, timeout=1).revisions(FLASH))
    assert (error.kind, str(error)) == unreachable(hub.url, "no whole answer within 1 s")


def test_nothing_listens(hub: LoopbackHub, client: Hub) -> None:
    hub.close()
    error = error_of(lambda: client.revisions(FLASH))
    assert (error.kind, str(error)) == unreachable(hub.url, "[Errno 111] Connection refused")


@pytest.mark.parametrize("endpoint", ["huggingface.co", "http://[::1", "https://"])
def test_an_endpoint_that_is_no_address(endpoint: str) -> None:
    assert error_of(lambda: Hub(endpoint).revisions(FLASH)).kind == "unreachable"


REFS = b'{"branches": [{"name": "v1", "ref": "refs/heads/v1", "targetCommit": "%s"}], "converts": [], "tags": []}'


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"<html>Log in to the Wi-Fi</html>", "JSON is malformed: invalid character (byte 0)"),
        (b'{"branches": [', "Input data was truncated"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"branches": []}', "Object missing required field `tags`"),
        (REFS % b"abc1234", "a targetCommit is not a commit"),
        (
            b'{"branches": [], "tags": [{"name": "\xff"}]}',
            "Invalid UTF-8 encoded string",
        ),
    ],
)
def test_an_answer_that_is_not_the_hubs(hub: LoopbackHub, client: Hub, body: bytes, why: str) -> None:
    hub.fail("/api/kernels", body=body)
    error = error_of(lambda: client.revisions(FLASH))
    assert (error.kind, str(error)) == (
        "garbage",
        f"{hub.url} does not answer as the Hub does\n"
        f"/api/kernels/kernels-community/flash-attn2/refs: {why}\n"
        "Check HF_ENDPOINT; a proxy or a login page may answer in the Hub's place.",
    )


@pytest.mark.parametrize("body", [b"{}", b'["a"]', b'[{"id": 7}]', b'[{"name": "a/b"}]'])
def test_a_listing_that_is_not_the_hubs(hub: LoopbackHub, client: Hub, body: bytes) -> None:
    hub.fail("/api/kernels", body=body)
    assert error_of(client.list_kernels).kind == "garbage"


def test_a_status_that_the_hub_does_not_give(hub: LoopbackHub, client: Hub) -> None:
    hub.fail(status=418, headers={"X-Error-Message": "\x1b[31mteapot"})
    error = error_of(lambda: client.revisions(FLASH))
    assert (error.kind, error.message) == (
        "garbage",
        "/api/kernels/kernels-community/flash-attn2/refs: status 418 teapot",
    )


def test_offline(monkeypatch: pytest.MonkeyPatch, hub: LoopbackHub, client: Hub) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    error = error_of(lambda: client.revisions(FLASH))
    assert (error.kind, str(error)) == (
        "offline",
        "HF_HUB_OFFLINE is set, so the Hub is not asked\n"
        "Branches, commits and variants are known to the Hub alone.\n"
        "Unset HF_HUB_OFFLINE (and TRANSFORMERS_OFFLINE), or name a kernel on this disk in LOCAL_KERNELS.",
    )
    assert hub.requests == []

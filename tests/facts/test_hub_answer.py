"""Whether the Hub answers, and to whom."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import constants

from kerneltui.facts.hub_answer import ask_hub, count_cached, find_proxy, find_token
from tests.hub import LoopbackHub

TOKEN = "hf_abcdefghijklmnopqrst"


@pytest.fixture(autouse=True)
def loopback(hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoopbackHub:
    """The loopback Hub is the Hub, and its home is empty."""
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_OIDC_RESOURCE"):
        monkeypatch.delenv(name, raising=False)
    hub.users[TOKEN] = "anna"
    return hub


def test_a_hub_with_kernels_and_no_token(hub: LoopbackHub) -> None:
    found = ask_hub()
    assert (found.endpoint, found.kernels, found.token, found.user) == (hub.url, True, None, None)
    assert found.seconds
    assert found.unavailable == {}
    assert hub.count("whoami") == 0


def test_the_token_s_owner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    found = ask_hub()
    assert (found.token, found.user, found.unavailable) == ("file", "anna", {})
    monkeypatch.setenv("HF_TOKEN", "hf_ofsomebodyelse")
    found = ask_hub()
    assert (found.token, found.user) == ("environment", None)
    assert found.unavailable == {"user": "the Hub does not accept the token"}


def test_a_hub_that_refuses_the_token_everywhere_answers_all_the_same(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.fail(status=401, headers={"X-Error-Message": "Invalid credentials in Authorization header"})
    found = ask_hub()
    assert found.seconds
    assert found.unavailable == {
        "kernels": "The Hub does not accept the token: Invalid credentials in Authorization header",
        "user": "the Hub does not accept the token",
    }


def test_a_mirror_that_knows_no_kernels(hub: LoopbackHub) -> None:
    hub.fail("/api/kernels", status=404)
    found = ask_hub()
    assert (found.kernels, found.unavailable) == (False, {})
    assert found.seconds


def test_a_hub_that_is_not_there(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://user:s3cret@127.0.0.1:9")
    found = ask_hub()
    assert (found.endpoint, found.seconds, found.kernels) == ("http://127.0.0.1:9", None, None)
    assert "cannot be reached" in found.unavailable["seconds"]
    assert "s3cret" not in repr(found)


def test_a_login_page_is_no_hub(hub: LoopbackHub) -> None:
    hub.fail("/api/kernels", body=b"<html>Please log in</html>")
    found = ask_hub()
    assert (found.seconds, found.kernels) == (None, None)
    assert "does not answer as the Hub does" in found.unavailable["kernels"]


def test_an_answer_that_comes_in_drops_does_not_hold_up_the_other(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.fail("/api/kernels", drip=1)
    found = ask_hub(timeout=60, deadline=4)
    assert found.user == "anna"
    assert found.unavailable == {"kernels": "no answer in 4 s", "seconds": "no answer in 4 s"}


def test_offline_nothing_is_asked(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    found = ask_hub()
    assert found.token == "environment"
    assert all("HF_HUB_OFFLINE" in found.unavailable[name] for name in ("seconds", "kernels", "user"))
    assert hub.requests == []


def test_a_token_that_may_not_be_sent_is_not(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", True)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    found = ask_hub()
    assert (found.token, found.kernels) == ("environment", True)
    assert "HF_HUB_DISABLE_IMPLICIT_TOKEN" in found.unavailable["user"]


def test_the_order_is_that_of_huggingface_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A contract: where we find a token, `get_token` gives that one."""
    from huggingface_hub import get_token

    assert (find_token({}), get_token()) == (None, None)
    (tmp_path / "token").write_text(" \n")
    assert (find_token({}), get_token()) == (None, None)
    (tmp_path / "token").write_text("hf_fromthefile")
    assert (find_token({}), get_token()) == ("file", "hf_fromthefile")
    monkeypatch.setenv("HUGGING_FACE_HUB_TOKEN", "hf_oldvariable")
    assert (find_token({}), get_token()) == ("environment", "hf_oldvariable")
    monkeypatch.setenv("HF_TOKEN", "hf_variable")
    assert (find_token({}), get_token()) == ("environment", "hf_variable")


def test_a_token_file_that_cannot_be_read_has_its_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").mkdir()
    unavailable: dict[str, str] = {}
    assert find_token(unavailable) is None
    assert unavailable == {"token": f"{tmp_path / 'token'}: Is a directory"}


@pytest.mark.parametrize(
    ("variables", "proxy"),
    [
        ({}, None),
        ({"https_proxy": "http://user:s3cret@proxy.example:3128"}, "http://proxy.example:3128"),
        ({"https_proxy": "user:s3@cret@proxy.example:3128"}, "http://proxy.example:3128"),
        ({"all_proxy": "socks5://proxy.example:1080"}, "socks5://proxy.example:1080"),
        ({"http_proxy": "http://proxy.example:3128"}, None),
        ({"https_proxy": "http://proxy.example:3128", "no_proxy": "huggingface.co"}, None),
    ],
)
def test_the_proxy_without_its_credentials(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], proxy: str | None
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert find_proxy("https://huggingface.co") == proxy


def test_snapshots_in_the_cache_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "none"))
    assert count_cached({}) == 0
    for name in ("models--a--b/snapshots/1", "models--a--b/snapshots/2", "kernels--a--c/snapshots/1", "models--begun"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert count_cached({}) == 3

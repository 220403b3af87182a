"""Whether the Hub answers from here: how fast, through what, and to whom."""

from __future__ import annotations

import os
import time
import urllib.request
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from kerneltui.errors import HubError
from kerneltui.facts.gather import LATE, Source, gather
from kerneltui.facts.hub_errors import Subject
from kerneltui.facts.hub_http import HubHttp, utils
from kerneltui.facts.server import HubAnswer
from kerneltui.text import harmless, plain_line

# Seconds to wait for a connection and for an answer: a person waits.
TIMEOUT = 5.0
# Seconds for each question in all: names are looked up without a limit of their own, and a dropped connection is
# tried once more.
DEADLINE = 8.0

Found = Literal["environment", "file", "other"]
# Fields of `HubAnswer`, and the reasons why others are missing.
_Answer = tuple[dict[str, Any], dict[str, str]]
# After these nothing came from the Hub, so that there is no time to tell.
_SILENT = ("unreachable", "offline", "garbage")


class _Whoami(msgspec.Struct):
    name: str


def ask_hub(timeout: float = TIMEOUT, deadline: float = DEADLINE) -> HubAnswer:
    """Return what the Hub said to two small questions at the same time, each within `deadline` seconds.

    The token's value goes to the Hub alone. With HF_HUB_OFFLINE set nothing is asked.
    """
    unavailable: dict[str, str] = {}
    token, cached = find_token(unavailable), count_cached(unavailable)
    http = HubHttp(None, None, timeout)
    told: dict[str, Any] = {}
    questions = [
        Source("kernels", lambda: [_ask_kernels(http)], deadline),
        Source("user", lambda: [_ask_user(http, token)], deadline),
    ]
    for name, answer in gather(questions):
        fields, reasons = ({}, {name: f"no answer in {deadline:g} s"}) if answer is LATE else answer
        told |= fields
        unavailable |= {name: harmless(reason) for name, reason in reasons.items()}
    if "kernels" in unavailable and "seconds" not in told:
        unavailable["seconds"] = unavailable["kernels"]
    endpoint = http.endpoint
    return HubAnswer(
        endpoint=harmless(endpoint),
        proxy=find_proxy(endpoint),
        token=token,
        cached=cached,
        unavailable=unavailable,
        **told,
    )


def find_token(unavailable: dict[str, str]) -> Found | None:
    """Return where huggingface_hub takes a token from, None without one; a reason goes under "token".

    The order is that of `huggingface_hub.get_token`, which is not called: it may renew a login over the network.
    """
    from huggingface_hub.constants import HF_TOKEN_PATH

    if os.environ.get("HF_OIDC_RESOURCE"):
        return "other"
    if (os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN") or "").strip():
        return "environment"
    try:
        return "file" if Path(HF_TOKEN_PATH).read_bytes().strip() else None
    except FileNotFoundError:
        return None
    except OSError as error:
        unavailable["token"] = f"{HF_TOKEN_PATH}: {error.strerror or error}"
        return None


def count_cached(unavailable: dict[str, str]) -> int | None:
    """Return how many snapshots (of models, data sets, kernels) the Hub's cache has; a reason goes under "cached"."""
    from huggingface_hub.constants import HF_HUB_CACHE

    try:
        # Names of folders: huggingface_hub.file_download.repo_folder_name.
        return sum(1 for _ in Path(HF_HUB_CACHE).glob("*--*/snapshots/*/"))
    except OSError as error:
        unavailable["cached"] = f"{HF_HUB_CACHE}: {error.strerror or error}"
        return None


def find_proxy(endpoint: str) -> str | None:
    """Return the proxy that requests to `endpoint` take, without its credentials; None without one.

    By the variables as urllib reads them, which httpx does too.
    """
    address = urlsplit(endpoint)
    proxies = urllib.request.getproxies()
    found = proxies.get(address.scheme) or proxies.get("all")
    if not found or urllib.request.proxy_bypass(address.netloc):
        return None
    scheme, _, host = found.rpartition("://")
    return plain_line(f"{scheme or 'http'}://{host.rpartition('@')[2]}")


def _ask_kernels(http: HubHttp) -> _Answer:
    """Return `seconds` and `kernels`, from a list of one kernel repository."""
    utils().build_hf_headers(token=False)  # its first call may take longer, and is none of the Hub's time
    start = time.perf_counter()
    try:
        reply = http.get("/api/kernels", Subject(), {"limit": 1})
        seconds = time.perf_counter() - start
        http.decode(reply, list[dict[str, Any]])
    except HubError as error:
        if error.kind in _SILENT:
            return {}, {"kernels": _reason(error)}
        seconds = time.perf_counter() - start
        if error.kind == "not_found":
            return {"seconds": seconds, "kernels": False}, {}
        return {"seconds": seconds}, {"kernels": _reason(error)}
    return {"seconds": seconds, "kernels": True}, {}


def _ask_user(http: HubHttp, token: Found | None) -> _Answer:
    """Return `user`: the name that belongs to the token."""
    from huggingface_hub.constants import HF_HUB_DISABLE_IMPLICIT_TOKEN

    if token is None:
        return {}, {}
    if HF_HUB_DISABLE_IMPLICIT_TOKEN:
        return {}, {"user": "HF_HUB_DISABLE_IMPLICIT_TOKEN is set, so the token is not sent"}
    try:
        reply = http.get("/api/whoami-v2", Subject())
        return {"user": plain_line(http.decode(reply, _Whoami).name)}, {}
    except HubError as error:
        refused = error.kind in ("bad_token", "not_found")
        return {}, {"user": "the Hub does not accept the token" if refused else _reason(error)}


def _reason(error: HubError) -> str:
    return plain_line(f"{error.title}: {error.message}" if error.message else error.title)

"""What the Hub's refusals mean, each as one clear line with a next step."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from kerneltui.errors import HubError
from kerneltui.text import plain_line

HUB_ERROR_KINDS = (
    "not_found",
    "no_revision",
    "no_build",
    "no_metadata",
    "gated",
    "bad_token",
    "rate_limited",
    "unavailable",
    "unreachable",
    "garbage",
    "offline",
    "not_asked",
)

_CHECK_ENDPOINT = "Check HF_ENDPOINT; a proxy or a login page may answer in the Hub's place."


class Subject(msgspec.Struct, frozen=True):
    """What a request is about, for a refusal to name; `missing` is the kind when the path is not there."""

    repository: str | None = None
    revision: str | None = None
    missing: str = "no_build"
    variant: str | None = None


class Reply(msgspec.Struct, frozen=True):
    """An answer: its URL, status, headers (lower case) and body, and the address of the next page."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    next_page: str | None = None


def garbage(endpoint: str, url: str, why: str) -> HubError:
    """Return the error for an answer that the Hub's API does not give."""
    message = plain_line(f"{urlsplit(url).path}: {why}")
    return HubError("garbage", f"{endpoint} does not answer as the Hub does", message, _CHECK_ENDPOINT)


def unreachable(endpoint: str, why: str) -> HubError:
    """Return the error for a Hub from which no whole answer came."""
    return HubError(
        "unreachable",
        "The Hub cannot be reached",
        plain_line(f"{endpoint}: {why}"),
        "Check the network, proxy variables and HF_ENDPOINT; LOCAL_KERNELS can name a kernel on this disk.",
    )


def offline() -> HubError:
    """Return the error for huggingface_hub's offline mode."""
    return HubError(
        "offline",
        "HF_HUB_OFFLINE is set, so the Hub is not asked",
        "Branches, commits and variants are known to the Hub alone.",
        "Unset HF_HUB_OFFLINE (and TRANSFORMERS_OFFLINE), or name a kernel on this disk in LOCAL_KERNELS.",
    )


def not_asked() -> HubError:
    """Return the error for something that is looked for among kept answers alone, and is not there."""
    return HubError("not_asked", "The Hub was not asked yet", "No answer about this was kept.", "Ask again.")


def unsendable_token() -> HubError:
    """Return the error for a token that does not fit into an HTTP header."""
    return HubError(
        "bad_token",
        "The Hub's token cannot be sent",
        "It has characters that no token has.",
        "Correct HF_TOKEN, or log in again with: hf auth login",
    )


def refusal(reply: Reply, subject: Subject, endpoint: str) -> HubError:
    """Return the error that a status of 400 or above means for `subject`.

    The Hub says in X-Error-Code what is missing; a kernel repository that is missing or private answers 401
    to an anonymous client, which huggingface_hub takes for a failed login.
    """
    code = reply.headers.get("x-error-code")
    said = plain_line(reply.headers.get("x-error-message", ""))
    if reply.status >= 500:
        return _unavailable(reply, endpoint)
    if said == "Invalid credentials in Authorization header":
        return HubError("bad_token", "The Hub does not accept the token", said, "Log in again with: hf auth login")
    if code == "GatedRepo" or reply.status == 403:
        return _gated(subject, said or f"The Hub answers {reply.status}.", endpoint)
    if code == "RevisionNotFound" and subject.revision:
        return _no_revision(subject)
    if code == "EntryNotFound":
        return _missing(subject)
    if reply.status in (401, 404, 410):
        return _not_found(reply, subject, endpoint)
    return garbage(endpoint, reply.url, f"status {reply.status} {said}")


def rate_limited(endpoint: str, seconds: float | None) -> HubError:
    """Return the error for a Hub that takes no more requests for a number of seconds (None: it does not say)."""
    wait = "It does not say for how long." if seconds is None else f"It says to wait {seconds:.0f} s."
    return HubError(
        "rate_limited",
        "The Hub refuses more requests for now (429)",
        f"{endpoint} had too many from this address or token. {wait}",
        "Wait, then try again; a login (hf auth login) has a higher limit than none.",
    )


def _unavailable(reply: Reply, endpoint: str) -> HubError:
    return HubError(
        "unavailable",
        f"The Hub has a failure of its own ({reply.status})",
        f"{endpoint} answered {reply.status} twice for {plain_line(urlsplit(reply.url).path)}.",
        "Try again in a minute; https://status.huggingface.co tells of outages.",
    )


def _gated(subject: Subject, said: str, endpoint: str) -> HubError:
    return HubError(
        "gated",
        f"The Hub refuses access to {subject.repository}",
        said,
        f"Ask for access at {endpoint}/kernels/{subject.repository}, then log in with: hf auth login",
    )


def _no_revision(subject: Subject) -> HubError:
    return HubError(
        "no_revision",
        f"{subject.repository} has no revision {subject.revision}",
        "It is no branch, no tag and no full commit id there.",
        f"List its branches with: kerneltui kernels {subject.repository}",
    )


def _missing(subject: Subject) -> HubError:
    where = f"{subject.repository}@{subject.revision}"
    if subject.missing == "no_metadata":
        return HubError(
            "no_metadata",
            f"{where} has no metadata.json for {subject.variant}",
            "kernels cannot load a build without it.",
            f"Choose another branch: kerneltui kernels {subject.repository}",
        )
    return HubError(
        "no_build",
        f"{where} has no build/ folder",
        "There is nothing on that revision that kernels can load.",
        f"Choose a version branch (v1, v2 …): kerneltui kernels {subject.repository}",
    )


def _not_found(reply: Reply, subject: Subject, endpoint: str) -> HubError:
    if subject.repository is None:
        return HubError(
            "not_found",
            f"{endpoint} has no list of kernels",
            f"{urlsplit(reply.url).path} answered {reply.status}; older servers and mirrors do not know it.",
            "Name the repository yourself, or set HF_ENDPOINT to a Hub that has kernels.",
        )
    return HubError(
        "not_found",
        f"There is no kernel repository {subject.repository}",
        f"The Hub answers {reply.status}: it does not exist, is not a kernel repository, or is private.",
        "Check the name; for a private one log in with: hf auth login",
    )

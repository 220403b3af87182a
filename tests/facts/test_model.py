"""What the Hub's refusals to give a model's configuration mean. Finding them out takes the Hub's client up to 23 s."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kerneltui.errors import KerneltuiError
from kerneltui.facts.model import read_model


class Refusing:
    """An asker that answers with one refusal, as `worker.transformers_adapter` told it on 2026-12-01."""

    def __init__(self, kind: str, message: str, status: int | None) -> None:
        self.answer = {"error_type": kind, "error": message, "status": status}

    def ask(self, *_: object, **__: object) -> dict[str, Any]:
        """Return the refusal."""
        return self.answer


URL = "https://huggingface.co/org/model/resolve/main/config.json"
NO_LOGIN = (
    "No model org/model on the Hub, or it is private (401)\n"
    "Nor is it a folder here. Without a login the Hub tells the two apart for nobody. "
)
LOG_IN = "\nCheck the name; for a private model log in with `hf auth login`, then try again."
NOT_THERE = "No model org/model on the Hub, or it is private to others\nNor is it a folder here. "
CHECK = "\nCheck the name; for a private model, its owner must give your account access."
NETWORK = "\nCheck the network, HF_ENDPOINT and HF_HUB_OFFLINE, or give a local folder."
UNREACHABLE = "Cannot get the configuration of org/model: the Hub cannot be reached and the cache does not hold it\n"


@pytest.mark.parametrize(
    ("kind", "message", "status", "text"),
    [
        ("RepositoryNotFoundError", "401 Client Error.\n\nNot Found", 401, f"{NO_LOGIN}401 Client Error.{LOG_IN}"),
        ("RepositoryNotFoundError", "404 Client Error.", 404, f"{NOT_THERE}404 Client Error.{CHECK}"),
        ("HfHubHTTPError", f"404 Not Found for url: {URL}", 404, f"{NOT_THERE}404 Not Found for url: {URL}{CHECK}"),
        ("HFValidationError", "Repo id must be …", None, f"{NOT_THERE}Repo id must be …{CHECK}"),
        (
            "HfHubHTTPError", "Invalid credentials in Authorization header", 401,
            "The Hub does not accept the token\nInvalid credentials in Authorization header\n"
            "Log in again with `hf auth login`.",
        ),
        (
            "GatedRepoError", "403 Client Error.", 403,
            "org/model is gated\n403 Client Error.\nAsk for access on its page, then log in with `hf auth login`.",
        ),
        (
            "RevisionNotFoundError", "404 Client Error.", 404,
            "org/model has no such revision\n404 Client Error.\nCheck model_revision.",
        ),
        (
            "RemoteEntryNotFoundError", "404 Client Error.", 404,
            "org/model has no config.json\n404 Client Error.\nIt may not be a transformers model; check the name.",
        ),
        (
            "HfHubHTTPError", f"429 Too Many Requests for url: {URL}", 429,
            f"The Hub refuses more requests for now (429)\n429 Too Many Requests for url: {URL}\n"
            "Wait, then try again; a login (hf auth login) has a higher limit than none.",
        ),
        (
            "HfHubHTTPError", f"503 Service Unavailable for url: {URL}", 503,
            f"The Hub has a failure of its own (503)\n503 Service Unavailable for url: {URL}\n"
            "Try again in a minute; https://status.huggingface.co tells of outages.",
        ),
        ("ConnectError", "[Errno 111] refused", None, f"{UNREACHABLE}[Errno 111] refused{NETWORK}"),
        ("OfflineModeIsEnabled", "HF_HUB_OFFLINE is set", None, f"{UNREACHABLE}HF_HUB_OFFLINE is set{NETWORK}"),
        (
            "ValueError", "", None,
            "The configuration of org/model cannot be read\nValueError\nCheck the model.",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isidentifier() else "",
)  # fmt: skip
def test_each_refusal_has_a_next_step(tmp_path: Path, kind: str, message: str, status: int | None, text: str) -> None:
    with pytest.raises(KerneltuiError) as raised:
        read_model(Refusing(kind, message, status), "org/model", tmp_path)  # type: ignore[arg-type]
    assert str(raised.value) == text

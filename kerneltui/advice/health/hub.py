"""The Hub as this machine reaches it: offline, out of reach, a mirror, a token that it refuses."""

from __future__ import annotations

from collections.abc import Callable

from kerneltui.advice.finding import Finding, Fix
from kerneltui.facts.environment import is_offline
from kerneltui.facts.server import Server

_VARIABLES = "https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables"


def offline(server: Server) -> list[Finding]:
    """Offline, everything must lie in the cache."""
    if not is_offline(server.environment):
        return []
    empty = server.hub is not None and server.hub.cached == 0
    return [
        Finding(
            id="hub.offline",
            severity="warn" if empty else "note",
            title="The Hub is not asked: HF_HUB_OFFLINE is set" + (", and its cache is empty" if empty else ""),
            why="Model, data and kernel must lie whole in the cache, or be folders of this machine (LOCAL_KERNELS for "
            "kernels).",
            origin="known",
            source=f"{_VARIABLES}#hfhuboffline",
            fixes=(Fix(label="Ask the Hub again", command="unset HF_HUB_OFFLINE TRANSFORMERS_OFFLINE"),),
        )
    ]


def unreachable(server: Server) -> list[Finding]:
    """Without an answer of the Hub no kernel loads, also none that the cache has."""
    hub = server.hub
    reason = hub.unavailable.get("seconds") if hub else None
    if hub is None or reason is None or is_offline(server.environment):
        return []
    through = f" through the proxy {hub.proxy}" if hub.proxy else ""
    return [
        Finding(
            id="hub.unreachable",
            severity="warn",
            title=f"{hub.endpoint} does not answer{through}",
            why=f"{reason}\nModels, data and kernels can be had from the cache only, and kernels asks the Hub about "
            "the publisher before it loads one, unless it is told to stay offline. HTTPS_PROXY names a proxy, "
            "HF_ENDPOINT a mirror.",
            origin="observed",
            source=f"{_VARIABLES}#hfhuboffline",
            fixes=(Fix(label="Use what the cache has", command="export HF_HUB_OFFLINE=1"),),
        )
    ]


def no_kernels(server: Server) -> list[Finding]:
    """A mirror may have models and data, and no kernels."""
    hub = server.hub
    if hub is None or hub.kernels is not False:
        return []
    return [
        Finding(
            id="hub.no_kernels",
            severity="warn",
            title=f"{hub.endpoint} has no kernel repositories",
            why="It answers, but not about kernels, as mirrors of the Hub do. Kernels come from the Hub itself, or "
            "from a folder that LOCAL_KERNELS names.",
            origin="observed",
            source="https://github.com/padeoe/hf-mirror-site/issues/56",
            fixes=(Fix(label="Ask the Hub itself", command="unset HF_ENDPOINT"),),
        )
    ]


def token_refused(server: Server) -> list[Finding]:
    """A token that the Hub refuses makes it refuse also what needs none."""
    hub = server.hub
    reason = hub.unavailable.get("user") if hub else None
    # Other reasons say that the Hub was not asked, or did not answer.
    if hub is None or hub.token is None or reason is None or "not accept" not in reason:
        return []
    where = "the variable HF_TOKEN" if hub.token == "environment" else "where `hf auth login` keeps it"
    mend = (
        Fix(label="Leave it out", command="unset HF_TOKEN HUGGING_FACE_HUB_TOKEN")
        if hub.token == "environment"
        else Fix(label="Log in anew", command="hf auth login")
    )
    return [
        Finding(
            id="hub.token",
            severity="warn",
            title="The Hub refuses your token",
            why=f"It comes from {where}. With a token that is refused, also public repositories are.",
            origin="observed",
            source="https://huggingface.co/docs/huggingface_hub/quick-start#authentication",
            fixes=(mend,),
        )
    ]


RULES: tuple[Callable[[Server], list[Finding]], ...] = (offline, unreachable, no_kernels, token_refused)

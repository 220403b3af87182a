"""A Hub that does not answer, or not as it should."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kerneltui.facts.hub import Hub
from kerneltui.records import to_json
from tests.bad_input.command import FLASH, NO_HUB_HINT, NOBODY, SERVER, Command, blocked, plan, real, told
from tests.hub import LoopbackHub

UNTIL = "Until the Hub answers, kernels loads nothing, not even from the cache, so training would fail."
REVISION = "/api/kernels/kernels-community/flash-attn2/refs"
NOT_FOUND = "it does not exist, is not a kernel repository, or is private."
NAME_HINT = "Check the name; for a private one log in with: hf auth login"
FAULTS: dict[str, tuple[dict[str, Any], bool, tuple[str, ...]]] = {
    "401": (
        {"status": 401}, True,
        ("There is no kernel repository kernels-community/flash-attn2", f"The Hub answers 401: {NOT_FOUND}", NAME_HINT),
    ),
    "401 for the token": (
        {"status": 401, "headers": {"X-Error-Message": "Invalid credentials in Authorization header"}}, True,
        ("The Hub does not accept the token", "Invalid credentials in Authorization header",
         "Log in again with: hf auth login"),
    ),
    "404": (
        {"status": 404}, True,
        ("There is no kernel repository kernels-community/flash-attn2", f"The Hub answers 404: {NOT_FOUND}", NAME_HINT),
    ),
    "404 for the revision": (
        {"status": 404, "headers": {"X-Error-Code": "RevisionNotFound"}}, True,
        ("kernels-community/flash-attn2 has no revision v2", "It is no branch, no tag and no full commit id there.",
         "List its branches with: kerneltui kernels kernels-community/flash-attn2"),
    ),
    "429": (
        {"status": 429, "headers": {"Retry-After": "7"}}, False,
        ("The Hub refuses more requests for now (429)",
         "{hub} had too many from this address or token. It says to wait 7 s.",
         "Wait, then try again; a login (hf auth login) has a higher limit than none."),
    ),
    "503": (
        {"status": 503}, False,
        ("The Hub has a failure of its own (503)", f"{{hub}} answered 503 twice for {REVISION}.",
         "Try again in a minute; https://status.huggingface.co tells of outages."),
    ),
    "garbage": (
        {"body": b"<html>Log in to the Wi-Fi</html>"}, False,
        ("{hub} does not answer as the Hub does", f"{REVISION}: JSON is malformed: invalid character (byte 0)",
         "Check HF_ENDPOINT; a proxy or a login page may answer in the Hub's place."),
    ),
    "cut off": (
        {"cut": True}, False,
        ("The Hub cannot be reached", "{hub}: the connection ended before the whole answer was there", NO_HUB_HINT),
    ),
    "refused": (
        {}, False, ("The Hub cannot be reached", f"{NOBODY}: [Errno 111] Connection refused", NO_HUB_HINT),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_hub_that_does_not_tell_about_the_kernel_blocks_a_launch_and_ends_kernels(
    kerneltui: Command, hub_of_asker: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    fault, certain, lines = FAULTS[name]
    title, *rest = (line.format(hub=hub_of_asker.url) for line in lines)
    if fault:
        hub_of_asker.fail("/api/kernels", **fault)
    else:
        monkeypatch.setattr("kerneltui.facts.hub.Hub", lambda *_, **__: Hub(NOBODY))
    plan(tmp_path / "c.yaml", attn_implementation=FLASH)
    finding = [
        f"✖ {title}", *(f"  {line}" for line in rest), *([] if certain else [f"  {UNTIL}"]),
        "  → Take built-in attention: attn_implementation: sdpa", f"  source: the Hub's answer about {FLASH}",
    ]  # fmt: skip
    assert kerneltui("launch", "sft", "c.yaml", "--runs-dir", "runs", "--json") == (1, "", blocked("\n".join(finding)))
    assert not (tmp_path / "runs").exists()
    assert kerneltui("kernels", FLASH, "--json") == (1, "", told(title, *rest))


def test_for_another_machine_a_hub_out_of_reach_only_warns(
    kerneltui: Command, hub_of_asker: LoopbackHub, tmp_path: Path
) -> None:
    (tmp_path / "server.json").write_bytes(to_json(SERVER))
    hub_of_asker.fail("/api/kernels", status=503)
    plan(tmp_path / "c.yaml", attn_implementation=FLASH)
    said = kerneltui("check", "sft", "c.yaml", "--server", "server.json", "--json")
    assert (said.code, said.err) == (0, "")
    (finding,) = json.loads(said.out)["findings"]
    assert (finding["id"], finding["severity"]) == ("source.unavailable", "warn")
    assert finding["why"].endswith("Builds and branches were not asked for, so nothing is known of them.")


def test_the_real_command_says_that_the_hub_fails(tmp_path: Path, hub: LoopbackHub) -> None:
    hub.fail("/api/kernels", status=503)
    plan(tmp_path / "c.yaml", attn_implementation=FLASH)
    said = real("check", "sft", "c.yaml", cwd=tmp_path, **hub.environment())
    assert (said.code, said.err) == (1, "")
    assert said.out.startswith(
        f"✖ The Hub has a failure of its own (503)\n  {hub.url} answered 503 twice for {REVISION}."
    )
    assert "  commit" not in said.out
    assert not (tmp_path / "kerneltui-runs").exists()

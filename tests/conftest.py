"""What every test has: no way to the real Hub, and the loopback Hub where it asks for one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub import LoopbackHub

# huggingface_hub reads these when it is first imported, which is after this. Nothing listens at that address:
# a test that asks another Hub than the loopback Hub fails at once, instead of using the network, or the token
# and cache of the person who runs it.
_HOME = tempfile.TemporaryDirectory(prefix="kerneltui-tests-")
os.environ.update(HF_ENDPOINT="http://127.0.0.1:9", HF_HOME=_HOME.name, NO_PROXY="127.0.0.1,localhost")
os.environ.update({f"XDG_{_name}_HOME": f"{_HOME.name}/{_name.lower()}" for _name in ("STATE", "CACHE", "DATA")})
for _name in (
    "HF_TOKEN",
    "HF_HUB_CACHE",
    "HF_HUB_OFFLINE",
    "TRANSFORMERS_OFFLINE",
    "HF_HUB_DISABLE_TELEMETRY",
    "DISABLE_TELEMETRY",
    "DO_NOT_TRACK",
    "KERNELS_CACHE",
    "LOCAL_KERNELS",
):
    os.environ.pop(_name, None)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LoopbackHub]:
    """Return a fresh loopback Hub whose faults, requests and repositories are this test's own."""
    with LoopbackHub(tmp_path / "huggingface") as server:
        yield server

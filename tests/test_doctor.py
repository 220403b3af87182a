"""`kerneltui doctor` on recorded servers: findings first, then the report; its exit code; what `--json` gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerneltui.facts.server import Server
from kerneltui.records import from_json
from tests.bad_input.command import real
from tests.servers import HERE, recorded


@pytest.mark.parametrize(
    ("name", "code", "first"),
    [
        ("h200", 0, "✔ Nothing found that would fail"),
        ("no-gpu", 0, "▲ This server has no GPU, or shows none"),
        ("container-lost-gpu", 1, "✖ This container has lost its GPUs"),
    ],
)
def test_findings_come_first_and_a_block_ends_with_1(tmp_path: Path, name: str, code: int, first: str) -> None:
    said = real("doctor", "--server", str(HERE / f"{name}.json"), cwd=tmp_path)
    assert (said.code, said.err) == (code, "")
    lines = said.out.splitlines()
    assert lines[0] == first
    assert lines.index("") < next(at for at, line in enumerate(lines) if line.startswith("Server  "))


@pytest.mark.parametrize(
    "words", [("--server", "{}", "launch", "sft"), ("launch", "sft", "--server", "{}"), ("--server", "{}", "demo")]
)
def test_a_recorded_server_starts_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    said = real(*(word.format(HERE / "h200.json") for word in words), cwd=tmp_path)
    assert (said.code, said.out) == (2, "")
    assert "kerneltui export" in said.err
    assert list(tmp_path.iterdir()) == []


def test_json_is_the_server_alone(tmp_path: Path) -> None:
    said = real("--server", str(HERE / "container-lost-gpu.json"), "doctor", "--json", cwd=tmp_path)
    assert (said.code, said.err) == (1, "")
    assert from_json(said.out.encode(), Server, "the answer") == recorded("container-lost-gpu")

"""Recorded servers, see README.md."""

from __future__ import annotations

from pathlib import Path

from kerneltui.facts.server import Server
from kerneltui.records import read_record

HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in HERE.glob("*.json"))


def recorded(name: str) -> Server:
    return read_record(HERE / f"{name}.json", Server)

"""A plan judged: the findings, and what a launch would start."""

from __future__ import annotations

from kerneltui.advice.finding import Finding, is_blocked
from kerneltui.advice.memory.fits import Memory
from kerneltui.records import Document, Record


class Attention(Record):
    """The attention that will run: what was asked for, and the repository, branch, commit and variant that load."""

    asked: str | None
    implementation: str
    repository: str | None = None
    revision: str | None = None
    commit: str | None = None
    content_hash: str | None = None
    variant: str | None = None
    reason: str | None = None


class WillRun(Record):
    """What a launch would start; `memory` is what it takes of each card, None on the CPU and where not known."""

    trainer: str
    model: str | None
    attention: Attention
    dtype: str | None
    packages: dict[str, str]
    memory: Memory | None = None


class Assessment(Document):
    """A plan judged: `check --json` prints it."""

    findings: tuple[Finding, ...]
    will_run: WillRun

    @property
    def blocked(self) -> bool:
        """Whether a finding says that the run will fail or silently train the wrong thing."""
        return is_blocked(self.findings)

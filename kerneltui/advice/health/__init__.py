"""Findings about a server by itself, whatever is trained on it: one module a subject, each a list of pure rules."""

from __future__ import annotations

from kerneltui.advice.finding import ORDER, Finding
from kerneltui.advice.health import abilities, cards, driver, host, hub, packages, session, sharing, torch_build
from kerneltui.facts.server import Server

_SUBJECTS = (driver, torch_build, packages, cards, sharing, abilities, host, hub, session)


def judge_server(server: Server) -> tuple[Finding, ...]:
    """Return what is wrong with a server: blocks, then warnings, then notes, each in the order of subjects.

    A block keeps every training from its GPUs; a server on which all is well has no block and no warning. What could
    not be told is no finding.
    """
    found = [finding for subject in _SUBJECTS for rule in subject.RULES for finding in rule(server)]
    return tuple(sorted(found, key=lambda finding: ORDER.index(finding.severity)))

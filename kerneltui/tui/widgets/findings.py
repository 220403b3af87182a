"""Findings on screen: the list with what changed, and one finding in full."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from kerneltui.advice.finding import SIGNS, Finding, Fix
from kerneltui.text import plain_line
from kerneltui.tui.steps.step import WizardState
from kerneltui.tui.theme import COLOURS

_SEVERITIES = ("block", "warn", "note")


def findings_title(findings: Sequence[Finding], state: WizardState) -> str:
    """Return the counts by severity, or what is still unknown."""
    if state.error:
        return "✖ not judged"
    if state.assessment is None:
        return "…"
    return count_findings(findings)


def count_findings(findings: Sequence[Finding]) -> str:
    """Return how many findings there are of each severity, by their signs."""
    counts = {severity: sum(finding.severity == severity for finding in findings) for severity in _SEVERITIES}
    return "  ".join(f"{SIGNS[severity]} {counts[severity]}" for severity in _SEVERITIES)


def findings_content(findings: Sequence[Finding], state: WizardState, changed: frozenset[str]) -> Content:
    """Return one line a finding, `in_order`; those that the last change brought are bold, and `f` stands at its fix."""
    if state.error:
        first, *rest = state.error.splitlines()
        lines = [Content.styled(f"✖ {plain_line(first)}", "$error"), *(Content(plain_line(line)) for line in rest)]
        return Content("\n").join([*lines, Content.styled("^r asks again", "$secondary")])
    if state.assessment is None:
        return Content.styled(f"{state.busy or 'nothing asked yet'} …", "$secondary")
    if not findings:
        return Content.assemble((f"{SIGNS['ready']} ", "$success"), "Nothing found that would fail.")
    ordered = in_order(findings, changed)
    to_apply = next_fix(ordered)
    return Content("\n").join(_line(finding, finding.id in changed, to_apply) for finding in ordered)


def finding_line(finding: Finding, style: str = "", key: Content | str = "") -> Content:
    """Return a finding's sign and title, between them the key that applies its fix."""
    sign = (f"{SIGNS[finding.severity]} ", f"${COLOURS[finding.severity]}")
    return Content.assemble(sign, key, (plain_line(finding.title), style))


def in_order(findings: Sequence[Finding], changed: frozenset[str]) -> list[Finding]:
    """Return findings as they are listed: what blocks, then what the last change brought, then the others."""
    rank = _SEVERITIES.index
    return sorted(findings, key=lambda it: (it.severity != "block", it.id not in changed, rank(it.severity)))


def next_fix(ordered: Sequence[Finding]) -> Fix | None:
    """Return the fix that one key applies: the first that changes the plan, of the finding that stands first."""
    return next((fix for finding in ordered for fix in finding.fixes if fix.by_key), None)


def _line(finding: Finding, new: bool, first: Fix | None) -> Content:
    fix = next((fix for fix in finding.fixes if fix.by_key), None)
    if fix is None:
        return finding_line(finding, "bold" if new else "")
    key = Content.styled("f ", "bold $primary") if fix is first else Content("")
    line = finding_line(finding, "bold" if new else "", key)
    return Content.assemble(line, (f"  → {plain_line(fix.label)}", "$secondary"))


def finding_detail(finding: Finding) -> Content:
    """Return a finding in full: title, why, fixes, source."""
    lines = [finding_line(finding, "bold"), *(Content(plain_line(line)) for line in finding.why.splitlines())]
    for fix in finding.fixes:
        change = fix.command or ", ".join(
            [f"{name}: {value}" if value is not None else f"without {name}" for name, value in fix.changes.items()]
            + [f"{name}: null" for name in fix.nulls]
        )
        lines.append(
            Content.assemble(("→ ", "bold $primary"), plain_line(fix.label), (f"  {plain_line(change)}", "$secondary"))
        )
    lines.append(Content.styled(f"{finding.origin}: {plain_line(finding.source)}", "$secondary"))
    return Content("\n").join(lines)


def changed_ids(before: Sequence[Finding], after: Sequence[Finding]) -> frozenset[str]:
    """Return the ids of findings that are new or say something else than before."""
    known = {finding.id: finding for finding in before}
    return frozenset(finding.id for finding in after if known.get(finding.id) != finding) if before else frozenset()

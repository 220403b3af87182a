"""The kernels of the Hub as plain lines: the list with verdicts, and one repository with its revisions."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from kerneltui.advice.catalogue import COMMUNITY, FEATURES, ROLES
from kerneltui.advice.finding import SIGNS
from kerneltui.advice.kernel_verdict import AnswerKind, KernelVerdict
from kerneltui.browse.records import KernelList, KernelRow, RepositoryView, RevisionRow
from kerneltui.show import number, table_lines, terminal_width
from kerneltui.text import plain, plain_line

_SIGN: dict[AnswerKind, str] = {
    "ready": SIGNS["ready"], "care": SIGNS["warn"], "refused": SIGNS["block"], "unknown": SIGNS["unknown"],
}  # fmt: skip
_GROUPS = {
    "attention": "For attention", "layers": "For layers", "MoE": "For mixtures of experts", "quantization":
    "For quantization", "other": "For other things", None: "For what is not known",
}  # fmt: skip
_CACHED = {"whole": "cached", "part": "cached in part", None: ""}
# What a pin to each kind of revision means for later runs.
PINS = {
    "branch": "A branch gets builds for newer versions of torch, and may change under you.",
    "commit": "A commit never changes, and never gets builds for a newer torch.",
}
_CARD_LINES = 12


def kernel_list_lines(kernels: KernelList, *, width: int | None = None) -> list[str]:
    """Return the list by what kernels are for, each group by use; a verdict stands under its kernel."""
    width = width or terminal_width(100)
    lines: list[str] = []
    for role in (*ROLES, None):
        rows = [row for row in kernels.repositories if row.role == role]
        if rows:
            lines += [_GROUPS[role], *_group(rows, width), ""]
    if not kernels.repositories:
        lines += ["No kernels with that name.", ""] if kernels.error is None else []
    if error := kernels.error:
        lines += _wrap(f"▲ {error.title}", width, "  ")
        kept = "What is shown was kept or is in the cache." if kernels.repositories else ""
        told = [text for text in (error.message, error.hint, kept) if text]
        lines += [line for text in told for line in _wrap(text, width, "  ", first="  ")]
        lines += [""]
    return [*lines, *_wrap(_legend(kernels.repositories), width, "")] if kernels.repositories else lines[:-1]


def _legend(rows: Sequence[KernelRow]) -> str:
    open_ones = any(row.verdict is None for row in rows)
    return "`kerneltui kernels REPO` says more of one" + (", and judges those without a verdict." if open_ones else ".")


def _group(rows: Sequence[KernelRow], width: int) -> Iterator[str]:
    table = table_lines(
        ("", "kernel", "loads", "downloads", "changed", ""),
        [_cells(row) for row in rows],
        right="downloads",
        width=width,
    )
    for row, line in zip([None, *rows], table, strict=True):
        yield line
        if row and row.verdict and row.verdict.reason != row.variant:
            yield from _wrap(row.verdict.reason, width, "   ", first="   ")
        elif row and row.variant:
            yield f"   {plain_line(row.variant)}"


def _cells(row: KernelRow) -> tuple[str | None, ...]:
    trust = "not a trusted publisher" if row.trusted is False else ""
    return (
        _SIGN[row.verdict.kind] if row.verdict else " ",
        row.repository.removeprefix(f"{COMMUNITY}/"),
        row.revision or "",
        number(row.downloads),
        (row.changed or "")[:10] or None,
        ", ".join(part for part in (_CACHED[row.cached], trust, "gated" if row.gated else "") if part),
    )


def repository_lines(view: RepositoryView, *, revision: str | None = None, width: int | None = None) -> list[str]:
    """Return one repository: what it is, what loads and why, its revisions each with a verdict, and its card.

    With `revision` the answers on that one are shown apart, with kernels' reason for each build that it refuses.
    """
    width = width or terminal_width(100)
    row = view.row
    chosen = view.revisions[0] if revision and view.revisions else None
    lines = [plain_line(row.repository), *_wrap(_about(row), width, "  ", first="  "), ""]
    if row.reason:
        loads = f"Without a revision: {row.revision or row.commit} ({row.reason})."
        lines += [*_wrap(loads, width, ""), ""]
    lines += [*_revisions(view.revisions, width), ""] if view.revisions else []
    verdict = chosen.verdict if chosen else row.verdict
    if verdict:
        name = chosen.revision.name if chosen else row.revision or "the local kernel"
        lines += [f"{_SIGN[verdict.kind]} {plain_line(name)} on this server", *_answers(verdict, width), ""]
    if chosen and chosen.build and (refused := [it for it in chosen.build.decisions if it.reason]):
        lines += ["Builds that do not fit"]
        lines += [line for it in refused for line in _wrap(f"{it.variant}: {it.reason}", width, "    ", first="  ")]
        lines += [""]
    if row.features:
        lines += [*_features(row, width), ""]
    if view.commits:
        lines += ["Newest commits", *_revisions(view.commits, width, titles=True), ""]
    if view.card and view.card.strip():
        lines += ["Its card", *_card(view.card, width), ""]
    return [*lines, *(line for text in PINS.values() for line in _wrap(text, width, ""))]


def _about(row: KernelRow) -> str:
    trust = {True: "trusted publisher", False: "not a trusted publisher", None: ""}[row.trusted]
    used = f"{number(row.downloads)} downloads" if row.downloads is not None else ""
    changed = f"changed {row.changed[:10]}" if row.changed else ""
    parts = (row.what or "", f"for {row.role}" if row.role else "", trust, used, changed, _CACHED[row.cached])
    return " · ".join(part for part in parts if part)


def _revisions(revisions: Sequence[RevisionRow], width: int, *, titles: bool = False) -> Iterator[str]:
    rows = [
        (
            _SIGN[it.verdict.kind],
            it.revision.name[:8] if it.revision.kind == "commit" else it.revision.name,
            "" if it.revision.kind == "commit" else it.revision.commit[:8],
            (it.revision.date or "")[:10] or None,
            ", ".join(part for part in ("default" if it.default else "", _CACHED[it.cached]) if part),
        )
        for it in revisions
    ]
    table = table_lines(("", "revision", "commit", "date", ""), rows, width=width)
    for revision, line in zip([None, *revisions], table, strict=True):
        yield line
        if revision and titles and revision.revision.title:
            yield from _wrap(revision.revision.title, width, "   ", first="   ")
        if revision:
            yield from _wrap(revision.verdict.reason, width, "   ", first="   ")


def _answers(verdict: KernelVerdict, width: int) -> Iterator[str]:
    for answer in verdict.answers:
        yield from _wrap(answer.text, width, " " * 14, first=f"  {_SIGN[answer.kind]} {answer.subject:<9} ")
        if answer.source:
            yield f"{' ' * 14}source: {plain_line(answer.source)}"


def _features(row: KernelRow, width: int) -> Iterator[str]:
    yield f"For training, as its source of {row.source_date} tells"
    yield f"  source: {plain_line(str(row.source))}"
    for name, title in FEATURES.items():
        known = row.features.get(name)
        yield from _wrap(known or "not known", width, " " * 34, first=f"  {title:<30}  ")


def _card(card: str, width: int) -> Iterator[str]:
    """Give the beginning of a card as plain text."""
    lines = [line for line in plain(card.replace("\t", " ")).splitlines() if line.strip()]
    for line in lines[:_CARD_LINES]:
        yield from _wrap(line, width, "  ", first="  ")
    if len(lines) > _CARD_LINES:
        yield f"  … {len(lines) - _CARD_LINES} more lines on its page"


def _wrap(text: str, width: int, indent: str, *, first: str = "") -> Iterable[str]:
    # What one copies (a name, a command, an address) is not torn at its hyphens.
    wrapper = textwrap.TextWrapper(
        width, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return wrapper.wrap(plain_line(text)) or [first.rstrip()]

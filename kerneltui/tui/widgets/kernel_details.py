"""A kernel in words: what it is, what loads, and each answer that its verdict is made of."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content

from kerneltui.advice.catalogue import FEATURES
from kerneltui.advice.finding import SIGNS
from kerneltui.advice.kernel_verdict import AnswerKind, KernelVerdict
from kerneltui.browse.records import KernelRow, RepositoryView, RevisionRow
from kerneltui.show_kernels import PINS
from kerneltui.text import plain, plain_line
from kerneltui.tui.theme import COLOURS

_SIGN: dict[AnswerKind, str] = {"ready": "ready", "care": "warn", "refused": "block", "unknown": "unknown"}
_LABEL = 10


def row_details(row: KernelRow) -> Content:
    """Return what is known of a repository in the list."""
    return Content("\n").join([*_about(row), Content(""), *_verdict(row.verdict), *_features(row)])


def revision_details(view: RepositoryView, chosen: RevisionRow) -> Content:
    """Return the verdict on one revision, with the builds that do not fit and what a pin to it means."""
    refused = [(it.variant, it.reason) for it in chosen.build.decisions if it.reason] if chosen.build else []
    lines = [
        Content.assemble((plain_line(_name(chosen)), "bold"), f"  {plain_line(chosen.revision.title or '')}"),
        *([Content(plain_line(view.row.reason))] if chosen.default and view.row.reason else []),
        Content(""),
        *_verdict(chosen.verdict),
        Content(PINS["commit" if chosen.revision.kind == "commit" else "branch"]),
        *([Content(""), Content.styled("Builds that do not fit", "bold")] if refused else []),
        *(Content.assemble(f"  {plain_line(name)}  ", (plain_line(why), "$secondary")) for name, why in refused),
        Content(""),
        *_about(view.row),
        *_features(view.row),
        *([Content(""), Content.styled("Its card", "bold"), *_card(view.card)] if view.card else []),
    ]
    return Content("\n").join(lines)


def _name(chosen: RevisionRow) -> str:
    """Return what a revision is called; a commit by its first eight digits."""
    return chosen.revision.name[:8] if chosen.revision.kind == "commit" else chosen.revision.name


def _about(row: KernelRow) -> Iterator[Content]:
    yield Content.styled(plain_line(row.repository), "bold")
    if row.what:
        yield Content(plain_line(row.what))
    if row.trusted is not None:
        word = "" if row.trusted else "not "
        yield Content.styled(f"its publisher is {word}trusted by the Hub", "$secondary" if row.trusted else "$warning")
    if row.revision:
        commit = f" @ {row.commit[:8]}" if row.commit else ""
        yield Content(f"loads {plain_line(row.revision)}{commit}: {plain_line(row.reason or '')}")


def _verdict(verdict: KernelVerdict | None) -> Iterator[Content]:
    if verdict is None:
        yield Content.styled("not judged yet: enter judges it", "$secondary")
        return
    for answer in verdict.answers:
        sign = _SIGN[answer.kind]
        yield Content.assemble(
            (f"{SIGNS[sign]} ", f"${COLOURS[sign]}"),
            (f"{answer.subject:<{_LABEL}}", "$secondary"),
            plain_line(answer.text),
        )
    yield Content("")


def _features(row: KernelRow) -> Iterator[Content]:
    if not row.features:
        return
    yield Content.assemble(
        ("For training ", "bold"), (f"as told on {row.source_date}: {plain_line(str(row.source))}", "$secondary")
    )
    for name, title in FEATURES.items():
        known = row.features.get(name)
        yield Content.assemble((f"  {title}: ", "$secondary"), plain_line(known or "not known"))


def _card(card: str) -> list[Content]:
    return [Content(line) for line in plain(card.replace("\t", " ")).splitlines()]

"""Public issues as data, and the person's own on top: `known_issues.toml` here and in the configuration directory."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from kerneltui.advice.finding import Finding, Fix, Severity
from kerneltui.advice.situation import Situation
from kerneltui.errors import RecordError
from kerneltui.paths import config_directory
from kerneltui.records import Record, from_builtins

FILE = "known_issues.toml"


class IssueKernel(Record):
    """The kernel that an issue is about; `revisions` are branches or commits, none for all."""

    repository: str
    revisions: tuple[str, ...] = ()


class IssueModel(Record):
    """What an issue asks of the model; what is left out is not asked."""

    types: tuple[str, ...] = ()
    grouped: bool | None = None
    recurrent: bool | None = None
    head_dims: tuple[int, ...] = ()


class Issue(Record):
    """One known issue: it holds where all conditions do. `seen` is a day, `ended` how to tell that it has ended."""

    id: str
    severity: Severity
    title: str
    why: str
    source: str
    seen: str
    ended: str
    packages: dict[str, str] = {}
    kernel: IssueKernel | None = None
    capability: tuple[int, ...] = ()
    trainers: tuple[str, ...] = ()
    options: dict[str, Any] = {}
    processes_over: int | None = None
    model: IssueModel | None = None
    fix: Fix | None = None


def read_issues(text: str, name: str) -> tuple[Issue, ...]:
    """Return the issues of a file's text; `name` is for messages. Raises RecordError where it cannot be read."""
    try:
        raw = tomllib.loads(text).get("issue", [])
    except tomllib.TOMLDecodeError as error:
        raise RecordError(f"{name} is not TOML", str(error), "Correct that place.") from error
    issues = from_builtins(raw, tuple[Issue, ...], name)
    for issue in issues:
        for package, versions in issue.packages.items():
            try:
                SpecifierSet(versions)
            except InvalidSpecifier as error:
                hint = "Write them as pip does (>=1.10,<1.14)."
                raise RecordError(f"{name}: {issue.id} has no versions of {package}", str(error), hint) from error
    return issues


@functools.cache
def known_issues() -> tuple[Issue, ...]:
    """Return the issues that come with kerneltui."""
    return read_issues(resources.files("kerneltui.advice").joinpath(FILE).read_text("utf-8"), FILE)


@functools.lru_cache(maxsize=4)
def _own(path: Path, changed: int) -> tuple[tuple[Issue, ...], RecordError | None]:
    try:
        return read_issues(path.read_text("utf-8"), str(path)), None
    except (OSError, UnicodeDecodeError) as error:
        return (), RecordError(f"{path} cannot be read", str(error))
    except RecordError as error:
        return (), error


def own_issues() -> tuple[tuple[Issue, ...], RecordError | None]:
    """Return the person's own issues, and why their file cannot be read; it is read again when it changes."""
    path = config_directory() / FILE
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        return (), None
    return _own(path, changed)


def holds(issue: Issue, situation: Situation) -> bool:
    """Return whether all conditions of an issue hold."""
    get = situation.settings.get
    return all(
        (
            all(_in_range(situation, name, versions) for name, versions in issue.packages.items()),
            issue.kernel is None or _is_kernel(issue.kernel, situation),
            not issue.capability or bool({major for major, _ in situation.capabilities} & set(issue.capability)),
            not issue.trainers or situation.plan.trainer in issue.trainers,
            all(get(name) == value for name, value in issue.options.items()),
            issue.processes_over is None or situation.processes > issue.processes_over,
            issue.model is None or _is_model(issue.model, situation),
        )
    )


def found_issues(situation: Situation) -> list[Finding]:
    """Return the issues that hold; one about a kernel is a note where a trial on this machine passed."""
    own, error = own_issues()
    found = [_finding(situation, issue) for issue in (*known_issues(), *own) if holds(issue, situation)]
    if error is not None:
        why = f"{error.message} {error.hint}".strip()
        found.append(
            Finding(
                id="issues.unreadable", severity="warn", title=error.title, why=why, origin="observed", source=FILE
            )
        )  # fmt: skip
    return found


def _in_range(situation: Situation, name: str, versions: str) -> bool:
    installed = situation.version(name)
    return installed is not None and SpecifierSet(versions).contains(installed, prereleases=True)


def _is_kernel(kernel: IssueKernel, situation: Situation) -> bool:
    choice, build = situation.attention, situation.build
    if choice.repository != kernel.repository or (build is not None and build.source == "local"):
        return False
    named = (choice.revision or "", build.commit if build else "")
    return not kernel.revisions or any(it and it.startswith(kernel.revisions) for it in named)


def _is_model(wanted: IssueModel, situation: Situation) -> bool:
    model = situation.model
    if model is None:
        return False
    return (
        (not wanted.types or model.model_type in wanted.types)
        and wanted.grouped in (None, model.grouped)
        and wanted.recurrent in (None, model.recurrent)
        and (not wanted.head_dims or bool(set(wanted.head_dims) & set(model.head_dims)))
    )


def _finding(situation: Situation, issue: Issue) -> Finding:
    made = situation.preflight
    proven = issue.kernel is not None and made is not None and made.passed
    passed = f"\nA trial of {made.time[:10]} on this machine passed, which counts more." if proven and made else ""
    return Finding(
        id=f"issues.{issue.id}",
        severity="note" if proven else issue.severity,
        title=issue.title,
        why=f"{issue.why}\nSeen on {issue.seen}; it has ended when {issue.ended}.{passed}",
        origin="known",
        source=issue.source,
        fixes=() if proven or issue.fix is None else (issue.fix,),
    )


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (found_issues,)

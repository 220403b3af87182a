"""Fetching what a plan needs from the Hub, so that its run starts without a network and its ranks find it there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from kerneltui.advice.situation import Situation
from kerneltui.errors import KerneltuiError, WorkerAnswerError
from kerneltui.facts.builds import judge
from kerneltui.facts.hub import Hub
from kerneltui.facts.kernel_records import KernelBuild
from kerneltui.interpreter import Asker, Worker
from kerneltui.records import Document, Record

# Of the free space so much is left to the run and to others, in bytes.
_SPARE = 1 << 30
# Seconds for a listing, and for a download: a large model over a slow line takes hours.
_LISTING, _DOWNLOAD = 300.0, 7 * 24 * 3600.0

# The width of the bar of a download, in cells.
_BAR = 20

# Trainers that take nothing from the Hub but their kernel, model and data.
_WHOLLY_KNOWN = ("sft", "dpo", "kto", "reward")

OnProgress = Callable[["Part", int], None]


class Part(Record):
    """One thing that a run needs from the Hub.

    `revision` is what the run will ask for, `commit` what that is now; `size` are the bytes still to come (None: not
    known before it is read), `free` those of the disk where they go. `variant` is a kernel's build, `source` a data
    set's entry in TRL's form.
    """

    kind: Literal["kernel", "model", "data"]
    name: str
    revision: str | None = None
    variant: str | None = None
    commit: str | None = None
    size: int | None = None
    free: int | None = None
    path: str | None = None
    source: dict[str, Any] = {}


class Fetched(Document):
    """What was brought into the cache, or was there already."""

    parts: tuple[Part, ...] = ()


def needed(situation: Situation, asker: Asker, hub: Hub) -> list[Part]:
    """Return what a plan needs from the Hub, each once; what lies on this disk is not among it.

    Raises KerneltuiError where the kernel has no build that loads, HubError, WorkerError.
    """
    parts = [*_kernels(situation, asker, hub), *_models(situation), *_data(situation)]
    return list({(part.kind, part.name, part.revision, str(part.source)): part for part in parts}.values())


def fetch(parts: list[Part], situation: Situation, python: Path, *, on_progress: OnProgress | None = None) -> Fetched:
    """Bring parts into the cache of the training interpreter and return them with their commits and paths.

    `on_progress` gets the part and the bytes of it that have come. Raises KerneltuiError before the first byte where
    the disk has no room for all of them, and where one cannot be had; what has come by then stays.
    """
    tell = on_progress or (lambda part, count: None)
    # What keeps the run off the Hub does not hold for fetching.
    asking = {name: os.environ.get(name, "") for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")}
    environment = {**situation.plan.environment, **asking, "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    cwd = Path(situation.plan.cwd)
    with Worker(python, "fetch", environment=environment, cwd=cwd if cwd.is_dir() else None) as worker:
        sized = [_sized(worker, part) for part in parts]
        _check_space(sized)
        return Fetched(parts=tuple(_get(worker, part, str(cwd), tell) for part in sized))


def for_all_ranks(situation: Situation) -> bool:
    """Return whether a run of several processes starts better from the cache alone, with everything fetched before.

    Only for trainers whose Hub repositories are all known here (a reward function of GRPO may be a model of its own,
    and code of a model may take more), where nothing of the run talks to the Hub, and on one machine: another may have
    a cache of its own.
    """
    settings = situation.settings
    reports = settings.get("report_to")
    talks = settings.get("push_to_hub") or settings.model_kwargs.get("use_kernels") or "trackio" in str(reports)
    return (
        situation.processes > 1
        and settings.machines == 1
        and not settings.get("trust_remote_code")
        and situation.plan.trainer in _WHOLLY_KNOWN
        and not talks
        and not situation.offline
        and not any(entry.get("streaming") for entry in [settings.values, *_entries(settings.values)])
    )


def offline(situation: Situation, fetched: Fetched) -> Situation:
    """Return the situation of the same plan with a run that does not ask the Hub.

    An adapter names a model of its own, which was not fetched: its run goes on asking.
    """
    if any(part.path and Path(part.path, "adapter_config.json").exists() for part in fetched.parts):
        return situation
    launch = situation.plan.launch
    alone = msgspec.structs.replace(launch, environment={**launch.environment, "HF_HUB_OFFLINE": "1"})
    return msgspec.structs.replace(situation, plan=msgspec.structs.replace(situation.plan, launch=alone))


def _entries(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [entry for entry in values.get("datasets") or [] if isinstance(entry, dict)]


def _kernels(situation: Situation, asker: Asker, hub: Hub) -> Iterator[Part]:
    """Give the kernel and those that it depends on, each in the build that fits."""
    choice, build = situation.attention, situation.build
    if choice.kind != "kernel" or (build and build.source == "local"):
        return
    if build is None:
        _, message = situation.build_error or ("", "The Hub was not asked.")
        raise KerneltuiError(f"Nothing is known of {choice.repository}@{choice.revision}", message)
    yield from _with_dependencies(build, situation, asker, hub, set())


def _with_dependencies(
    build: KernelBuild, situation: Situation, asker: Asker, hub: Hub, seen: set[tuple[str, str]]
) -> Iterator[Part]:
    if build.variant is None:
        raise KerneltuiError(
            f"{build.repository}@{build.revision} has no build for this server",
            "There is nothing of it to fetch.",
            f"See which of its revisions has one: kerneltui kernels {build.repository}",
        )
    seen.add((build.repository, build.revision))
    yield Part(kind="kernel", name=build.repository, revision=build.revision, variant=build.variant)
    for name in build.metadata.kernel_depends if build.metadata else ():
        repository, _, revision = name.partition("@")
        if (repository, revision) not in seen:
            other = judge(asker, hub, repository, revision, situation.server)
            yield from _with_dependencies(other, situation, asker, hub, seen)


def _models(situation: Situation) -> Iterator[Part]:
    """Give the models that the configuration names, and that are no folder here."""
    settings = situation.settings
    for key, value in settings.values.items():
        if not key.endswith("model_name_or_path") or not isinstance(value, str) or not value:
            continue
        if not (Path(situation.plan.cwd) / Path(value).expanduser()).is_dir():
            own = key == "model_name_or_path"
            named = settings.model_kwargs.get("revision", settings.get("model_revision")) if own else None
            yield Part(kind="model", name=value, revision=str(named or "main"))


def _data(situation: Situation) -> Iterator[Part]:
    values, cwd = situation.settings.values, Path(situation.plan.cwd)
    entries = _entries(values)
    if not entries and isinstance(values.get("dataset_name"), str):
        entries = [{"path": values["dataset_name"], "name": values.get("dataset_config")}]
    for entry in entries:
        name = str(entry.get("path"))
        if "/" in name and not (cwd / name).exists():
            source = {key: value for key, value in entry.items() if value is not None and key != "path"}
            yield Part(kind="data", name=name, source=source)


def _sized(worker: Worker, part: Part) -> Part:
    answer = _ask(worker, "fetch.size", part, _LISTING, lambda name, value: None)
    return msgspec.structs.replace(part, commit=answer["commit"], size=answer["bytes"], free=answer["free"])


def _get(worker: Worker, part: Part, cwd: str, tell: OnProgress) -> Part:
    tell(part, 0)
    answer = _ask(worker, "fetch.get", part, _DOWNLOAD, lambda name, value: tell(part, int(value)), cwd=cwd)
    return msgspec.structs.replace(part, commit=answer["commit"], path=answer["path"])


def _ask(
    worker: Worker, question: str, part: Part, timeout: float, on_part: Callable[[str, Any], None], **more: Any
) -> Any:
    asked = msgspec.to_builtins(part)
    try:
        return worker.ask(question, timeout=timeout, on_part=on_part, part=asked, **more)
    except WorkerAnswerError as error:
        raise KerneltuiError(
            f"The {part.kind} {part.name} could not be fetched",
            error.message,
            "What has come so far is kept; try again, and it goes on from there.",
        ) from error


def _check_space(parts: list[Part]) -> None:
    wanted = sum(part.size or 0 for part in parts)
    free = min((part.free for part in parts if part.free is not None), default=None)
    if free is not None and wanted + _SPARE > free:
        raise KerneltuiError(
            "There is no room for what the run needs",
            f"{gigabytes(wanted)} are still to come, and {gigabytes(free)} are free where the cache is.",
            "Make room (hf cache prune), or set HF_HOME to a larger disk.",
        )


def progress_words(part: Part, come: int) -> str:
    """Return a line with a bar on how much of a part has come, in bytes."""
    if not part.size:
        return f"fetching {part.name}" + (f": {gigabytes(come)}" if come else "")
    share = min(1.0, come / part.size)
    filled = round(share * _BAR)
    return f"{part.name} {'█' * filled}{'░' * (_BAR - filled)} {share:4.0%} of {gigabytes(part.size)}"


def gigabytes(count: int) -> str:
    """Return a number of bytes in megabytes or gigabytes."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"

"""Find out what a plan needs and judge it: the facts, the findings, and what will really run."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from kerneltui import demo
from kerneltui.advice import rules
from kerneltui.advice.assessment import Assessment, Attention, WillRun
from kerneltui.advice.memory.fits import memory_of
from kerneltui.advice.memory.question import BESIDE, question_of
from kerneltui.advice.situation import Situation
from kerneltui.advice.subject import subject_of
from kerneltui.errors import HubError, KerneltuiError, UsageError, WorkerError
from kerneltui.facts.attention import AttentionChoice, device_type, resolve_attention
from kerneltui.facts.builds import judge, judge_cached, judge_repository, local_kernels
from kerneltui.facts.cached import cache_folder, cached_kernels
from kerneltui.facts.dataset import dataset_name, read_dataset
from kerneltui.facts.hub import Hub
from kerneltui.facts.local_data import check_local_data
from kerneltui.facts.model import ModelFacts, read_model
from kerneltui.facts.model_memory import read_model_memory
from kerneltui.facts.packages import kernels_usable
from kerneltui.facts.proofs import find_preflight
from kerneltui.facts.server import Server
from kerneltui.interpreter import Asker, ProgressCallback
from kerneltui.plan.construction import can_construct, read_construction
from kerneltui.plan.devices import count_devices
from kerneltui.plan.plan import Plan
from kerneltui.plan.settings import Settings, read_settings, unknown_trainer
from kerneltui.text import nearest

# The packages of this machine that answer for another one.
_ANSWERING = ("trl", "transformers", "kernels")


def find_out(
    plan: Plan,
    server: Server,
    asker: Asker,
    hub: Hub,
    *,
    on_progress: ProgressCallback | None = None,
    elsewhere: bool = False,
    data: bool = True,
) -> Situation:
    """Return all that can be found out about `plan` on `server`; `elsewhere` tells that this is another machine.

    Without `data` its rows are not read (see `with_data`), which can take long where they are on the Hub, and the
    trainer's constructor is not asked (see `with_construction`).
    Raises UsageError for what the person must correct first (an unknown trainer, a file that is not there).
    """
    tell = on_progress or (lambda text: None)
    libraries = server.libraries
    trainers = (*libraries.trainers, *libraries.experimental) if libraries else ()
    if trainers and plan.trainer not in trainers:
        raise unknown_trainer(plan.trainer, trainers)
    tell("asking TRL about the configuration")
    settings = read_settings(plan, asker, devices=count_devices(plan, server) or 0, elsewhere=elsewhere)
    if not elsewhere:  # the files that another machine has are not here
        check_local_data(settings.values, Path(plan.cwd))
    tell("reading the model's configuration")
    model, unknown = _model(plan, settings, asker, elsewhere)
    scorer, unread = _reward_model(plan, settings, asker)
    situation = Situation(
        plan=plan,
        settings=settings,
        server=server,
        attention=_attention(settings, server, model),
        model=model,
        reward_model=scorer,
        teacher=_teacher(plan, settings, asker),
        unknown={**unknown, **unread},
        elsewhere=elsewhere,
        differing=_differing(server, asker) if elsewhere else {},
    )
    situation = with_preflight(_with_kernel(situation, asker, hub, tell))
    if not data:
        return situation
    situation = with_construction(situation, asker, on_progress=on_progress)
    situation = with_data(situation, asker, on_progress=on_progress)
    return with_memory(situation, asker, on_progress=on_progress)


def with_construction(situation: Situation, asker: Asker, *, on_progress: ProgressCallback | None = None) -> Situation:
    """Return the situation with what the trainer's own constructor says of its options, where it can be asked here.

    A server with another TRL or transformers is not judged by those of this machine; `unknown` says that.
    """
    trainer, libraries = situation.plan.trainer, situation.server.libraries
    if not can_construct(trainer) or libraries is None:
        return situation
    if other := [name for name in ("trl", "transformers") if name in situation.differing]:
        return _not_asked(situation, "construction", f"this machine has another {' and another '.join(other)}")
    if on_progress:
        on_progress("asking the trainer about its options")
    try:
        construction = read_construction(trainer, situation.settings, asker, demo.model_path())
    except KerneltuiError as error:
        return _not_asked(situation, "construction", str(error))
    return msgspec.structs.replace(situation, construction=construction)


def with_data(situation: Situation, asker: Asker, *, on_progress: ProgressCallback | None = None) -> Situation:
    """Return the situation with what the first rows of its data tell; why they cannot be read is in its `unknown`.

    A plan that names no data keeps its situation.
    """
    values, plan = situation.settings.values, situation.plan
    if not dataset_name(values):
        return situation
    if on_progress:
        on_progress("reading the first rows of the data")
    try:
        data = read_dataset(asker, values, Path(plan.cwd), plan.trainer)
    except KerneltuiError as error:
        found = _not_asked(situation, "data", _told(error))
        return msgspec.structs.replace(found, data_at_fault=isinstance(error, UsageError))
    return msgspec.structs.replace(situation, data=data)


def with_memory(situation: Situation, asker: Asker, *, on_progress: ProgressCallback | None = None) -> Situation:
    """Return the situation with the counts of its model's memory; without a GPU it stays as it is."""
    question = question_of(situation)
    if question is None or not situation.on_gpu:
        return situation
    if on_progress:
        on_progress("counting the memory of a step")
    cwd = Path(situation.plan.cwd)
    try:
        memory, why = read_model_memory(asker, cwd, **question)
    except WorkerError as error:
        return _not_asked(situation, "memory", str(error))
    if memory is None:
        return _not_asked(situation, "memory", str(why))
    named = (situation.settings.get(name) for name in BESIDE)
    beside = sum(_parameters(asker, path, cwd) for path in named if isinstance(path, str))
    return msgspec.structs.replace(situation, memory=memory, others=beside)


def _parameters(asker: Asker, path: str, cwd: Path) -> int:
    """Return the parameters of a model beside the trained one, 0 where they cannot be told."""
    with contextlib.suppress(KerneltuiError):
        return read_model(asker, path, cwd).parameters or 0
    return 0


def with_attention(
    situation: Situation, asked: str, asker: Asker, hub: Hub, *, on_progress: ProgressCallback | None = None
) -> Situation:
    """Return the situation as it would be if its plan asked for the attention `asked`: another name is resolved.

    `Situation.plan` stays as it is; the settings, the attention and the facts of its kernel are those of `asked`.
    Raises as `find_out`.
    """
    settings = situation.settings.with_attention(asked)
    changed = msgspec.structs.replace(
        situation,
        settings=settings,
        attention=_attention(settings, situation.server, situation.model),
        build=None,
        build_error=None,
        alternatives=None,
        trusted=None,
        similar=None,
        cached=None,
        rehearsal=None,
        memory=None,
        unknown={name: why for name, why in situation.unknown.items() if name not in ("local_kernel", "trust")},
    )
    if question_of(changed) == question_of(situation):
        changed = msgspec.structs.replace(changed, memory=situation.memory)
    return with_preflight(_with_kernel(changed, asker, hub, on_progress or (lambda text: None)))


def with_preflight(situation: Situation) -> Situation:
    """Return the situation with what came of trying its attention on this machine, where that was kept."""
    subject = subject_of(situation)
    found = None if isinstance(subject, str) else find_preflight(subject, measured=False)
    return msgspec.structs.replace(situation, preflight=found)


def _differing(server: Server, asker: Asker) -> dict[str, tuple[str, str]]:
    """Return the versions there and here of the packages that answer here for a server elsewhere."""
    here = asker.ask("packages")
    found = {
        name: (server.packages[name].version, here[name]["version"])
        for name in _ANSWERING
        if name in here and name in server.packages
    }
    return {name: versions for name, versions in found.items() if versions[0] != versions[1]}


def assess(situation: Situation) -> Assessment:
    """Return the findings on a situation, blocks first, and what will run."""
    return Assessment(findings=rules.judge(situation), will_run=what_will_run(situation))


def _model(plan: Plan, settings: Settings, asker: Asker, elsewhere: bool) -> tuple[ModelFacts | None, dict[str, str]]:
    path = settings.get("model_name_or_path")
    if not path:
        return None, {"model": "no model_name_or_path is given"}
    if not isinstance(path, str):
        raise UsageError(
            "model_name_or_path is not text", f"YAML reads it as {path!r}.", "Give a folder or the name of a model."
        )
    try:
        return _read(path, plan, settings, asker), {}
    except KerneltuiError as error:
        if isinstance(error, UsageError) and not elsewhere:
            raise
        return None, {"model": _told(error)}


def _reward_model(plan: Plan, settings: Settings, asker: Asker) -> tuple[ModelFacts | None, dict[str, str]]:
    path = settings.get("reward_model_name_or_path")
    try:
        return (_read(str(path), plan, settings, asker) if path else None), {}
    except KerneltuiError as error:
        return None, {"reward_model": _told(error)}


def _read(path: str, plan: Plan, settings: Settings, asker: Asker) -> ModelFacts:
    """Return a model's facts at the revision of the policy, which TRL's scripts ask of the reward model too."""
    revision = settings.model_kwargs.get("revision", settings.get("model_revision"))
    return read_model(
        asker,
        path,
        Path(plan.cwd),
        revision=None if revision == "main" else revision,
        trust_remote_code=bool(settings.get("trust_remote_code")),
    )


def _told(error: KerneltuiError) -> str:
    return "\n".join(part for part in (error.title, error.message, error.hint) if part)


def _teacher(plan: Plan, settings: Settings, asker: Asker) -> ModelFacts | None:
    """Return what the teacher's configuration says; None where there is none, or where it cannot be read."""
    path = settings.get("teacher_model_name_or_path")
    if not isinstance(path, str) or not path:
        return None
    with contextlib.suppress(KerneltuiError):
        return read_model(asker, path, Path(plan.cwd), revision=settings.get("teacher_model_revision"))
    return None


def _attention(settings: Settings, server: Server, model: ModelFacts | None) -> AttentionChoice:
    asked, libraries = settings.attention, server.libraries
    if libraries is None:
        return AttentionChoice(asked=asked, implementation=asked or "sdpa", kind="unknown")
    return resolve_attention(asked, libraries, model, kernels_usable(server), device_type(server.torch))


def _with_kernel(situation: Situation, asker: Asker, hub: Hub, tell: ProgressCallback) -> Situation:
    """Return the situation with what the Hub says of the chosen kernel; other revisions only where they are wanted."""
    choice = situation.attention
    if choice.kind != "kernel":
        return situation
    assert choice.repository and choice.revision
    tell(f"asking the Hub about {choice.repository}")
    # What the run will see: LOCAL_KERNELS may come with the plan.
    server = msgspec.structs.replace(situation.server, environment=situation.environment)
    if situation.elsewhere and choice.repository in (folders := local_kernels(server.environment)):
        return _not_asked(situation, "local_kernel", folders[choice.repository])
    gpus, elsewhere = _indices(situation), situation.elsewhere
    try:
        build = judge(asker, hub, choice.repository, choice.revision, server, gpus=gpus, elsewhere=elsewhere)
    except HubError as error:
        similar = _similar(hub, choice.repository) if error.kind == "not_found" else None
        situation = msgspec.structs.replace(situation, build_error=(error.kind, str(error)), similar=similar)
    else:
        situation = _with_trust(msgspec.structs.replace(situation, build=build), hub, choice.repository)
    local = situation.build is not None and situation.build.source == "local"
    if situation.offline and not elsewhere and not local:
        return _from_cache(situation, asker, server, gpus)
    if not local and rules.wants_alternatives(rules.judge(situation)):
        with contextlib.suppress(HubError):
            others = judge_repository(asker, hub, choice.repository, server, gpus=gpus, elsewhere=elsewhere)
            situation = msgspec.structs.replace(situation, alternatives=tuple(others))
    return situation


def _from_cache(situation: Situation, asker: Asker, server: Server, gpus: list[int] | None) -> Situation:
    """Return the situation of a run that does not ask the Hub: what the cache holds of its kernel decides."""
    choice = situation.attention
    held = cached_kernels(cache_folder(situation.plan.environment)).get(str(choice.repository), [])
    found = next((it for it in held if choice.revision in (it.commit, *it.revisions)), None)
    if found is None:
        return msgspec.structs.replace(situation, cached=False)
    named = (str(choice.repository), str(choice.revision), found.commit, found.path)
    build = judge_cached(asker, *named, server, gpus=gpus)
    return msgspec.structs.replace(situation, build=build, build_error=None, cached=found.whole)


def _indices(situation: Situation) -> list[int] | None:
    """Return the numbers of the GPUs that builds are judged for; None for all."""
    gpus = situation.gpus
    return None if gpus == situation.server.gpus else [gpu.index for gpu in gpus if gpu.index is not None]


def _with_trust(situation: Situation, hub: Hub, repository: str) -> Situation:
    """Return the situation with the Hub's word on the kernel's owner; a folder of this machine is not asked about."""
    if situation.build and situation.build.source == "local":
        return situation
    try:
        return msgspec.structs.replace(situation, trusted=hub.is_trusted(repository.partition("/")[0], keep=60))
    except HubError as error:
        return _not_asked(situation, "trust", str(error))


def _not_asked(situation: Situation, what: str, reason: str) -> Situation:
    return msgspec.structs.replace(situation, unknown={**situation.unknown, what: reason})


def _similar(hub: Hub, repository: str) -> str | None:
    """Return a kernel of the same owner, else one of the community, whose name is near to one that is not there."""
    with contextlib.suppress(HubError):
        found = hub.list_kernels(repository.partition("/")[0]) or hub.list_kernels()
        return nearest(repository, [kernel.id for kernel in found])
    return None


def what_will_run(situation: Situation) -> WillRun:
    """Return what a situation's run will really use: its attention with the kernel behind it, dtype, packages."""
    choice, build = situation.attention, situation.build
    return WillRun(
        trainer=situation.plan.trainer,
        model=situation.settings.get("model_name_or_path"),
        attention=Attention(
            asked=choice.asked,
            implementation=choice.implementation,
            repository=choice.repository,
            revision=choice.revision,
            commit=build.commit if build else None,
            content_hash=build.content_hash if build else None,
            variant=build.variant if build else None,
            reason=choice.reason,
        ),
        dtype=situation.settings.dtype,
        memory=memory_of(situation),
        packages={name: package.version for name, package in situation.server.packages.items()},
    )

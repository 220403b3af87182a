"""Find out what a plan needs and judge it: the facts, the findings, and what will really run."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from kerneltui.advice import rules
from kerneltui.advice.finding import Finding
from kerneltui.advice.situation import Situation
from kerneltui.errors import HubError, KerneltuiError, UsageError
from kerneltui.facts.attention import AttentionChoice, resolve_attention
from kerneltui.facts.builds import judge, judge_repository
from kerneltui.facts.dataset import check_local_data
from kerneltui.facts.hub import Hub
from kerneltui.facts.model import ModelFacts, read_model
from kerneltui.facts.packages import kernels_usable
from kerneltui.facts.server import Server
from kerneltui.interpreter import Asker, ProgressCallback
from kerneltui.plan.plan import Plan
from kerneltui.plan.settings import Settings, read_settings
from kerneltui.records import Document, Record
from kerneltui.text import did_you_mean


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
    """What a launch would start."""

    trainer: str
    model: str | None
    attention: Attention
    dtype: str | None
    packages: dict[str, str]


class Assessment(Document):
    """A plan judged: `check --json` prints it."""

    findings: tuple[Finding, ...]
    will_run: WillRun

    @property
    def blocked(self) -> bool:
        """Whether a finding says that the run will fail or silently train the wrong thing."""
        return any(finding.severity == "block" for finding in self.findings)


def find_out(
    plan: Plan, server: Server, asker: Asker, hub: Hub, *, on_progress: ProgressCallback | None = None
) -> Situation:
    """Return all that can be found out about `plan` on `server`.

    Raises UsageError for what the person must correct first (an unknown trainer, a file that is not there).
    """
    tell = on_progress or (lambda text: None)
    trainers = server.libraries.trainers if server.libraries else ()
    if trainers and plan.trainer not in trainers:
        raise UsageError(
            f"TRL has no trainer {plan.trainer!r}",
            f"The installed one has {', '.join(trainers)}.",
            did_you_mean(plan.trainer, trainers).capitalize() or "Choose one of them.",
        )
    tell("asking TRL about the configuration")
    settings = read_settings(plan, asker, processes=_processes(plan))
    check_local_data(settings.values, Path(plan.cwd))
    tell("reading the model's configuration")
    model, unknown = _model(plan, settings, asker)
    libraries = server.libraries
    # What the run will see: LOCAL_KERNELS and HF_HUB_OFFLINE may come with the plan.
    server = msgspec.structs.replace(server, environment={**server.environment, **plan.launch.environment})
    attention = (
        resolve_attention(settings.attention, libraries, model, kernels_usable(server))
        if libraries
        else AttentionChoice(asked=settings.attention, implementation=settings.attention or "sdpa", kind="unknown")
    )
    situation = Situation(
        plan=plan,
        settings=settings,
        server=server,
        attention=attention,
        model=model,
        processes=int(_processes(plan) or settings.accelerate.get("num_processes") or 1),
        unknown=unknown,
    )
    if attention.kind != "kernel":
        return situation
    tell(f"asking the Hub about {attention.repository}")
    return _with_kernel(situation, asker, hub)


def assess(situation: Situation) -> Assessment:
    """Return the findings on a situation, blocks first, and what will run."""
    return Assessment(findings=rules.judge(situation), will_run=_will_run(situation))


def _processes(plan: Plan) -> int | None:
    return len(plan.launch.gpus) if plan.launch.gpus else None


def _model(plan: Plan, settings: Settings, asker: Asker) -> tuple[ModelFacts | None, dict[str, str]]:
    path = settings.get("model_name_or_path")
    if not path:
        return None, {"model": "no model_name_or_path is given"}
    revision = settings.model_kwargs.get("revision", settings.get("model_revision"))
    try:
        model = read_model(
            asker,
            path,
            Path(plan.cwd),
            revision=None if revision == "main" else revision,
            trust_remote_code=bool(settings.get("trust_remote_code")),
        )
    except UsageError:
        raise
    except KerneltuiError as error:
        return None, {"model": "\n".join(part for part in (error.title, error.message, error.hint) if part)}
    return model, {}


def _with_kernel(situation: Situation, asker: Asker, hub: Hub) -> Situation:
    """Return the situation with what the Hub says of the chosen kernel; other revisions only where they are wanted."""
    choice, server = situation.attention, situation.server
    assert choice.repository and choice.revision
    gpus = situation.plan.launch.gpus
    try:
        build = judge(asker, hub, choice.repository, choice.revision, server, gpus=gpus)
        trusted = None if build.source == "local" else hub.is_trusted(choice.repository.partition("/")[0])
    except HubError as error:
        return msgspec.structs.replace(situation, build_error=(error.kind, str(error)))
    situation = msgspec.structs.replace(situation, build=build, trusted=trusted)
    if build.source == "hub" and rules.wants_alternatives(rules.judge(situation)):
        with contextlib.suppress(HubError):
            alternatives = judge_repository(asker, hub, choice.repository, server)
            situation = msgspec.structs.replace(situation, alternatives=tuple(alternatives))
    return situation


def _will_run(situation: Situation) -> WillRun:
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
        packages={name: package.version for name, package in situation.server.packages.items()},
    )

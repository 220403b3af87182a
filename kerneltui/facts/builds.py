"""One revision of a kernel repository judged for a server: the build that kernels would load, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kerneltui.errors import HubError, UsageError, WorkerError
from kerneltui.facts.hub import Hub
from kerneltui.facts.kernel_records import KernelBuild, KernelMetadata, KernelSignature, VariantDecision
from kerneltui.facts.packages import read_version
from kerneltui.facts.server import Server, Torch
from kerneltui.interpreter import Asker
from kerneltui.records import from_builtins

# As kernels writes them in a variant's name (kernels.variants.resolve_variants).
_MACHINES = {("darwin", "arm64"): "aarch64", ("windows", "amd64"): "x86_64"}

# For how many seconds it holds which commit a branch points to: one check asks for it more than once.
_MOMENT = 60
# For so many seconds sigstore's keys are waited for.
_SIGSTORE = 30


def judge(
    asker: Asker,
    hub: Hub,
    repo: str,
    revision: str,
    server: Server,
    *,
    gpus: Sequence[int] | None = None,
    elsewhere: bool = False,
) -> KernelBuild:
    """Return what kernels would load from `repo` at `revision` (branch, tag or commit) on `server`.

    The decisions, the order and the reasons are those of the kernels package in the asker's interpreter;
    LOCAL_KERNELS in the server's environment comes before the Hub. `gpus` (CUDA indices) are those to train
    on; None means all that the server has. `elsewhere` tells that the server is another machine: its
    LOCAL_KERNELS cannot be read here, and packages that a build needs are looked for in its report.
    Raises HubError, WorkerError, or UsageError (a repository name or LOCAL_KERNELS of no use).
    """
    path = None if elsewhere else local_kernels(server.environment).get(repo)
    if path is not None:
        return _judge_local(asker, repo, revision, path, server, _capabilities(server, gpus))
    commit = hub.commit_of(repo, revision, keep=_MOMENT)
    return judge_commit(asker, hub, repo, revision, commit, server, gpus=gpus, elsewhere=elsewhere)


def judge_commit(
    asker: Asker,
    hub: Hub,
    repo: str,
    revision: str,
    commit: str,
    server: Server,
    *,
    gpus: Sequence[int] | None = None,
    elsewhere: bool = False,
    metadata: bool = True,
) -> KernelBuild:
    """Return `judge` of a revision whose commit is known: one request, and one for the build's metadata.

    Without `metadata` that is not asked for; what was kept of it is taken.
    """
    system = system_values(server)
    answer = asker.ask("kernels.variants", names=hub.variants(repo, commit, called=revision), system=system)
    decisions = _decisions(answer)
    chosen = decisions[0].variant if decisions and decisions[0].accepted else None
    build = KernelBuild(repository=repo, revision=revision, commit=commit, decisions=decisions, variant=chosen)
    question = _Question(server, _capabilities(server, gpus), elsewhere)
    return _with_metadata(asker, hub if metadata else hub.kept(), build, question) if chosen else build


def system_values(server: Server) -> dict[str, Any]:
    """Return the system as the asker's questions want it; see `worker.kernels_adapter.variants`."""
    system = server.system.lower()
    machine = server.machine.lower()
    tvm_ffi = server.libraries.tvm_ffi if server.libraries else None
    return {
        "backend": _backend(server.torch, system),
        "machine": _MACHINES.get((system, machine), machine),
        "os": system,
        "torch": _major_minor(server.torch.version) if server.torch else None,
        "cxx11_abi": server.torch.cxx11_abi if server.torch and system == "linux" else None,
        "tvm_ffi": _major_minor(tvm_ffi) if tvm_ffi else None,
    }


def local_kernels(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the path of each repository that LOCAL_KERNELS names (`repo=path[:repo=path …]`).

    Raises UsageError where it cannot be read.
    """
    value = environment.get("LOCAL_KERNELS")
    if value is None:
        return {}
    entries = [entry.partition("=") for entry in value.split(":")]
    broken = [repo for repo, equals, _ in entries if not equals]
    if broken:
        raise UsageError(
            "LOCAL_KERNELS cannot be read",
            f"{broken[0]!r} is not of the form repository=path; kernels then refuses to load any kernel.",
            "Write LOCAL_KERNELS=owner/name=/path (several with : between them), or unset it.",
        )
    return {repo: path for repo, _, path in entries}


def judge_repository(
    asker: Asker,
    hub: Hub,
    name: str,
    server: Server,
    *,
    gpus: Sequence[int] | None = None,
    elsewhere: bool = False,
) -> list[KernelBuild]:
    """Return what kernels would load from each branch and tag of a repository, or from the one in `REPO@REVISION`.

    `gpus`, `elsewhere` and what it raises are as in `judge`. A revision without a build/ folder is left out when others
    have one.
    """
    repo, _, revision = name.partition("@")
    if revision or (not elsewhere and repo in local_kernels(server.environment)):
        return [judge(asker, hub, repo, revision or "main", server, gpus=gpus, elsewhere=elsewhere)]
    revisions = hub.revisions(repo, keep=_MOMENT)
    listed = hub.builds_side_by_side([(repo, found.commit) for found in revisions])
    for names in listed.values():
        if isinstance(names, HubError) and names.kind != "no_build":
            raise names
    built = [found for found in revisions if not isinstance(listed[repo, found.commit], HubError)]
    if not built:
        built = revisions[:1]  # asked again by its name, which raises
    return [
        judge_commit(asker, hub, repo, found.name, found.commit, server, gpus=gpus, elsewhere=elsewhere)
        for found in built
    ]


class _Question(NamedTuple):
    """The machine that builds are judged for; see `judge`."""

    server: Server
    capabilities: Sequence[tuple[int, int] | None]
    elsewhere: bool


def _with_metadata(asker: Asker, hub: Hub, build: KernelBuild, question: _Question) -> KernelBuild:
    try:
        metadata = _metadata(asker, hub, build.repository, build.commit, str(build.variant), question)
    except HubError as error:
        if error.kind == "not_asked":
            return build
        raise
    return msgspec.structs.replace(build, metadata=metadata)


def _metadata(asker: Asker, hub: Hub, repo: str, commit: str, variant: str, question: _Question) -> KernelMetadata:
    """Return a variant's metadata; a file that is missing or unreadable is told in its `error`."""
    try:
        text = hub.metadata(repo, commit, variant).decode()
    except HubError as error:
        if error.kind != "no_metadata":
            raise
        return KernelMetadata(error="there is no metadata.json")
    except UnicodeDecodeError as error:
        return KernelMetadata(error=f"metadata.json is not UTF-8: {error}")
    fixed: dict[str, Any] = {"text": text, "variant": variant, "system": system_values(question.server)}
    if question.elsewhere:
        fixed["packages"] = sorted(question.server.packages)
    answers = [asker.ask("kernels.metadata", capability=it, **fixed) for it in question.capabilities]
    return _first_refused([_as_metadata(answer) for answer in answers])


def judge_cached(
    asker: Asker,
    repo: str,
    revision: str,
    commit: str,
    path: str,
    server: Server,
    *,
    gpus: Sequence[int] | None = None,
) -> KernelBuild:
    """Return what kernels would load offline of a commit that the cache holds at `path`; see `facts.cached`."""
    local = _judge_local(asker, repo, revision, path, server, _capabilities(server, gpus), digest=False)
    return msgspec.structs.replace(local, commit=commit, source="cache")


def read_signature(asker: Asker, folder: Path) -> KernelSignature:
    """Return what kernels' own verification says of a build's folder."""
    try:
        answer = asker.ask("kernels.signature", timeout=_SIGSTORE, path=str(folder))
    except WorkerError as error:
        return KernelSignature(state="unchecked", reason=error.message or error.title)
    return from_builtins(answer, KernelSignature, "the signature")


def _judge_local(
    asker: Asker,
    repo: str,
    revision: str,
    path: str,
    server: Server,
    capabilities: Sequence[tuple[int, int] | None],
    *,
    digest: bool = True,
) -> KernelBuild:
    fixed: dict[str, Any] = {"path": path, "system": system_values(server), "digest": digest}
    answers = [asker.ask("kernels.local", capability=capability, **fixed) for capability in capabilities]
    first = answers[0]
    metadata = [_as_metadata(answer["metadata"]) for answer in answers if answer["metadata"]]
    return KernelBuild(
        repository=repo,
        revision=revision,
        commit="local",
        decisions=_decisions(first["variants"]),
        variant=first["variant"],
        metadata=_first_refused(metadata) if metadata else None,
        source="local",
        content_hash=first["content_hash"],
    )


def _decisions(answer: list[dict[str, Any]]) -> tuple[VariantDecision, ...]:
    return tuple(VariantDecision(variant=it["variant"], reason=it["reason"]) for it in answer)


def _as_metadata(answer: dict[str, Any]) -> KernelMetadata:
    return from_builtins(answer, KernelMetadata, "the asker's answer about metadata.json")


def _first_refused(answers: list[KernelMetadata]) -> KernelMetadata:
    """Return the answer for the first GPU that the build does not support, or any when it supports all."""
    return next((answer for answer in answers if answer.arch_error), answers[0])


def _capabilities(server: Server, gpus: Sequence[int] | None) -> list[tuple[int, int] | None]:
    """Return the distinct compute capabilities, or [None] where torch sees no GPU and kernels checks none."""
    if not server.torch or not server.torch.cuda or not server.torch.device_count:
        return [None]
    chosen = [gpu for gpu in server.gpus if gpus is None or gpu.index in gpus]
    found = dict.fromkeys(gpu.capability for gpu in chosen if gpu.capability)
    return list(found) or [None]


def _backend(torch: Torch | None, system: str) -> str:
    """Return the backend of the torch build in kernels' spelling; source: `kernels.backends._backend`.

    Not told apart here: Neuron, TPU and CANN, which have no build among those that train with TRL.
    """
    if torch and torch.cuda:
        return "cu" + _major_minor(torch.cuda).replace(".", "")
    if torch and torch.hip:
        return "rocm" + _major_minor(torch.hip.split("-")[0]).replace(".", "")
    if torch and torch.xpu:  # 20250301 is 2025.3
        return f"xpu{torch.xpu[0:4]}{torch.xpu[5:6]}"
    return "metal" if torch and system == "darwin" else "cpu"


def _major_minor(version: str) -> str:
    """Return "2.13" for "2.13.0+cpu"; a version that cannot be read stays as it is."""
    read = read_version(version)
    return f"{read.major}.{read.minor}" if read else version

"""The verdict on one build of a kernel, whatever the plan: separate answers, and what they come to.

What a plan decides (its model, its GPUs, whether it allows other publishers) is for the rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from kerneltui.advice import known
from kerneltui.advice.catalogue import KnownKernel, catalogue, role_of
from kerneltui.advice.loading import cpu_backward, installed_kernels, platform_name, refusal
from kerneltui.errors import HubError
from kerneltui.facts.kernel_records import KernelBuild, KernelSignature
from kerneltui.facts.server import Server
from kerneltui.records import Record

AnswerKind = Literal["ready", "care", "refused", "unknown"]
Subject = Literal[
    "variant", "metadata", "packages", "gpu", "training", "device", "known", "trust", "cache", "signature"
]

_ORDER: tuple[AnswerKind, ...] = ("refused", "care", "ready", "unknown")

_SIGNATURES: dict[str, tuple[AnswerKind, str]] = {
    "signed": ("ready", "kernels' own verification holds: signed by a builder that it knows, and nothing was changed"),
    "unsigned": ("unknown", "this build carries no signature"),
    "invalid": ("care", "kernels' own verification fails; it loads all the same"),
    "unchecked": ("unknown", "this build is signed, but that could not be checked"),
}


class Answer(Record):
    """One answer about a build: its subject, what it comes to, and words for it; `source` where it can be read."""

    subject: Subject
    kind: AnswerKind
    text: str
    source: str | None = None


class KernelVerdict(Record):
    """What the answers on a build come to, and the first of the worst of them as the reason in one line.

    "refused" does not load here, or cannot be trained with; "care" loads, but something is known or missing; "unknown"
    tells that nobody could be asked about its builds. `answers` are in the order of loading.
    """

    kind: AnswerKind
    reason: str
    answers: tuple[Answer, ...] = ()

    def answer(self, subject: Subject) -> Answer | None:
        """Return the answer on a subject."""
        return next((answer for answer in self.answers if answer.subject == subject), None)


def kernel_verdict(build: KernelBuild, server: Server, *, trusted: bool | None = None) -> KernelVerdict:
    """Return the verdict on a judged build; `trusted` is whether the Hub trusts its publisher, None: not asked."""
    return _verdict(tuple(_answers(build, server, trusted)))


def with_answer(verdict: KernelVerdict, answer: Answer) -> KernelVerdict:
    """Return a verdict with one more answer."""
    return _verdict((*verdict.answers, answer))


def signature_answer(signature: KernelSignature) -> Answer:
    """Return what a signature comes to; kernels loads a build whatever that is."""
    kind, text = _SIGNATURES[signature.state]
    reason = f": {signature.reason}" if signature.reason else ""
    return Answer(subject="signature", kind=kind, text=f"{text}{reason}")


def no_verdict(error: HubError) -> KernelVerdict:
    """Return the verdict where the Hub did not tell of builds: there is none, or nobody could be asked."""
    refused = error.kind in ("no_build", "no_revision", "not_found", "gated")
    kind: AnswerKind = "refused" if refused else "unknown"
    answer = Answer(subject="variant", kind=kind, text=error.title)
    return KernelVerdict(kind=kind, reason=error.title, answers=(answer,))


def _verdict(answers: tuple[Answer, ...]) -> KernelVerdict:
    kind = next(kind for kind in _ORDER if any(answer.kind == kind for answer in answers))
    reason = next(answer.text for answer in answers if answer.kind == kind)
    return KernelVerdict(kind=kind, reason=reason, answers=answers)


def _answers(build: KernelBuild, server: Server, trusted: bool | None) -> Iterator[Answer]:
    if build.variant is None:
        yield Answer(subject="variant", kind="refused", text=f"no build for {platform_name(server)}")
    else:
        yield Answer(subject="variant", kind="ready", text=build.variant)
        yield _metadata(build, server)
        yield from _packages(build)
        yield from _gpu(build, server)
    if build.source != "local":
        yield from _training(build, server)
        yield from _device(build, server)
        yield from _trust(build.repository.partition("/")[0], trusted)


def _metadata(build: KernelBuild, server: Server) -> Answer:
    """Say what metadata.json keeps from loading; one that cannot be read is not the same as no build."""
    metadata = build.metadata
    if metadata is None:
        return Answer(subject="metadata", kind="unknown", text="its metadata.json was not read yet")
    if metadata.error:
        first = metadata.error.splitlines()[0]
        return Answer(subject="metadata", kind="refused", text=f"its metadata.json cannot be read: {first}")
    if reason := refusal(metadata, installed_kernels(server)):
        return Answer(subject="metadata", kind="refused", text=reason)
    needs = f", for kernels {metadata.kernels_minimum} or newer" if metadata.kernels_minimum else ""
    return Answer(subject="metadata", kind="ready", text=f"metadata.json of version {metadata.version}{needs}")


def _packages(build: KernelBuild) -> Iterator[Answer]:
    metadata = build.metadata
    if metadata is None or metadata.error or not metadata.python_depends:
        return
    missing = metadata.missing_depends
    if missing:
        text = f"it needs Python packages that are not installed: pip install {' '.join(missing)}"
        yield Answer(subject="packages", kind="care", text=text)
    else:
        yield Answer(subject="packages", kind="ready", text=f"has {', '.join(metadata.python_depends)}")


def _gpu(build: KernelBuild, server: Server) -> Iterator[Answer]:
    metadata = build.metadata
    if metadata is None or metadata.error or not metadata.archs:
        return
    archs = ", ".join(metadata.archs)
    if metadata.arch_error:
        yield Answer(subject="gpu", kind="refused", text=metadata.arch_error)
    elif server.torch and server.torch.device_count:
        yield Answer(subject="gpu", kind="ready", text=f"compiled for {archs}")
    else:
        yield Answer(subject="gpu", kind="unknown", text=f"compiled for {archs}; torch sees no GPU to hold it against")


def _training(build: KernelBuild, server: Server) -> Iterator[Answer]:
    """Say what is known of training: whether there is a backward, and which reports there are about it."""
    found = catalogue().get(build.repository)
    source = found.source if found else None
    role = role_of(build.repository)
    if role != "attention":
        text = f"it is for {role}, not for attention" if role else "nothing is known of what it is for"
        yield Answer(subject="training", kind="ready", text=text, source=source)
    elif found is None or found.backward is None:
        kind: AnswerKind = "refused" if found and found.unfit else "care"
        text = (
            str(found.unfit) if found and found.unfit else "nothing is known of its backward: try it before a long run"
        )
        yield Answer(subject="training", kind=kind, text=text, source=source)
    else:
        yield _backward(build, server, found)
    yield from _reports(build, found)


def _backward(build: KernelBuild, server: Server, found: KnownKernel) -> Answer:
    kind, text = _known_backward(build, server, found)
    return Answer(subject="training", kind=kind, text=text, source=f"{found.source} ({found.files}), {found.date}")


def _known_backward(build: KernelBuild, server: Server, found: KnownKernel) -> tuple[AnswerKind, str]:
    if found.unfit:
        return "refused", f"not for training: {found.unfit}"
    if cpu := cpu_backward(build):
        text = "its CPU build has no backward" if cpu == "block" else "nothing is known of its backward on the CPU"
        return ("refused" if cpu == "block" else "care"), text
    old = [gpu.capability for gpu in server.gpus if gpu.capability and gpu.capability[0] == 8]
    if build.repository == known.FLASH_ATTENTION_4 and old:
        return "refused", f"it has no backward on compute capability {old[0][0]}.{old[0][1]}"
    return "ready", "has a backward" + (f": {found.backward_note}" if found.backward_note else "")


def _reports(build: KernelBuild, found: KnownKernel | None) -> Iterator[Answer]:
    if found and found.beta:
        yield Answer(subject="known", kind="care", text="it is a beta: version 0 promises no API", source=found.source)
    if build.repository != known.FLASH_ATTENTION_2 or build.variant is None:
        return
    grouped = known.grouped_backward(build.revision, build, None)
    if grouped in ("broken", "unproven"):
        broken = "its backward fails for models whose query heads share a key/value head (GQA)"
        unproven = "its backward is unproven for models whose query heads share a key/value head (GQA)"
        newer = (known.major_version(build.revision, build) or 0) > 3
        kind: AnswerKind = "ready" if grouped == "unproven" and newer else "care"
        text = broken if grouped == "broken" else unproven
        yield Answer(subject="known", kind=kind, text=text, source=known.GROUPED_BACKWARD_ISSUE)


def _device(build: KernelBuild, server: Server) -> Iterator[Answer]:
    """Say where transformers expects a kernel to run, by its own table."""
    devices = server.libraries.attention_devices.get(build.repository) if server.libraries else None
    if not devices or build.variant is None or server.torch is None:
        return
    torch = server.torch
    here = "cuda" if torch.cuda else "rocm" if torch.hip else "xpu" if torch.xpu else "cpu"
    here = "mps" if re.search(r"-metal(-|$)", build.variant) else here
    fits = here in devices
    text = f"transformers expects it on {', '.join(devices)}" + ("" if fits else f"; this torch is for {here}")
    yield Answer(subject="device", kind="ready" if fits else "care", text=text)


def _trust(owner: str, trusted: bool | None) -> Iterator[Answer]:
    if trusted is None:
        yield Answer(subject="trust", kind="unknown", text=f"whether the Hub trusts {owner} was not asked")
    elif trusted:
        yield Answer(subject="trust", kind="ready", text=f"{owner} is a publisher that the Hub trusts")
    else:
        text = f"{owner} is not a publisher that the Hub trusts: its code runs only where you allow it"
        yield Answer(subject="trust", kind="care", text=text)

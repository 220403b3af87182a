"""A server that is another machine: who answered for it here, and what was not asked."""

from __future__ import annotations

from collections.abc import Callable

from kerneltui.advice.finding import Finding
from kerneltui.advice.situation import Situation

# What each package of this machine answers for a server that is only known by its report.
_ANSWERED = {
    "trl": "read the configuration",
    "transformers": "read the model and its class",
    "kernels": "judged the builds",
}


def other_versions(situation: Situation) -> list[Finding]:
    """What the packages of this machine say of a plan need not hold for other versions of them."""
    if not situation.differing:
        return []
    pairs = ", ".join(f"{name} {there} there and {here} here" for name, (there, here) in situation.differing.items())
    return [
        Finding(
            id="elsewhere.versions",
            severity="warn",
            title=f"The server has other versions than this machine: {pairs}",
            why="\n".join(
                [
                    *(
                        f"{name} {here} {_ANSWERED[name]}; what {there} says of that was not asked."
                        for name, (there, here) in situation.differing.items()
                        if name in _ANSWERED
                    ),
                    "Names of attention, their stand-ins and the range of kernels are those of the report. To have all "
                    "answers from the same versions, run check on that server, or name an interpreter that has them "
                    "with --python.",
                ]
            ),
            origin="asked",
            source="the server report, and the packages of this machine",
        )
    ]


def local_kernel_there(situation: Situation) -> list[Finding]:
    """A folder that LOCAL_KERNELS names on another machine cannot be read here."""
    path = situation.unknown.get("local_kernel")
    if path is None:
        return []
    return [
        Finding(
            id="elsewhere.local_kernel",
            severity="note",
            title=f"{situation.attention.repository} comes from a folder on that server, which was not asked",
            why=f"LOCAL_KERNELS names {path} there. Whether it holds a build that fits is not known here.",
            origin="asked",
            source="LOCAL_KERNELS in the server report or in the plan",
        )
    ]


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (other_versions, local_kernel_there)

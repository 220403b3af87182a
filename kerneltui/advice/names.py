"""Names that transformers cannot read as an attention implementation."""

from __future__ import annotations

import re
from collections.abc import Callable

from kerneltui.advice.finding import Finding, Fix
from kerneltui.advice.fixes import native_attention, use_attention, use_native
from kerneltui.advice.situation import Situation
from kerneltui.text import did_you_mean, nearest

_REVISION = re.compile(r"(?P<repository>[^/:@]+/[^/:@]+)@(?P<revision>[^@]*[/:][^@]*)")


def revision_grammar(situation: Situation) -> list[Finding]:
    """A revision that holds a slash or a colon cannot be written in `attn_implementation`."""
    asked = str(situation.attention.asked)
    found = _REVISION.fullmatch(asked)
    if situation.attention.kind != "unknown" or found is None:
        return []
    repository, revision = found["repository"], found["revision"]
    short = re.sub(r"^refs/(heads|tags)/", "", revision)
    writable = not re.search("[/:]", short)
    return [
        Finding(
            id="attention.revision",
            severity="block",
            title=f"A revision cannot hold / or :, so {asked} cannot be read",
            why="transformers reads repository@revision, or repository@revision:function. "
            "Write the name of the branch or tag, or the whole commit (40 hexadecimal digits).",
            origin="asked",
            source=situation.cite("transformers", "integrations.hub_kernels.is_kernel"),
            fixes=(use_attention(situation, f"{repository}@{short}", "Write its name alone"),) if writable else (),
        )
    ]


def unknown_name(situation: Situation) -> list[Finding]:
    """A name that is neither built in nor a kernel's is refused before the weights are read."""
    libraries, choice = situation.server.libraries, situation.attention
    names = libraries.attention_names if libraries else ()
    known = not names or choice.implementation in names or choice.implementation in libraries_flash(situation)
    if choice.kind != "unknown" or choice.asked is None or known or _REVISION.fullmatch(choice.asked):
        return []
    close = nearest(choice.asked, names)
    return [
        Finding(
            id="attention.unknown",
            severity="block",
            title=f"transformers knows no attention named {choice.asked!r}",
            why=f"It knows {', '.join(names)}, and kernels as owner/name or owner/name@revision. "
            + did_you_mean(choice.asked, names),
            origin="asked",
            source=situation.cite("transformers", "PreTrainedModel.get_correct_attn_implementation"),
            fixes=(
                *((use_attention(situation, close, "Take the nearest name"),) if close else ()),
                *_other_native(situation, close),
            ),
        )
    ]


def libraries_flash(situation: Situation) -> tuple[str, ...]:
    """Return the native flash names of the installed transformers; what they need is judged with the packages."""
    libraries = situation.server.libraries
    return tuple(libraries.flash_packages) if libraries else ()


def _other_native(situation: Situation, close: str | None) -> tuple[Fix, ...]:
    return () if close == native_attention(situation) else (use_native(situation),)


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (revision_grammar, unknown_name)

"""Where a kernel comes from: whether the Hub could be asked about it, who publishes it, and LOCAL_KERNELS."""

from __future__ import annotations

from collections.abc import Callable

from kerneltui.advice import known
from kerneltui.advice.finding import Finding, Fix, Severity
from kerneltui.advice.fixes import add_model_options, use_attention, use_native
from kerneltui.advice.revisions import other_revisions
from kerneltui.advice.situation import Situation

# The Hub's refusals with which loading fails as well; after the others it may still work.
_CERTAIN = ("not_found", "no_revision", "no_build", "no_metadata", "gated", "bad_token")
# Those with which it fails on the machine that has them: kernels asks the Hub about the publisher before it loads even
# a cached kernel (kernels 0.17.2: hf_hub._check_trust_remote_code).
_NO_ANSWER = ("unreachable", "unavailable", "rate_limited", "garbage")
_REFUSED = "Until the Hub answers, kernels loads nothing, not even from the cache, so training would fail."
_CHECK_SKIPPED = {"offline": "While HF_HUB_OFFLINE is set, a kernel loads only if the cache holds it whole."}

# transformers.utils.import_utils.ENV_VARS_TRUE_VALUES
_TRUE = ("1", "ON", "YES", "TRUE")
_FETCH = "`kerneltui fetch` in the place of `launch` brings it, while the Hub can be asked."


def hub_refused(situation: Situation) -> list[Finding]:
    """What the Hub said instead of telling about the kernel."""
    if situation.build_error is None or situation.build is not None or situation.cached is not None:
        return []
    kind, message = situation.build_error
    title, _, rest = message.partition("\n")
    fails_here = kind in _NO_ANSWER and not situation.elsewhere
    severity: Severity = "block" if kind in _CERTAIN or fails_here else "warn"
    unsure = "Builds and branches were not asked for, so nothing is known of them."
    why = [rest, _REFUSED if fails_here else "", unsure if severity == "warn" else "", _CHECK_SKIPPED.get(kind, "")]
    return [
        Finding(
            id=f"source.{kind}",
            severity=severity,
            title=title,
            why="\n".join(part for part in why if part),
            origin="asked",
            source=f"the Hub's answer about {situation.attention.repository}@{situation.attention.revision}",
            fixes=(*_renamed(situation, kind), *other_revisions(situation)) if severity == "block" else (),
        )
    ]


def offline_run(situation: Situation) -> list[Finding]:
    """A run that does not ask the Hub loads a kernel only if the cache holds it whole."""
    known = situation.build is not None or situation.cached is not None
    if not known or _local(situation) or not situation.offline or situation.cached:
        return []
    choice = situation.attention
    missing = situation.cached is False
    name = f"{choice.repository}@{choice.revision}"
    return [
        Finding(
            id="source.not_cached" if missing else "source.offline_run",
            severity="block" if missing else "warn",
            title=f"The run does not ask the Hub, and the cache does not hold {name} whole"
            if missing
            else f"The run does not ask the Hub, so {choice.repository} must lie whole in its cache",
            why=f"{_CHECK_SKIPPED['offline']} " + (_FETCH if missing else "That cache cannot be looked at from here."),
            origin="asked" if missing else "known",
            source=situation.cite("huggingface_hub", "constants.HF_HUB_OFFLINE"),
            fixes=(use_native(situation),) if missing else (),
        )
    ]


def trust_not_asked(situation: Situation) -> list[Finding]:
    """The Hub may tell about a kernel, and fail to tell whether it trusts its publisher."""
    reason = situation.unknown.get("trust")
    if reason is None or situation.trusted is not None or situation.offline:
        return []
    return [
        Finding(
            id="source.trust_not_asked",
            severity="note",
            title=f"Whether the Hub trusts {_owner(situation)} as a publisher could not be asked",
            why=f"{reason}\nkernels asks the same before it loads, and loads nothing without an answer.",
            origin="asked",
            source=situation.cite("kernels", "hf_hub._check_trust_remote_code"),
        )
    ]


def untrusted(situation: Situation) -> list[Finding]:
    """Kernels are native code: kernels loads them from publishers that the Hub trusts, or where one allows all."""
    choice = situation.attention
    if situation.trusted is not False or choice.kind != "kernel" or _local(situation) or situation.offline:
        return []
    # The authors of a model class vouch for the kernels that it names.
    if situation.model and choice.implementation in (situation.model.compatible_flash or ()):
        return []
    owner = _owner(situation)
    allowed = bool(situation.settings.model_kwargs.get("allow_all_kernels"))
    trust = add_model_options(situation, f"Trust {owner}: run its native code", allow_all_kernels=True)
    return [
        Finding(
            id="source.untrusted",
            severity="note" if allowed else "block",
            title=f"{owner} is not a publisher that the Hub trusts",
            why="A kernel is native code that runs with all your rights. kernels refuses those of other publishers"
            + (", but allow_all_kernels is set." if allowed else " unless allow_all_kernels is set."),
            origin="asked",
            source="https://github.com/huggingface/kernels/issues/508",
            fixes=() if allowed else (use_native(situation), trust),
        )
    ]


def local_kernel(situation: Situation) -> list[Finding]:
    """LOCAL_KERNELS gives one content for a repository, whatever revision is asked for."""
    build = situation.build
    if build is None or build.source != "local":
        return []
    named = situation.attention.pinned
    return [
        Finding(
            id="source.local",
            severity="note",
            title=f"{build.repository} comes from a folder on this server (LOCAL_KERNELS)",
            why=(f"The revision {build.revision} is ignored. " if named else "")
            + "What the folder holds is loaded, and the record names the hash of its content instead of a commit.",
            origin="asked",
            source=situation.cite("kernels", "LOCAL_KERNELS"),
        )
    ]


def hub_kernels_off(situation: Situation) -> list[Finding]:
    """USE_HUB_KERNELS turns off kernels for layers, not those for attention."""
    value = situation.environment.get("USE_HUB_KERNELS")
    asked = situation.attention.kind == "kernel"
    if value is None or value.upper() in _TRUE or not asked:
        return []
    return [
        Finding(
            id="source.hub_kernels_off",
            severity="note",
            title=f"USE_HUB_KERNELS={value} does not keep attention from taking its kernel from the Hub",
            why="transformers looks at it for kernels of layers alone; a kernel for attention is loaded all the same.",
            origin="known",
            source=situation.cite("transformers", "integrations.hub_kernels (_kernels_enabled)"),
            fixes=(use_native(situation),),
        )
    ]


def _renamed(situation: Situation, kind: str) -> tuple[Fix, ...]:
    if kind != "not_found":
        return ()
    if new := known.RENAMED.get(situation.attention.repository or ""):
        return (use_attention(situation, new, "Take its name today"),)
    return (use_attention(situation, situation.similar, "Take the nearest name"),) if situation.similar else ()


def _owner(situation: Situation) -> str:
    return str(situation.attention.repository).partition("/")[0]


def _local(situation: Situation) -> bool:
    return situation.build is not None and situation.build.source == "local"


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (
    hub_refused,
    offline_run,
    trust_not_asked,
    untrusted,
    local_kernel,
    hub_kernels_off,
)

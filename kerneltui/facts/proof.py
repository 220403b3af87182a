"""The proof of a plan: what was tried of it on this machine before launch, and what came of it."""

from __future__ import annotations

from typing import Any, Literal

from kerneltui.records import Document, Record
from kerneltui.text import now

Outcome = Literal["passed", "failed", "skipped"]

Ending = Literal["ok", "raised", "crashed", "exited", "hung", "out_of_memory", "illegal_access"]
"""How the process of a trial ended: to its end ("ok"; what failed there says its record), by an exception, by a
signal, by an exit of its own, by our time limit, for want of memory, or with a broken GPU context."""


class AttentionShape(Record):
    """One kind of attention that a model computes, as its layers call it.

    `head_dim` is that of queries and keys, `value_dim` that of values where it is another. `window` is in tokens,
    `scale` what the scores are multiplied by (None: 1/sqrt(head_dim)); `sinks` tells of a learned logit for each head.
    """

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int | None = None
    window: int | None = None
    softcap: float | None = None
    scale: float | None = None
    sinks: bool = False
    causal: bool = True


class Check(Record):
    """One thing that was tried, with its figures.

    `name` is what was looked at ("forward", "gradient.k", "borders", …), `case` on what input. `reason` says why it
    failed, or why it could not be tried; `only` names what it takes for the failure: what was put back to the plain one
    when it passed ("grouped heads", "odd length", "window", …).
    """

    name: str
    case: str
    outcome: Outcome
    reason: str | None = None
    only: tuple[str, ...] = ()
    figures: dict[str, float] = {}


class Speed(Record):
    """Milliseconds of one forward and one backward pass of an implementation; None with a `reason`."""

    implementation: str
    forward: float | None = None
    backward: float | None = None
    reason: str | None = None


class Trial(Record):
    """What every trial in a process of its own has: when, how long in seconds, and how its process ended.

    `ending` says more of the end ("signal 11", an exception's words), `at` what was being done then, `tail` has the
    last lines of the process's output where it did not end well.
    """

    time: str
    seconds: float
    ended: Ending = "ok"
    ending: str | None = None
    at: str | None = None
    tail: str | None = None


class Subject(Record, frozen=True, kw_only=True):
    """What a preflight is about; another commit, card, driver, torch or shape is another subject.

    `commit` and `variant` are those of a Hub kernel, `content_hash` that of a local one; a native name has none, and
    its code is that of the `packages`. `device` is the card's name, "cpu" without one. `length`, `batch` and `packed`
    are the plan's, for the measurement.
    """

    implementation: str
    repository: str | None = None
    commit: str | None = None
    variant: str | None = None
    content_hash: str | None = None
    device: str
    capability: tuple[int, int] | None = None
    driver: str | None = None
    packages: dict[str, str] = {}
    dtype: str
    shapes: tuple[AttentionShape, ...]
    length: int
    batch: int = 1
    packed: bool = False


class Preflight(Trial, frozen=True, kw_only=True):
    """The forward and backward pass of an attention implementation at a model's shapes.

    `load_seconds` is how long loading took once the kernel was on disk, imports among it; `loaded` are the Hub's
    kernels that the process had loaded, read back from it. `speed` has `subject.length` tokens a row. `cached` tells
    that it is not of today: `time` is when it was made.
    """

    subject: Subject
    checks: tuple[Check, ...] = ()
    speed: tuple[Speed, ...] = ()
    speed_case: str | None = None
    load_seconds: float | None = None
    loaded: tuple[dict[str, Any], ...] = ()
    cached: bool = False

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.outcome == "failed")

    @property
    def passed(self) -> bool:
        """Whether it came to its end, something was tried, and nothing failed."""
        return self.ended == "ok" and not self.failed and any(check.outcome == "passed" for check in self.checks)


class Raised(Record):
    """An exception of a trial; `field` is the plan's field and `row` the data's row that it points at, where it does.

    `trace` are the last frames, innermost last.
    """

    type: str
    message: str
    field: str | None = None
    row: int | None = None
    trace: tuple[str, ...] = ()


class Rehearsal(Trial, frozen=True, kw_only=True):
    """Some steps of the plan's own trainer on a shrunken model of its class, with random weights.

    `attention` is what the model used, read back from it; `losses` and `gradient_norms` one for each step, None where
    not finite. `processes` is how many took part, `planned` how many the plan starts. `changed` are the plan's fields
    that were set to another value, `untried` what of the plan was left out, in words.
    """

    device: str
    steps: int = 0
    model: str | None = None
    raised: Raised | None = None
    warnings: tuple[str, ...] = ()
    attention: str | None = None
    kernels: tuple[dict[str, Any], ...] = ()
    losses: tuple[float | None, ...] = ()
    gradient_norms: tuple[float | None, ...] = ()
    processes: int = 1
    planned: int = 1
    checks: tuple[Check, ...] = ()
    changed: dict[str, Any] = {}
    untried: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether it came to its end and no check failed."""
        return self.ended == "ok" and all(check.outcome != "failed" for check in self.checks)


class MeasuredMemory(Trial, frozen=True, kw_only=True):
    """One step at full shape with random weights: the allocator's peak on one GPU, in bytes.

    `peak` is what torch had allocated, `reserved` what it had taken of the card, `total` the card's memory.
    """

    device: str
    peak: int | None = None
    reserved: int | None = None
    total: int | None = None

    @property
    def passed(self) -> bool:
        """Whether the step came to its end."""
        return self.ended == "ok"


class Proof(Document):
    """`proof.json` of a run: what was tried before its launch; `unmade` says of each part that was not why not."""

    time: str
    preflight: Preflight | None = None
    rehearsal: Rehearsal | None = None
    memory: MeasuredMemory | None = None
    unmade: dict[str, str] = {}

    @property
    def parts(self) -> tuple[Preflight | Rehearsal | MeasuredMemory, ...]:
        """The parts that were made."""
        return tuple(part for part in (self.preflight, self.rehearsal, self.memory) if part is not None)

    @property
    def failed(self) -> bool:
        """Whether a part that was made failed: it blocks a launch."""
        return not all(part.passed for part in self.parts)

    @property
    def passed(self) -> bool:
        """Whether something was tried, and all of it passed."""
        return bool(self.parts) and not self.failed


def no_proof(reason: str) -> Proof:
    """Return the record of a launch without a proof, which says of each part why there is none."""
    return Proof(time=now(), unmade=dict.fromkeys(("preflight", "rehearsal", "memory"), reason))

"""The proof of a plan: its parts, one after the other, each with its progress, and why one was not made."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from kerneltui.advice.situation import Situation
from kerneltui.errors import KerneltuiError
from kerneltui.facts.hub import Hub
from kerneltui.facts.proof import Proof
from kerneltui.fetch import fetch, gigabytes, needed
from kerneltui.interpreter import Asker, ProgressCallback
from kerneltui.prove.memory import Measuring
from kerneltui.prove.preflight import Preflighting
from kerneltui.prove.rehearsal import Rehearsing
from kerneltui.text import now

Part = Literal["preflight", "rehearsal", "memory"]
PARTS: tuple[Part, ...] = ("preflight", "rehearsal")
"""The parts that are made where nothing else is asked, in their order."""

OnProgress = Callable[[Part, str], None]
OnProof = Callable[[Proof], None]


class _Trial(Protocol):
    def cancel(self) -> None: ...

    def run(self, on_progress: ProgressCallback | None = None) -> Any: ...


class Proving:
    """One proof. `cancel` may be called from any thread: what is being made is ended, and `run` raises.

    `again` makes anew what was kept of an earlier proof.
    """

    def __init__(
        self,
        situation: Situation,
        asker: Asker,
        hub: Hub,
        python: Path,
        *,
        parts: tuple[Part, ...] = PARTS,
        again: bool = False,
    ) -> None:
        self.situation = situation
        self._asker, self._hub, self._python = asker, hub, python
        self._parts, self._again = parts, again
        self._cancelled = threading.Event()
        self._trial: _Trial | None = None

    def cancel(self) -> None:
        """End what is being made."""
        self._cancelled.set()
        if trial := self._trial:
            trial.cancel()

    def run(self, on_progress: OnProgress | None = None, on_proof: OnProof | None = None) -> Proof:
        """Return the proof. `on_progress` gets what is being done for which part, `on_proof` the proof so far.

        Raises KerneltuiError where it was cancelled; what one part cannot do is in `Proof.unmade`.
        """
        tell, show = on_progress or (lambda part, text: None), on_proof or (lambda proof: None)
        proof = Proof(time=now())
        for part in self._parts:
            try:
                proof = msgspec.structs.replace(proof, **{part: self._make(part, tell)})
            except KerneltuiError as error:
                reason = ". ".join(filter(None, (error.title, error.message)))
                proof = msgspec.structs.replace(proof, unmade={**proof.unmade, part: reason})
            if self._cancelled.is_set():
                raise KerneltuiError("The proof was ended", "Nothing of it was kept.")
            show(proof)
        return proof

    def _make(self, part: Part, tell: OnProgress) -> Any:
        def progress(text: str) -> None:
            tell(part, text)

        if part == "preflight":
            self._fetch_kernel(progress)
        self._trial = self._trial_of(part)
        if self._cancelled.is_set():
            self._trial.cancel()
        return self._trial.run(progress)

    def _trial_of(self, part: Part) -> _Trial:
        if part == "rehearsal":
            return Rehearsing(self.situation, self._python, self._asker)
        if part == "memory":
            return Measuring(self.situation, self._python)
        return Preflighting(self.situation, self._python, again=self._again)

    def _fetch_kernel(self, tell: ProgressCallback) -> None:
        """Bring the kernel into the cache, so that its download is told and not counted as loading."""
        situation = self.situation
        on_hub = situation.attention.kind == "kernel" and situation.build and situation.build.source == "hub"
        if not on_hub or situation.offline or situation.build is None or situation.build.variant is None:
            return
        tell(f"asking the Hub about {situation.attention.repository}")
        kernels = [part for part in needed(situation, self._asker, self._hub) if part.kind == "kernel"]

        def show(part: Any, count: int) -> None:
            whole = f" of {gigabytes(part.size)}" if part.size else ""
            tell(f"fetching {part.name}: {gigabytes(count)}{whole}")

        fetch(kernels, situation, self._python, on_progress=show)

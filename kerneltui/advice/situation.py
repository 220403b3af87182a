"""All facts about one plan that the rules look at."""

from __future__ import annotations

from packaging.version import Version

from kerneltui.facts.attention import AttentionChoice
from kerneltui.facts.dataset import DatasetFacts
from kerneltui.facts.environment import is_offline
from kerneltui.facts.kernel_records import KernelBuild
from kerneltui.facts.model import ModelFacts
from kerneltui.facts.model_memory import ModelMemory
from kerneltui.facts.packages import cite, read_version
from kerneltui.facts.proof import Preflight, Rehearsal
from kerneltui.facts.server import Gpu, Server
from kerneltui.plan.construction import Construction
from kerneltui.plan.devices import chosen_gpus, count_devices
from kerneltui.plan.plan import Plan
from kerneltui.plan.settings import Settings
from kerneltui.records import Record


class Situation(Record):
    """One plan and what is known about it; what could not be found out is None, and `unknown` says why.

    `teacher` is the model that the trainer learns from, where it is another and could be read. `build` is what the Hub
    (or LOCAL_KERNELS) has for the chosen kernel; `build_error` the Hub's (kind, message) when
    it did not say. `alternatives` are other revisions of the same repository judged for the same server, newest
    first; `trusted` tells whether the Hub names the kernel's owner a trusted publisher; `similar` is a kernel on the
    Hub whose name is near to one that it lacks; `cached` whether the cache here holds the kernel whole, looked at only
    for a run that does not ask the Hub. `preflight` is what came of trying the attention here, for just this kernel,
    card and shapes, `rehearsal` what came of trying the trainer with just this plan; `construction` is what the
    trainer's own constructor said of the options.
    `data` is the data set as far as its first rows tell; where
    there is none, `data_at_fault` tells that its rows or its name are wrong, not the way to it. `elsewhere` tells
    that the server is another machine, known by its report: what this one cannot reach, that one may; `differing` has
    the version there and the version here of the packages that are not the same. `memory` are the counts of the
    model for this plan, and `others` the parameters of teacher and reward models beside it; `measured` are the bytes
    that one step was seen to allocate and to reserve.
    """

    plan: Plan
    settings: Settings
    server: Server
    attention: AttentionChoice
    model: ModelFacts | None = None
    reward_model: ModelFacts | None = None
    teacher: ModelFacts | None = None
    build: KernelBuild | None = None
    build_error: tuple[str, str] | None = None
    alternatives: tuple[KernelBuild, ...] | None = None
    trusted: bool | None = None
    data: DatasetFacts | None = None
    data_at_fault: bool = False
    similar: str | None = None
    construction: Construction | None = None
    cached: bool | None = None
    preflight: Preflight | None = None
    rehearsal: Rehearsal | None = None
    elsewhere: bool = False
    differing: dict[str, tuple[str, str]] = {}
    memory: ModelMemory | None = None
    others: int = 0
    measured: tuple[int, int] | None = None
    unknown: dict[str, str] = {}

    def version(self, package: str) -> Version | None:
        """Return the version of a package in the training interpreter, None where it is not there or not told."""
        found = self.server.packages.get(package)
        return read_version(found.version) if found else None

    def cite(self, package: str, symbol: str) -> str:
        """Return the source line for what the code of a package says, with the version that is installed."""
        return cite(self.server, package, symbol)

    def cite_answer(self, package: str, symbol: str) -> str:
        """Return the source line for what a package of this machine answered, also where it is not the server's."""
        if package not in self.differing:
            return self.cite(package, symbol)
        return f"{package} {self.differing[package][1]} (of this machine): {symbol}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the run would see, as far as they matter: the server's, then those of the plan."""
        return {**self.server.environment, **self.plan.environment}

    @property
    def offline(self) -> bool:
        """Whether the run would not ask the Hub."""
        return is_offline(self.environment)

    @property
    def processes(self) -> int:
        """The number of processes that `accelerate launch` would start."""
        return self.settings.processes

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that the run would use, by the plan's choice; none when it trains on the CPU."""
        return () if self.settings.get("use_cpu") else chosen_gpus(self.plan, self.server)

    @property
    def on_gpu(self) -> bool | None:
        """Whether training would compute on a GPU; None where it is not known what the server's torch sees."""
        count = 0 if self.settings.get("use_cpu") else count_devices(self.plan, self.server)
        return None if count is None else count > 0

    @property
    def capabilities(self) -> tuple[tuple[int, int], ...]:
        """The CUDA compute capabilities of the GPUs that the run would use, where known, lowest first."""
        found = {gpu.capability for gpu in self.gpus if gpu.capability} if self.on_gpu else set()
        return tuple(sorted(found))

    @property
    def autocast(self) -> str | None:
        """The dtype of mixed precision, None without. TRL's default is bf16 unless fp16 is set."""
        if self.settings.get("fp16"):
            return "float16"
        bf16 = self.settings.get("bf16")
        return "bfloat16" if bf16 or bf16 is None else None

    @property
    def compute_dtype(self) -> str | None:
        """The dtype that attention computes in, where known: autocast's, else that of the weights."""
        dtype = self.settings.dtype
        if self.autocast:
            return self.autocast
        return self.model.dtype if dtype == "auto" and self.model else dtype

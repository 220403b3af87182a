"""What the screens share: the training interpreter's asker, the Hub, the server report. All methods block."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypedDict

import msgspec

from kerneltui.advice.memory.question import BESIDE, question_of
from kerneltui.advice.situation import Situation
from kerneltui.assess import with_construction, with_data, with_memory
from kerneltui.errors import KerneltuiError
from kerneltui.facts.cached_names import Kind, cached_names
from kerneltui.facts.dataset import OPTIONS, DatasetFacts, dataset_name
from kerneltui.facts.hub import Hub
from kerneltui.facts.model_memory import ModelMemory
from kerneltui.facts.read_server import ServerCallback, read_server, reread_server
from kerneltui.facts.server import Server
from kerneltui.interpreter import Asker, ProgressCallback
from kerneltui.paths import hub_answers
from kerneltui.plan.construction import Construction, construction_key
from kerneltui.plan.plan import parse_config
from kerneltui.runs.find import list_runs

# How many of the newest runs are looked at for what was used last.
_RECENT = 10
# What a look at the data depends on, beside the reader.
_SOURCE = (
    *("datasets", "dataset_name", "dataset_config", "dataset_train_split"),
    *("model_name_or_path", "model_revision", "model_init_kwargs"),
)

# Who reads the data: the trainer with its options about data.
Reader = str


class Look(NamedTuple):
    """What a look at the data gave: the facts, or why there are none and whether the data itself is at fault."""

    data: DatasetFacts | None
    reason: str | None
    at_fault: bool


class Counted(NamedTuple):
    """What counting a model's memory gave, or why it gave nothing."""

    memory: ModelMemory | None
    others: int
    reason: str | None

    def put_into(self, situation: Situation) -> Situation:
        """Return the situation with it."""
        unknown = {**situation.unknown, "memory": self.reason} if self.reason else situation.unknown
        return msgspec.structs.replace(situation, memory=self.memory, others=self.others, unknown=unknown)


class _Callbacks(TypedDict):
    on_progress: ProgressCallback
    on_part: ServerCallback


class Session:
    """Lives as long as the app. Safe to use from several threads; `close` ends the askers.

    `recorded` is a server report of another machine, None for this one; `endpoint` another Hub than huggingface_hub's.
    `asker` and `hub` see the variables of the plan that `use` named last. The data has an asker of its own: rows that
    come slowly from the Hub must not hold up what the other one is asked at the next key.
    """

    def __init__(
        self, python: Path, runs: Path, *, recorded: Server | None = None, endpoint: str | None = None
    ) -> None:
        self.python = python
        self.runs = runs
        self.recorded = recorded
        self._endpoint = endpoint
        self._environment: dict[str, str] = {}
        self._prepared = False
        self._begin()
        self._looks: dict[str, dict[Reader, Look]] = {}
        self._constructions: dict[str, Construction] = {}
        self._memory: dict[str, Counted] = {}
        self._server: Server | None = recorded
        self._part: Server | None = recorded
        self._listeners: list[tuple[ProgressCallback | None, ServerCallback | None]] = []
        self._lock = threading.Lock()
        self._switch = threading.Lock()

    def use(self, environment: Mapping[str, str]) -> None:
        """Ask from now on as a run with these variables would; the askers start anew where they are others.

        LOCAL_KERNELS is not theirs to read: it reaches them with the question (`kerneltui.facts.builds`).
        """
        seen = {name: value for name, value in environment.items() if name != "LOCAL_KERNELS"}
        with self._switch:
            if seen == self._environment:
                return
            old = (self.asker, self._reader)
            self._environment = seen
            self._begin()
        for asker in old:
            asker.close()

    @property
    def reader(self) -> Asker:
        """The asker that reads data."""
        return self._reader

    def prepare(self) -> None:
        """Import in the background what a look at the data needs, once."""
        if not self._prepared:
            self._prepared = True
            self._reader.prepare()

    def known_data(self, situation: Situation) -> tuple[Situation, bool]:
        """Return the situation with what is known of its options and data, and whether there is more to be asked.

        What the data looked like to another reader stands in for it until then.
        """
        construction = self._constructions.get(_options(situation))
        situation = msgspec.structs.replace(situation, construction=construction)
        looks, reader = self._looks.get(_source(situation), {}), _reader(situation)
        look = looks.get(reader) or next(iter(looks.values()), None)
        situation, counted = self._with_known_memory(situation)
        read = reader in looks or not dataset_name(situation.settings.values)
        whole = construction is not None and counted and read
        return (_looked(situation, look) if look else situation), whole

    def with_data(self, situation: Situation) -> Situation:
        """Return the situation with what the trainer says of its options, the first rows of its data, and its memory.

        Each is asked once for what it depends on.
        """
        situation = self._with_memory(self._with_construction(situation))
        looked, whole = self.known_data(situation)
        if whole:
            return looked
        found = with_data(situation, self._reader)
        look = Look(found.data, found.unknown.get("data"), found.data_at_fault)
        self._looks.setdefault(_source(situation), {})[_reader(situation)] = look
        return found

    def _with_construction(self, situation: Situation) -> Situation:
        key = _options(situation)
        if key not in self._constructions:
            asked = with_construction(situation, self._reader)
            if asked.construction is None:
                return asked
            self._constructions[key] = asked.construction
        return msgspec.structs.replace(situation, construction=self._constructions[key])

    def _with_memory(self, situation: Situation) -> Situation:
        known, counted = self._with_known_memory(situation)
        if counted:
            return known
        found = with_memory(situation, self._reader)
        self._memory[_counting(situation)] = Counted(found.memory, found.others, found.unknown.get("memory"))
        return found

    def _with_known_memory(self, situation: Situation) -> tuple[Situation, bool]:
        """Return the situation with its model's memory if that was counted, and whether there is nothing to count."""
        if not situation.on_gpu or question_of(situation) is None:
            return situation, True
        known = self._memory.get(_counting(situation))
        return (known.put_into(situation), True) if known else (situation, False)

    def forget_data(self) -> None:
        """Look at all data anew when it is needed next, and ask the trainer again."""
        self._looks.clear()
        self._constructions.clear()

    def server(
        self,
        *,
        again: bool = False,
        on_progress: ProgressCallback | None = None,
        on_part: ServerCallback | None = None,
    ) -> Server:
        """Return the server report, read once and kept; `again` reads it anew. Raises WorkerError.

        `on_part` gets it as far as it is known, also where another thread reads it already.
        """
        listener = (on_progress, on_part)
        if on_part and self._part is not None:
            on_part(self._part)
        self._listeners.append(listener)
        try:
            with self._lock:
                if self._server is None:
                    self._server = read_server(self.python, runs_dir=self.runs, **self._callbacks())
                elif again and self.recorded is None:
                    self._server = reread_server(self._server, runs_dir=self.runs, **self._callbacks())
                return self._server
        finally:
            self._listeners.remove(listener)

    def _callbacks(self) -> _Callbacks:
        def tell(text: str) -> None:
            for on_progress, _ in list(self._listeners):
                if on_progress:
                    on_progress(text)

        def take(server: Server) -> None:
            self._part = server
            for _, on_part in list(self._listeners):
                if on_part:
                    on_part(server)

        return {"on_progress": tell, "on_part": take}

    def recent(self) -> tuple[list[str], list[str]]:
        """Return the models and the data of the newest runs, newest first, each once."""
        models: dict[str, None] = {}
        data: dict[str, None] = {}
        for run in list_runs(self.runs)[:_RECENT]:
            with contextlib.suppress(KerneltuiError):
                values = parse_config(run.read_run().plan.config or "{}", run.name)
                if values.get("model_name_or_path"):
                    models.setdefault(str(values["model_name_or_path"]))
                if name := dataset_name(values):
                    data.setdefault(name)
        return list(models), list(data)

    def known_names(self, kind: Kind) -> list[str]:
        """Return the models or the data sets of this machine: of the newest runs, then those that the cache holds."""
        recent = self.recent()[0 if kind == "models" else 1]
        return list(dict.fromkeys((*recent, *cached_names(kind))))

    def close(self) -> None:
        """End the askers."""
        self.asker.close()
        self._reader.close()

    def _begin(self) -> None:
        self.hub = Hub.of(self._environment, endpoint=self._endpoint, folder=hub_answers())
        self.asker = Asker(self.python, environment=self._environment)
        self._reader = Asker(self.python, environment=self._environment)
        self._prepared = False


def _source(situation: Situation) -> str:
    values = situation.settings.values
    return repr((situation.plan.cwd, situation.plan.environment, *(values.get(name) for name in _SOURCE)))


def _counting(situation: Situation) -> str:
    beside = [situation.settings.get(name) for name in BESIDE]
    return repr((situation.plan.cwd, situation.plan.environment, question_of(situation), beside))


def _reader(situation: Situation) -> Reader:
    values = situation.settings.values
    return repr((situation.plan.trainer, *(values.get(name) for name in OPTIONS)))


def _options(situation: Situation) -> str:
    return repr((situation.plan.environment, construction_key(situation.plan.trainer, situation.settings)))


def _looked(situation: Situation, look: Look) -> Situation:
    unknown = {**situation.unknown, "data": look.reason} if look.reason else situation.unknown
    return msgspec.structs.replace(situation, data=look.data, unknown=unknown, data_at_fault=look.at_fault)

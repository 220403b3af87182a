from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kerneltui.bench import measure
from kerneltui.bench.measure import Measuring, arguments_of
from kerneltui.bench.records import Comparison, Contender, Point
from kerneltui.bench.store import Store
from kerneltui.errors import WorkerAnswerError, WorkerDiedError
from kerneltui.plan.plan import make_plan
from tests.bench.made import EAGER, KERNEL, SDPA, benchmark, comparison

Answer = Callable[[dict[str, Any]], dict[str, Any]]

_TOLD = {
    "steps": [10.0, 11.0],
    "tokens": 64.0,
    "loss": 2.0,
    "grad_norm": 1.0,
    "sample": [1.0],
    "flops_per_token": 6.0,
    "attention_flops": 0.5,
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The questions that were asked, each of a process of its own; `_answer` answers."""
    questions: list[dict[str, Any]] = []

    class Asked:
        def __init__(self, *_: Any, **__: Any) -> None: ...

        def __enter__(self) -> "Asked":
            return self

        def __exit__(self, *_: object) -> None: ...

        def ask(self, question: str, **arguments: Any) -> dict[str, Any]:
            questions.append(arguments)
            return _answer(arguments)

        def kill(self) -> None: ...

        def stderr_tail(self) -> str:
            return "the last words"

    monkeypatch.setattr(measure, "Worker", Asked)
    return questions


def _answer(arguments: dict[str, Any]) -> dict[str, Any]:
    attention, length = _value(arguments, "--attn_implementation"), int(_value(arguments, "--max_length"))
    if attention == "eager" and length >= 64:
        raise WorkerAnswerError("no", "CUDA out of memory", "", "OutOfMemoryError")
    if attention == KERNEL.attention and length == 64:
        raise WorkerDiedError("no", "", "", "signal 11")
    return _TOLD


def _value(arguments: dict[str, Any], name: str) -> str:
    words = arguments["arguments"]
    return str(words[words.index(name) + 1])


def _measuring(folder: Path, made: Comparison) -> tuple[Measuring, Store]:
    store = Store(folder / "made")
    store.begin(benchmark(made))
    return Measuring(store, made, Path("python"), {"CUDA_VISIBLE_DEVICES": ""}), store


def test_contenders_are_measured_side_by_side(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    measuring, store = _measuring(tmp_path, comparison(SDPA, KERNEL, lengths=(32, 64), rounds=2))
    measuring.run()
    order = [(_value(it, "--attn_implementation"), _value(it, "--max_length")) for it in asked]
    assert order[:4] == [("sdpa", "32"), (KERNEL.attention, "32"), ("sdpa", "64"), (KERNEL.attention, "64")]
    assert len(order) == 8 and len(store.measured()) == 8
    assert store.measured()[Point(contender=SDPA, length=32)].flops == 64 * (6 + 0.5 * 32)


def test_out_of_memory_ends_the_longer_ones(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    measuring, store = _measuring(tmp_path, comparison(EAGER, lengths=(32, 64, 128)))
    measuring.run()
    assert [it.ended for it in store.measured().values()] == ["ok", "out_of_memory", "out_of_memory"]
    assert len(asked) == 2
    assert store.measured()[Point(contender=EAGER, length=128)].ending == "out of memory at 64 already"


def test_a_crash_is_a_result_and_the_rest_goes_on(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    measuring, store = _measuring(tmp_path, comparison(KERNEL, SDPA, lengths=(64,)))
    measuring.run()
    crashed, well = store.measured().values()
    assert (crashed.ended, crashed.ending) == ("crashed", "signal 11")
    assert well.ended == "ok"


def test_a_second_call_measures_what_is_missing(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    made = comparison(SDPA, lengths=(32, 64))
    measuring, store = _measuring(tmp_path, made)
    measuring.run(on_point=lambda _: measuring.cancel())
    assert len(store.measured()) == 1
    with store.points_file.open("ab") as file:
        file.write(b'{"half')
    again, store = _measuring(tmp_path, made)
    again.run()
    assert len(asked) == 2
    assert len(store.measured()) == 2


def test_a_point_sets_what_it_compares(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("attn_implementation: eager\n")
    plan = make_plan("sft", ["plan.yaml", "--max_length", "7"], cwd=tmp_path)
    contender = Contender(attention="sdpa", layer_kernels="hub", packing=True)
    made = Comparison(plan=plan, contenders=(contender,), lengths=(64,))
    words = arguments_of(made, Point(contender=contender, length=64))
    assert words[:4] == ["--config", str(tmp_path / "plan.yaml"), "--max_length", "7"]
    pairs = dict(zip(words[4::2], words[5::2], strict=True))
    assert pairs["--max_length"] == "64" and pairs["--attn_implementation"] == "sdpa"
    assert pairs["--packing"] == "True" and "use_kernels" in pairs["--model_init_kwargs"]

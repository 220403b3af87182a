from pathlib import Path

import pytest

from kerneltui.bench.compare import Wanted, compare, trial_card
from kerneltui.bench.presets import PRESETS
from kerneltui.errors import UsageError
from kerneltui.facts.server import Server
from kerneltui.plan.plan import make_plan
from kerneltui.records import read_record

SERVERS = Path(__file__).parents[1] / "servers"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def _server(name: str) -> Server:
    return read_record(SERVERS / f"{name}.json", Server)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_compares_on_the_gpu_that_is_there(name: str) -> None:
    server = _server("h200")
    plan = make_plan("sft", [])
    card, environment = trial_card(server, plan, None)
    made = compare(Wanted(preset=name), plan, server, card, ("kernels-community/flash-attn3",))
    assert card and made.device == "NVIDIA H200" and environment["CUDA_VISIBLE_DEVICES"] == "0"
    assert made.comparison.lengths == PRESETS[name].lengths
    assert {"torch", "trl"} <= made.packages.keys()
    folder = made.comparison.plan.flags[made.comparison.plan.flags.index("--model_name_or_path") + 1]
    assert Path(folder, "config.json").is_file() and Path(folder, "tokenizer.json").is_file()


def test_what_the_person_says_goes_before_the_preset() -> None:
    server = _server("h200")
    plan = make_plan("sft", ["--model_name_or_path", "org/model", "--dtype", "float32"])
    wanted = Wanted(preset="guide", attention=("sdpa",), lengths=(16,), layer_kernels=("none", "hub"), steps=4)
    made = compare(wanted, plan, server, server.gpus[0])
    assert made.model == "org/model"
    assert made.comparison.plan.flags.count("--dtype") == 1
    assert [it.label for it in made.comparison.contenders] == ["sdpa", "sdpa + Hub layers"]
    assert made.comparison.steps == 4 and made.comparison.lengths == (16,)


def test_without_a_gpu_the_tiny_model_is_trained_on_the_cpu() -> None:
    server = _server("no-gpu")
    card, environment = trial_card(server, make_plan("sft", []), None)
    made = compare(Wanted(), make_plan("sft", []), server, card)
    assert card is None and environment["CUDA_VISIBLE_DEVICES"] == ""
    assert made.device == "the CPU" and "--use_cpu" in made.comparison.plan.flags


def test_packing_is_for_sft_alone() -> None:
    server = _server("h200")
    made = compare(Wanted(packing=(False, True)), make_plan("dpo", []), server, server.gpus[0])
    assert not any(it.packing for it in made.comparison.contenders)


@pytest.mark.parametrize(
    ("wanted", "trainer", "gpus", "says"),
    [
        (Wanted(preset="quik"), "sft", None, "no preset"),
        (Wanted(layer_kernels=("ligr",)), "sft", None, "layer kernels"),
        (Wanted(), "grpo", None, "cannot be compared"),
        (Wanted(), "sft", (7,), "one GPU"),
        (Wanted(), "sft", (0, 0), "one GPU"),
    ],
)
def test_what_cannot_be_compared_is_said(wanted: Wanted, trainer: str, gpus: tuple[int, ...] | None, says: str) -> None:
    server = _server("h200")
    with pytest.raises(UsageError, match=says):
        card, _ = trial_card(server, make_plan("sft", []), gpus)
        compare(wanted, make_plan(trainer, []), server, card)

"""Whether a plan fits its card: the finding with its figures, its fixes, and what is shown of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerneltui.advice.finding import Finding
from kerneltui.advice.memory.fits import Memory, estimate_of, memory_of
from kerneltui.advice.memory.question import question_of
from kerneltui.advice.memory.sharding import Sharding, sharding_of
from kerneltui.advice.memory.workload import workload_of
from kerneltui.advice.recommend import recommend_options
from kerneltui.advice.rules import judge
from kerneltui.advice.situation import Situation
from kerneltui.facts.model import ModelFacts
from kerneltui.facts.model_memory import ModelMemory
from kerneltui.records import from_builtins
from kerneltui.show import memory_lines, memory_table
from tests.advice.recommending import server_of
from tests.advice.situations import H200, make_situation

_PLAN = next(
    plan
    for plan in json.loads((Path(__file__).parent / "memory_measured.json").read_text())["plans"]
    if plan["plan"].startswith("sft-1.7b-gc")
)
_MODEL = from_builtins({**_PLAN["facts"], "dtype": "bfloat16", "context": 40960}, ModelFacts, "the model")
_MEMORY = from_builtins(_PLAN["memory"], ModelMemory, "its memory")
_GIVEN = {
    "model_name_or_path": "Qwen/Qwen3-1.7B", "dataset_name": "a/b", "dtype": "bfloat16", "max_length": 4096,
    "per_device_train_batch_size": 4, "attn_implementation": "sdpa",
}  # fmt: skip


def situation_of(*, free: float | None = None, trainer: str = "sft", cards: int = 1, **given: Any) -> Situation:
    facts: dict[str, Any] = {"memory": _MEMORY}
    for name in ("accelerate", "processes", "measured"):
        if name in given:
            facts[name] = given.pop(name)
    server = server_of(*[H200] * cards, free=free)
    return make_situation(trainer, server=server, model=_MODEL, given={**_GIVEN, **given}, **facts)


def about_room(situation: Situation) -> list[Finding]:
    return [finding for finding in judge(situation) if finding.id.startswith("memory.")]


def memory(situation: Situation) -> Memory:
    found = memory_of(situation)
    assert found is not None
    return found


def test_the_estimate_of_a_plan_is_that_of_its_measured_twin() -> None:
    found = memory(situation_of())
    assert found.estimate.peak == pytest.approx(_PLAN["peak"], rel=0.05)
    assert found.fits
    assert about_room(situation_of()) == []


def test_what_surely_does_not_fit_is_warned_of_with_figures_and_a_batch_that_fits() -> None:
    situation = situation_of(free=18, per_device_train_batch_size=16)
    (finding,) = about_room(situation)
    assert finding.severity == "warn"
    assert "18 GiB are free" in finding.title
    assert "activations" in finding.why
    smaller = finding.fixes[0].changes
    assert smaller["per_device_train_batch_size"] * smaller["gradient_accumulation_steps"] == 16
    mended = situation_of(free=18, **smaller)
    assert memory(mended).fits
    assert about_room(mended) == []


def test_what_may_not_fit_is_a_note() -> None:
    estimate = memory(situation_of()).estimate
    (finding,) = about_room(situation_of(free=(estimate.low + estimate.high) / 2 / (1 << 30)))
    assert (finding.id, finding.severity) == ("memory.tight", "note")


def test_the_largest_batch_fits_and_one_more_does_not() -> None:
    situation = situation_of(free=40)
    found = memory(situation)
    assert found.largest_batch and found.longest and found.free
    work = workload_of(situation)
    for rows, fits in ((found.largest_batch, True), (found.largest_batch + 1, False)):
        high = estimate_of(situation, msgspec.structs.replace(work, rows=rows)).high
        assert (high <= found.free) is fits
    assert found.longest % 128 == 0


def test_the_longest_row_ends_where_the_model_does() -> None:
    assert memory(situation_of(per_device_train_batch_size=1)).longest == 40960


def test_full_training_that_cannot_fit_is_offered_lora() -> None:
    (finding,) = about_room(situation_of(free=8, per_device_train_batch_size=1))
    assert {"use_peft": True, "lora_target_modules": ["all-linear"]} in [fix.changes for fix in finding.fixes]


def test_a_measured_step_takes_the_place_of_the_estimate() -> None:
    gib = 1 << 30
    situation = situation_of(free=30, measured=(35 * gib, 36 * gib))
    found = memory(situation)
    assert found.estimate.measured
    assert found.estimate.peak == 35 * gib
    (finding,) = about_room(situation)
    assert finding.origin == "observed"
    assert "as measured" in finding.title


@pytest.mark.parametrize("given", [{"use_cpu": True}, {"model_name_or_path": None}])
def test_nothing_is_said_without_a_gpu_or_a_model(given: dict[str, Any]) -> None:
    situation = situation_of(**given)
    if given.get("use_cpu"):
        assert memory_of(situation) is None
    else:
        assert question_of(situation) is None


def test_vllm_beside_the_trainer_takes_its_share() -> None:
    own = memory(situation_of(trainer="grpo", max_completion_length=256)).estimate
    both = memory(
        situation_of(trainer="grpo", max_completion_length=256, use_vllm=True, vllm_mode="colocate",
                     vllm_gpu_memory_utilization=0.3)
    ).estimate  # fmt: skip
    share = next(part for part in both.parts if part.name == "vLLM")
    assert share.size == pytest.approx(0.3 * 140 * (1 << 30), rel=0.01)
    assert both.peak > own.peak


def test_a_reference_model_is_counted_unless_adapters_make_it_needless() -> None:
    assert workload_of(situation_of(trainer="dpo")).references == 1
    assert workload_of(situation_of(trainer="dpo", use_peft=True)).references == 0
    assert workload_of(situation_of(trainer="dpo", precompute_ref_log_probs=True)).references == 0
    assert workload_of(situation_of(trainer="grpo", beta=0.0)).references == 0
    assert workload_of(situation_of(trainer="grpo", beta=0.04)).references == 1


@pytest.mark.parametrize(
    ("text", "stage", "kind"),
    [
        ("distributed_type: FSDP\nfsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: true}", 3, "fsdp"),
        ("distributed_type: FSDP\nfsdp_config: {fsdp_reshard_after_forward: SHARD_GRAD_OP}", 2, "fsdp"),
        ("distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: 1}", 3, "fsdp"),
        ("distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 1}", 1, "deepspeed"),
        ("distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 3}", 3, "deepspeed"),
        ("distributed_type: MULTI_GPU", 0, "ddp"),
        ("a: [broken", 0, "ddp"),
    ],
)
def test_accelerates_file_tells_how_the_model_is_spread(tmp_path: Path, text: str, stage: int, kind: Any) -> None:
    file = tmp_path / "accelerate.yaml"
    file.write_text(text)
    found = sharding_of(situation_of(accelerate={"config_file": str(file)}, processes=4, cards=4).settings)
    assert (found.stage, found.kind, found.processes) == (stage, kind, 4)


def test_one_process_is_not_spread() -> None:
    assert sharding_of(situation_of().settings) == Sharding()


def test_the_question_names_what_the_counts_depend_on() -> None:
    found = question_of(situation_of(use_peft=True, lora_target_modules=["all-linear"], lora_r=8))
    assert found is not None
    assert found["lora"] == {"r": 8, "task_type": "CAUSAL_LM", "target_modules": "all-linear"}
    assert (found["dtype"], found["autocast"], found["attention"]) == ("bfloat16", "bfloat16", "fused")
    assert question_of(situation_of(per_device_train_batch_size=1)) == question_of(situation_of())
    assert question_of(situation_of(attn_implementation="eager")) != question_of(situation_of())


def test_lines_and_table_show_the_parts_beside_the_card() -> None:
    found = memory(situation_of(free=100))
    lines = "\n".join(memory_lines(found))
    assert "of 100 GiB free" in lines
    assert "fits up to batch" in lines
    table = "\n".join(memory_table(found))
    for part in found.estimate.parts:
        assert part.name in table
    assert "of 140" in table
    assert "every row is 4096 tokens long" in table


@pytest.mark.parametrize(("free", "batch"), [(140, 8), (9, 2)])
def test_the_recommended_batch_is_the_largest_that_is_counted_to_fit(free: float, batch: int) -> None:
    found = recommend_options(
        make_situation(
            server=server_of(H200, free=free),
            model=_MODEL,
            memory=_MEMORY,
            given={name: value for name, value in _GIVEN.items() if "batch" not in name},
        )
    )
    assert found.values["per_device_train_batch_size"] == batch
    assert f"{free:.0f} GiB are free" in found.reasons["per_device_train_batch_size"]

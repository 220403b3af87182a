"""Trainers: packing, keys, what is missing, Liger, and TRL's own errors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.advice.situations import H200, MHA, blocks, changes, findings, make_server

EVALUATION = (
    "The global eval batch size (2 * 1) must be divisible by the number of generations used for evaluation (8)."
)


def test_packing_needs_a_length() -> None:
    given = {"packing": True, "max_length": None}
    finding = findings(given=given)["packing.without_length"]
    assert (finding.severity, finding.fixes[0].changes) == ("block", {"max_length": None})
    evaluated = {"eval_packing": True, "eval_strategy": "steps", "max_length": None}
    assert blocks(given=evaluated) == {"packing.without_length"}
    assert not findings(given={**evaluated, "eval_strategy": "no"})
    assert not findings(given={"packing": True})


def test_wrapped_mixes_documents() -> None:
    given = {"packing": True, "packing_strategy": "wrapped"}
    finding = findings(given=given)["packing.wrapped"]
    assert (finding.severity, changes(finding)) == ("warn", [{"packing_strategy": "bfd"}])
    assert not findings(given={"packing_strategy": "wrapped"})
    assert set(findings(server=make_server(H200, trl="1.10.0"), given=given)) == {"packing.wrapped"}


def test_the_names_of_packing_strategies() -> None:
    finding = findings(given={"packing": True, "packing_strategy": "bfdsplit"})["packing.strategy"]
    assert changes(finding) == [{"packing_strategy": "bfd_split"}]
    assert not findings(given={"packing_strategy": "never used"})
    assert not findings(given={"packing": True, "packing_strategy": "bfd-requeue"})


def test_a_batch_of_one_saves_nothing() -> None:
    given = {"padding_free": True, "max_length": None, "per_device_train_batch_size": 1}
    assert findings(given=given)["packing.batch_of_one"].severity == "note"
    assert not findings(given={**given, "per_device_train_batch_size": 2})


def test_dpo_pads() -> None:
    for version in ("1.10.0", "1.16.0"):
        found = findings("dpo", server=make_server(H200, trl=version), given={"padding_free": True})
        assert {name: finding.severity for name, finding in found.items()} == {"packing.dpo_padding_free": "warn"}
    assert not findings("dpo")


@pytest.mark.parametrize(
    ("old", "value", "change"),
    [
        ("max_seq_length", 512, {"max_length": 512}),
        ("torch_dtype", "torch.bfloat16", {"dtype": "bfloat16"}),
        ("evaluation_strategy", "steps", {"eval_strategy": "steps"}),
        ("no_cuda", True, {"use_cpu": True}),
        ("warmup_ratio", 0.1, {"warmup_steps": 0.1}),
        ("learning_rat", 1e-4, {"learning_rate": 1e-4}),
        ("num_proceses", 2, {"num_processes": 2}),
    ],
)
def test_an_unknown_key_is_renamed(old: str, value: Any, change: dict[str, Any]) -> None:
    finding = findings(given={old: value}, unknown_keys=(old,))[f"keys.unknown.{old}"]
    assert finding.severity == "block"
    assert changes(finding) == [{old: None, **change}, {old: None}]


def test_an_unknown_flag_keeps_its_value() -> None:
    for flags in (("--max-seq-length", "512"), ("--max-seq-length=512",)):
        found = findings(flags=flags, unknown_keys=("max-seq-length",))
        assert changes(found["keys.unknown.max_seq_length"])[0] == {"max-seq-length": None, "max_length": 512}
    switch = findings(flags=("--no_cuda", "--seed", "1"), unknown_keys=("no_cuda",))
    assert changes(switch["keys.unknown.no_cuda"])[0] == {"no_cuda": None, "use_cpu": True}


def test_a_key_without_a_successor_is_only_removed() -> None:
    finding = findings(given={"tokenizer": "x"}, unknown_keys=("tokenizer",))["keys.unknown.tokenizer"]
    assert "takes the tokenizer of the model" in finding.why
    assert changes(finding) == [{"tokenizer": None}]
    # GRPO has no max_length: the rename would only be refused again.
    online = findings("grpo", given={"max_seq_length": 5}, unknown_keys=("max_seq_length",))
    assert {"max_seq_length": None, "max_length": 5} not in changes(online["keys.unknown.max_seq_length"])


def test_a_key_that_was_null() -> None:
    finding = findings(given={"max_seq_length": None}, unknown_keys=("max_seq_length",))["keys.unknown.max_seq_length"]
    assert finding.fixes[0].nulls == ("max_length",)


def test_a_switch_of_accelerate_cannot_have_a_value() -> None:
    facts: dict[str, Any] = {"given": {"quiet": True}, "unknown_keys": (), "accelerate": {"quiet": True}}
    assert blocks(**facts, launch_arguments=("--quiet", "True")) == {"keys.switch.quiet"}
    assert not blocks(**facts, launch_arguments=("--quiet",))
    port: dict[str, Any] = {"accelerate": {"rdzv_conf": "True"}}
    assert not blocks(**port, launch_arguments=("--rdzv_conf", "True"))


def test_what_is_missing() -> None:
    nothing = {"model_name_or_path": None, "dataset_name": None}
    assert blocks(model=None, given=nothing, unknown={"model": "no model_name_or_path is given"}) == {
        "trainer.missing.model_name_or_path",
        "trainer.missing.dataset_name",
    }
    assert not findings(given={"dataset_name": None, "datasets": [{"path": "json"}]})
    assert blocks("distillation", given={"teacher_model_name_or_path": None}) == {
        "trainer.missing.teacher_model_name_or_path"
    }
    assert not findings("distillation")
    assert blocks("grpo", given={"reward_funcs": None}) == {"trainer.missing.reward_funcs"}
    assert not findings("grpo", given={"reward_funcs": None, "reward_model_name_or_path": "a/b"})


def test_a_model_that_could_not_be_read() -> None:
    found = findings(model=None, unknown={"model": "a/b is gated\nAsk for access."})
    assert [(finding.id, finding.severity) for finding in found.values()] == [("trainer.model", "block")]
    reason = "Cannot get the configuration of a/b: the Hub cannot be reached and the cache does not hold it\nrefused"
    assert findings(model=None, unknown={"model": reason})["trainer.model"].severity == "block"
    for why in (reason, "No model folder at /data/model\n/data/model does not exist."):
        assert findings(model=None, unknown={"model": why}, elsewhere=True)["trainer.model"].severity == "warn"
    assert not findings(model=None)


def test_liger_is_deprecated_by_release_and_trainer() -> None:
    given = {"use_liger_kernel": True}
    finding = findings(given=given)["trainer.liger_deprecated"]
    assert finding.severity == "note"
    assert changes(finding) == [{"use_liger_kernel": None, "model_init_kwargs": {"use_kernels": True}}]
    assert not findings(server=make_server(H200, trl="1.14.2"), given=given)
    assert not findings("distillation", given=given)
    unusable = findings(server=make_server(H200, transformers="5.24.0"), given=given)
    assert changes(unusable["trainer.liger_deprecated"]) == []


def test_liger_breaks_reward_models() -> None:
    given = {"use_liger_kernel": True}
    finding = findings("reward", given=given)["trainer.liger_reward"]
    assert finding.severity == "block"
    assert changes(finding)[0] == {"liger_kernel_config": {"fused_linear_cross_entropy": False}}
    without = {"rope": True, "fused_linear_cross_entropy": False}
    assert not findings("reward", given={**given, "liger_kernel_config": without})
    unpatched = type(MHA)(model_type="bert")
    assert not findings("reward", model=unpatched, given=given)


@pytest.mark.parametrize(
    ("given", "processes", "expected"),
    [
        ({"per_device_train_batch_size": 2}, 2, [{"gradient_accumulation_steps": 2}]),
        ({"per_device_train_batch_size": 3}, 1, [{"gradient_accumulation_steps": 8}]),
        ({"per_device_train_batch_size": 2, "gradient_accumulation_steps": 5}, 1, [{"gradient_accumulation_steps": 4}]),
        ({"per_device_train_batch_size": 2, "steps_per_generation": 3}, 1, [{"steps_per_generation": 4}]),
        ({"per_device_train_batch_size": 2, "generation_batch_size": 12}, 1, [{"generation_batch_size": 16}]),
    ],
)
def test_whole_groups(given: dict[str, Any], processes: int, expected: list[dict[str, int]]) -> None:
    message = "generation_batch_size (2) must be divisible by num_generations (8)."
    found = findings("grpo", given=given, errors=(message,), processes=processes)
    assert changes(found["configuration.ValueError"])[:1] == expected


def test_other_errors_of_trl() -> None:
    found = findings("grpo", given={"per_device_eval_batch_size": 2}, errors=(EVALUATION,))
    assert changes(found["configuration.ValueError"]) == [
        {"per_device_eval_batch_size": 8},
        {"num_generations_eval": 2},
    ]
    both = findings(errors=("At most one of fp16 and bf16 can be True, but not both",))["configuration.ValueError"]
    assert changes(both) == [{"fp16": None}, {"bf16": None}]
    other = findings(errors=("something new", "something new"))
    assert [(finding.title, finding.fixes) for finding in other.values()] == [("something new", ())]


def test_what_trl_says_itself_is_said_once_with_the_fixes_of_the_rule() -> None:
    message = "When `padding_free=True` without packing, `max_length` is not enforced."
    found = findings(given={"padding_free": True}, errors=(message,))
    assert [finding.title for finding in found.values()] == [message]
    assert changes(found["configuration.ValueError"])[0] == {"packing": True}

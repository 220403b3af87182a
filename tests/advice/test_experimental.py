"""What the trainers of `trl.experimental` need, and what they refuse."""

from __future__ import annotations

from tests.advice.situations import H200, blocks, changes, findings, make_server


def test_they_are_told_to_be_experimental() -> None:
    assert findings("gkd")["experimental.unstable"].severity == "note"
    assert "experimental.unstable" not in findings("sft")


def test_a_missing_teacher_or_reward_blocks() -> None:
    assert "trainer.missing.teacher_model_name_or_path" in blocks("gkd")
    assert not blocks("gkd", given={"teacher_model_name_or_path": "a/teacher"})
    assert "trainer.missing.reward_funcs" in blocks("online_dpo")
    assert not blocks("online_dpo", given={"reward_funcs": ["accuracy_reward"]})


def test_the_asynchronous_ones_name_the_servers_and_how_to_start_them() -> None:
    found = findings("async_distillation")
    server, teacher = found["experimental.server"], found["experimental.teacher_server"]
    assert "http://localhost:8000 (vllm_server_base_url)" in server.why
    assert [fix.command for fix in server.fixes] == [
        "/opt/train/bin/python -m pip install 'trl[vllm]'",
        "trl vllm-serve --model Qwen/Qwen2.5-0.5B",
    ]
    assert "http://localhost:8001" in teacher.why
    assert "experimental.teacher_server" not in findings("async_grpo")


def test_the_asynchronous_ones_train_on_a_gpu_only() -> None:
    assert "experimental.gpu" in blocks("async_grpo", server=make_server())
    assert not blocks("async_grpo", server=make_server(H200))


def test_async_grpo_chooses_its_attention_itself() -> None:
    found = findings("async_grpo", given={"attn_implementation": "sdpa"})["experimental.attention"]
    assert changes(found) == [{"attn_implementation": None}]
    nested = {"model_init_kwargs": {"attn_implementation": "sdpa", "revision": "v1"}}
    found = findings("async_grpo", given=nested)["experimental.attention"]
    assert changes(found) == [{"attn_implementation": None, "model_init_kwargs": {"revision": "v1"}}]
    assert "experimental.attention" not in findings("async_distillation", given={"attn_implementation": "sdpa"})


def test_liger_adapters_and_vllm_where_they_cannot_be() -> None:
    assert "experimental.liger" in blocks("async_grpo", given={"use_liger_kernel": True})
    assert "experimental.adapters" in blocks("a2po", given={"use_peft": True, "reward_funcs": ["accuracy_reward"]})
    assert "experimental.vllm" in blocks("online_dpo", given={"use_vllm": True, "reward_funcs": ["accuracy_reward"]})
    assert "experimental.vllm" not in findings("online_dpo")

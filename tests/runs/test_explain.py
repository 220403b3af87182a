"""What endings mean: a full GPU by torch's own numbers, other exceptions by the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kerneltui.runs.explain import explain_events, explain_exception, known_endings
from kerneltui.runs.oom_killer import oom_kills, struck_since
from kerneltui.runs.out_of_memory import Shortage, read_shortage, remedy_for

GIB = 1 << 30
# As torch 2.11 says it.
FULL = (
    "CUDA out of memory. Tried to allocate 4.64 GiB. GPU 0 has a total capacity of 139.80 GiB of which 2.18 GiB is "
    "free. Including non-PyTorch memory, this process has 137.61 GiB memory in use. Of the allocated memory "
    "136.01 GiB is allocated by PyTorch, and 1000.50 MiB is reserved by PyTorch but unallocated. If reserved but "
    "unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)
SHARED = (
    "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.25 GiB of which 8.00 MiB is "
    "free. Process 4711 has 60.10 GiB memory in use. Process 4712 has 10.00 GiB memory in use. Including non-PyTorch "
    "memory, this process has 9.10 GiB memory in use. Of the allocated memory 8.50 GiB is allocated by PyTorch, and "
    "90.00 MiB is reserved by PyTorch but unallocated."
)
BACKWARD = """\
  File "/env/transformers/trainer.py", line 1900, in training_step
    self.accelerator.backward(loss, **kwargs)
  File "/env/torch/_tensor.py", line 625, in backward
    torch.autograd.backward(
"""
FORWARD = """\
  File "/env/transformers/trainer.py", line 1890, in training_step
    loss = self.compute_loss(model, inputs)
  File "/env/trl/trainer/sft_trainer.py", line 1100, in compute_loss
    outputs = model(**inputs)
  File "/env/transformers/models/qwen3/modeling_qwen3.py", line 82, in forward
"""
ATTENTION = FORWARD + '  File "/env/transformers/integrations/sdpa_attention.py", line 92, in sdpa_attention_forward\n'
LOSS = FORWARD + '  File "/env/torch/nn/functional.py", line 3400, in cross_entropy\n'
LOADING = '  File "/env/transformers/modeling_utils.py", line 4000, in from_pretrained\n'
SETTINGS = {
    "per_device_train_batch_size": 16, "gradient_accumulation_steps": 1, "gradient_checkpointing": False,
    "max_length": 4096,
}  # fmt: skip
BEGIN: dict[str, Any] = {
    "event": "train_begin", "settings": SETTINGS, "memory_allocated": 2 * GIB, "trainable_bytes": 2 * GIB
}  # fmt: skip


def _settings(**changes: Any) -> dict[str, Any]:
    return {**BEGIN, "settings": {**SETTINGS, **changes}}


def test_a_full_gpu_is_told_with_the_part_and_the_numbers() -> None:
    found = explain_exception("OutOfMemoryError", FULL, BACKWARD, BEGIN)
    assert found is not None
    assert found.cause == (
        "out of GPU memory in the backward pass: 4.6 GiB more were asked for, 2.2 GiB of 139.8 GiB were free"
    )
    assert found.changes == {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2}
    # Weights, gradients and two moments: 8 GiB; the other 138.6 GiB halve.
    assert found.way_out == (
        "per_device_train_batch_size 16 → 8, gradient_accumulation_steps 1 → 2: the same batch in all, and about "
        "77.3 GiB of 139.2 GiB. Or gradient_checkpointing: true, which takes about a third more time."
    )


@pytest.mark.parametrize(
    ("traceback", "part"),
    [(BACKWARD, "backward"), (FORWARD, "forward"), (ATTENTION, "attention"), (LOSS, "loss"), (LOADING, "loading"),
     ("", None), ('  File "x", line 1, in evaluate\n' + FORWARD, "evaluation"),
     ('  File "/env/torch/optim/adamw.py", line 1, in step\n', "optimizer")],
)  # fmt: skip
def test_the_frames_tell_the_part(traceback: str, part: str | None) -> None:
    shortage = read_shortage(FULL, traceback)
    assert shortage is not None
    assert shortage.part == part


def test_a_forward_pass_that_was_not_whole_is_given_more_room() -> None:
    found = explain_exception("OutOfMemoryError", FULL, ATTENTION, BEGIN)
    assert found is not None
    assert found.changes == {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4}
    assert "at least about" in found.way_out


def test_what_does_not_fit_in_halves_is_divided_further() -> None:
    # Twice as much as fits was asked for at once.
    message = FULL.replace("Tried to allocate 4.64 GiB", "Tried to allocate 140.00 GiB")
    found = explain_exception("OutOfMemoryError", message, BACKWARD, BEGIN)
    assert found is not None
    assert found.changes["per_device_train_batch_size"] == 4


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        ({"per_device_train_batch_size": 1}, {"gradient_checkpointing": True}),
        ({"per_device_train_batch_size": 1, "gradient_checkpointing": True}, {"max_length": 2048}),
        ({"per_device_train_batch_size": 1, "gradient_checkpointing": True, "max_length": None}, {}),
        ({"per_device_train_batch_size": 3}, {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 3}),
    ],
)
def test_a_batch_of_one_is_made_smaller_otherwise(settings: dict[str, Any], changes: dict[str, Any]) -> None:
    found = explain_exception("OutOfMemoryError", FULL, BACKWARD, _settings(**settings))
    assert found is not None
    assert found.changes == changes
    assert found.way_out


def test_an_evaluation_has_a_batch_of_its_own() -> None:
    begin = _settings(per_device_eval_batch_size=8)
    found = explain_exception("OutOfMemoryError", FULL, "in evaluation_loop\n", begin)
    assert found is not None
    assert list(found.changes) == ["per_device_eval_batch_size"]


def test_other_processes_on_the_card_are_named_first() -> None:
    found = explain_exception("OutOfMemoryError", SHARED, BACKWARD, BEGIN)
    assert found is not None
    assert found.cause.endswith("other processes held 70.1 GiB")
    assert found.way_out.startswith("Other processes hold what is lacking")


def test_a_model_that_does_not_fit_is_no_matter_of_the_batch() -> None:
    for begin in (None, BEGIN):
        found = explain_exception("OutOfMemoryError", FULL, LOADING, begin)
        assert found is not None
        assert found.way_out.startswith("The model itself does not fit")


def test_a_message_without_numbers_is_explained_without() -> None:
    shortage = read_shortage("CUDA error: out of memory")
    assert shortage == Shortage()
    remedy = remedy_for(shortage, BEGIN)
    assert remedy.words.startswith("per_device_train_batch_size 16 → 8, gradient_accumulation_steps 1 → 2. Or ")


@pytest.mark.parametrize(
    ("kind", "message", "known"),
    [
        ("AcceleratorError", "CUDA error: device-side assert triggered\nCUDA kernel errors might be", "device_assert"),
        ("AcceleratorError", "CUDA error: an illegal memory access was encountered", "illegal_access"),
        ("OSError", "[Errno 28] No space left on device", "disk_full"),
        ("RuntimeError", "[enforce fail at inline_container.cc:815] . PytorchStreamWriter failed writing", "disk_full"),
        ("GatedRepoError", "403 Client Error. Cannot access gated repo for url https://hub/x", "gated"),
        ("ValueError", "Your setup doesn't support bf16/gpu. You need torch>=1.10", "no_bf16"),
        ("RuntimeError", "FlashAttention only support fp16 and bf16 data type", "half_precision_attention"),
        ("RuntimeError", "DataLoader worker (pid 9) is killed by signal: Bus error. It is possible", "shared_memory"),
        ("RuntimeError", "DataLoader worker (pid(s) 9) exited unexpectedly", "loader_worker"),
        ("ValueError", "Can't find a valid checkpoint at True", "no_checkpoint"),
        ("DistNetworkError", "The server socket has failed to listen ... EADDRINUSE", "port"),
        ("torch.distributed.DistBackendError", "NCCL error in: x.cpp:1, unhandled system error", "nccl"),
    ],
)
def test_known_exceptions_have_a_cause_and_a_way_out(kind: str, message: str, known: str) -> None:
    found = explain_exception(kind, message)
    assert found is not None
    assert found.id == known
    assert found.cause
    assert found.way_out


def test_what_is_not_known_speaks_for_itself() -> None:
    for kind, message in (("ValueError", "no such column: 'text'"), ("KeyError", "'prompt'"), ("E", "out of memory")):
        assert explain_exception(kind, message) is None


def test_the_message_in_a_cause_is_one_harmless_line() -> None:
    found = explain_exception("ModuleNotFoundError", "No module named 'de\x1b[2Jep'\nsecond line")
    assert found is None
    found = explain_exception("ModuleNotFoundError", "No module named 'deep'\x1b[2J\nsecond line")
    assert found is not None
    assert found.cause == "a Python package is missing: No module named 'deep'"


def test_the_first_rank_that_failed_is_explained() -> None:
    def failed(rank: int, kind: str, message: str) -> dict[str, Any]:
        error = {"type": kind, "message": message, "traceback": BACKWARD}
        return {"event": "process_end", "rank": rank, "outcome": "failed", "error": error}

    events = [BEGIN, failed(1, "OutOfMemoryError", FULL), failed(0, "RuntimeError", "Connection closed by peer")]
    found = explain_events(events, "RuntimeError: Connection closed by peer")
    assert found is not None
    assert found.id == "out_of_memory"
    printed = explain_events([], "OSError: [Errno 28] No space left on device")
    assert printed is not None
    assert printed.id == "disk_full"
    assert explain_events([BEGIN], "") is None


def test_every_row_of_the_table_says_where_its_words_come_from() -> None:
    rows = known_endings()
    assert len({row.id for row in rows}) == len(rows) > 20
    assert all(row.source and row.way_out and row.cause for row in rows)


def test_the_kernels_own_count_tells_whether_it_has_ended_processes(tmp_path: Path) -> None:
    vmstat = tmp_path / "vmstat"
    assert oom_kills(vmstat) is None
    vmstat.write_text("pgfault 7\noom_kill 3\n")
    assert oom_kills(vmstat) == 3
    assert (struck_since(2, vmstat), struck_since(3, vmstat), struck_since(None, vmstat)) == (True, False, None)

"""How a run is spread and what its options need of the machine, each with its harmless neighbour."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kerneltui.facts.server import Package
from tests.advice.situations import GQA, H200, blocks, changes, findings, make_server

TWO = make_server(H200, H200)


def _packages(server: Any, **versions: str) -> Any:
    added = {name.replace("_", "-"): Package(version=version) for name, version in versions.items()}
    return msgspec.structs.replace(server, packages={**server.packages, **added})


def test_one_process_with_several_gpus() -> None:
    found = findings(server=TWO)["launching.data_parallel"]
    assert (found.severity, changes(found)) == ("block", [{"num_processes": 2}])
    assert findings(server=make_server(H200, H200, trl="1.14.2"))["launching.data_parallel"].severity == "warn"
    assert not findings(server=TWO, processes=2)
    assert not findings(server=TWO, gpus=(0,))
    assert not findings(server=TWO, given={"use_cpu": True})


def test_case_76_device_map_is_for_one_process() -> None:
    given = {"model_init_kwargs": {"device_map": "auto", "dtype": "bfloat16"}}
    found = findings(server=TWO, processes=2, given=given)["launching.device_map"]
    assert changes(found) == [{"model_init_kwargs": {"dtype": "bfloat16"}}]
    assert "launching.device_map" not in findings(given=given)
    assert not findings(server=TWO, processes=2, given={"model_init_kwargs": {"dtype": "bfloat16"}})


def test_context_parallelism() -> None:
    spread: dict[str, Any] = {"processes": 2, "server": TWO, "accelerate": {"parallelism_config_cp_size": "2"}}
    assert blocks(**spread) == set()
    assert blocks(**spread, given={"packing": True}) == {"launching.context_packing"}
    assert blocks(**spread, given={"attn_implementation": "eager"}) == {"launching.context_attention"}
    windowed = msgspec.structs.replace(GQA, window=512, layer_types=("full_attention", "sliding_attention"))
    assert blocks(**spread, model=windowed) == {"launching.context_window"}
    assert blocks("grpo", **spread) == {"launching.sequences"}
    assert blocks(processes=2, server=TWO, model=windowed, given={"packing": True}) == set()


def test_sequence_parallelism() -> None:
    spread: dict[str, Any] = {"processes": 2, "server": TWO}
    on = {"parallelism_config_sp_size": 2}
    assert blocks(**spread, accelerate=on) == set()
    named = {**on, "parallelism_config_sp_attn_implementation": "flex_attention"}
    assert blocks(**spread, accelerate=named) == {"launching.sequence_attention"}
    kernel = {**on, "parallelism_config_sp_attn_implementation": "kernels-community/flash-attn2"}
    assert blocks(**spread, accelerate=kernel) == set()
    assert blocks(**spread, accelerate=on, given={"loss_type": "dft"}) == {"launching.sequence_loss"}
    assert blocks(**spread, given={"loss_type": "dft"}) == set()
    hybrid = msgspec.structs.replace(GQA, layer_types=("linear_attention",))
    assert blocks(**spread, accelerate=on, model=hybrid) == {"launching.sequence_state"}
    assert blocks("rloo", **spread, accelerate=on) == {"launching.sequences"}


@pytest.mark.parametrize(
    ("option", "name"), [("activation_offloading", "launching.offloading"), ("use_liger_kernel", "launching.liger_cpu")]
)
def test_what_needs_a_gpu(option: str, name: str) -> None:
    assert blocks(given={"use_cpu": True, option: True}) == {name}
    assert changes(findings(given={"use_cpu": True, option: True})[name]) == [{option: None}]
    assert blocks(given={option: True}) == set()
    assert blocks(given={"use_cpu": True}) == set()


def test_weights_in_4_bits_need_their_package_and_an_adapter() -> None:
    there = _packages(make_server(H200), bitsandbytes="0.49.0")
    assert blocks(given={"load_in_4bit": True, "use_peft": True}) == {"launching.bitsandbytes"}
    assert blocks(server=there, given={"load_in_4bit": True}) == {"launching.quantized_weights"}
    assert blocks(server=there, given={"load_in_4bit": True, "use_peft": True}) == set()
    assert blocks(given={"use_peft": True}) == set()


def test_optimizers_of_other_packages() -> None:
    assert findings(given={"optim": "adamw_8bit"})["launching.optimizer"].severity == "block"
    assert findings(given={"optim": "schedule_free_adamw"})["launching.optimizer"].severity == "warn"
    assert not findings(given={"optim": "adamw_torch_fused"})
    assert not findings(server=_packages(make_server(H200), bitsandbytes="0.49.0"), given={"optim": "paged_adamw_8bit"})


def test_the_range_of_vllm() -> None:
    given = {"use_vllm": True}
    old = _packages(make_server(H200), vllm="0.21.0")
    assert findings("grpo", server=old, given=given)["launching.vllm_range"].severity == "warn"
    assert not findings("grpo", server=_packages(make_server(H200), vllm="0.31.0"), given=given)
    assert not findings("grpo", server=old)
    assert "launching.vllm_range" not in findings(
        "grpo", server=_packages(make_server(H200, trl="1.10.0"), vllm="0.21.0")
    )
    assert blocks("grpo", given=given) == {"experimental.vllm"}

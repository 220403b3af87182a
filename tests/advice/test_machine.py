"""Packages, GPUs and dtypes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kerneltui.facts.server import Package
from tests.advice.situations import (
    A100,
    B200,
    COMMUNITY,
    GQA,
    H200,
    MHA,
    T4,
    blocks,
    changes,
    findings,
    make_build,
    make_server,
)

FLASH2 = f"{COMMUNITY}/flash-attn2"
HALF_OFF = {"bf16": False, "attn_implementation": f"{FLASH2}@v2"}


def test_kernels_is_not_installed() -> None:
    finding = findings(server=make_server(H200, kernels=None), given={"attn_implementation": "a/b"})["packages.kernels"]
    assert (finding.severity, "is not installed" in finding.title) == ("block", True)


def test_kernels_does_not_import() -> None:
    server = make_server(H200)
    packages = {**server.packages, "kernels": Package(version="0.17.2", error="No module named 'x'")}
    server = msgspec.structs.replace(server, packages=packages)
    finding = findings(server=server, given={"attn_implementation": "a/b"})["packages.kernels"]
    assert "No module named 'x'" in finding.why


def test_packages_that_were_not_told_are_not_judged() -> None:
    server = make_server(H200, packages={})
    assert not findings(server=server, given={"use_liger_kernel": True, "attn_implementation": "flash_attention_2"})


def test_flash_attention_without_package_and_kernels() -> None:
    server = make_server(H200, kernels=None)
    finding = findings(server=server, given={"attn_implementation": "flash_attention_3"})["packages.flash_attention"]
    assert finding.severity == "block"
    assert finding.title.startswith("flash_attention_3 cannot load")
    packaged = make_server(H200, kernels=None, flash=("flash_attention_3",))
    assert not blocks(server=packaged, given={"attn_implementation": "flash_attention_3"})


def test_liger_is_not_installed() -> None:
    server = make_server(H200)
    packages = {name: package for name, package in server.packages.items() if name != "liger-kernel"}
    bare = msgspec.structs.replace(server, packages=packages)
    assert "packages.liger" in blocks(server=bare, given={"use_liger_kernel": True})
    assert not blocks(server=server, given={"use_liger_kernel": True})
    assert not findings(server=bare)


def test_torch_that_sees_no_gpu_although_there_is_one() -> None:
    server = make_server(H200)
    assert server.torch
    reason = {"devices": "No CUDA GPUs are available"}
    torch = msgspec.structs.replace(server.torch, device_count=0, unavailable=reason)
    blind = msgspec.structs.replace(server, torch=torch)
    finding = findings(server=blind)["device.no_gpu"]
    assert (finding.severity, "No CUDA GPUs are available" in finding.why) == ("block", True)
    assert findings(server=blind, given={"bf16": False})["device.no_gpu"].severity == "warn"
    assert not findings(server=blind, given={"use_cpu": True})
    old = msgspec.structs.replace(blind, driver_cuda="12.4", driver="550.54")
    assert blocks(server=old) == {"device.driver"}
    minor = msgspec.structs.replace(
        server, driver_cuda="12.4", torch=msgspec.structs.replace(server.torch, cuda="12.8")
    )
    assert not findings(server=minor)


def test_torch_that_was_not_asked() -> None:
    assert not findings(server=msgspec.structs.replace(make_server(), torch=None))


def test_a_gpu_that_is_not_there() -> None:
    finding = findings(server=make_server(H200, H200), gpus=(1, 3))["device.missing_gpu"]
    assert finding.severity == "block"
    assert finding.why.endswith("--gpus 1,0 would do.")
    assert not findings(server=make_server(H200, H200), gpus=(1,))


def test_the_gpus_of_the_file_s_environment() -> None:
    mixed = make_server(T4, A100)
    for name in ("1", "GPU-aaaa"):
        gpus = (mixed.gpus[0], msgspec.structs.replace(mixed.gpus[1], uuid="GPU-aaaabbbb-0000"))
        server = msgspec.structs.replace(mixed, gpus=gpus)
        assert not findings(server=server, given={"env": {"CUDA_VISIBLE_DEVICES": name}})
    assert blocks(server=mixed, given={"env": {"CUDA_VISIBLE_DEVICES": 0}}) == {"dtype.bf16"}
    nothing = findings(server=mixed, given={"env": {"CUDA_VISIBLE_DEVICES": ""}})
    assert set(nothing) == {"device.no_gpu"}
    absent = findings(server=mixed, given={"env": {"CUDA_VISIBLE_DEVICES": "5", "A": "b"}})
    assert set(absent) == {"device.missing_gpu"}
    assert changes(absent["device.missing_gpu"]) == [{"env": {"CUDA_VISIBLE_DEVICES": "0", "A": "b"}}]


def test_the_shell_s_own_choice_of_gpus() -> None:
    mixed = make_server(T4, A100, environment={"CUDA_VISIBLE_DEVICES": "1"})
    assert mixed.torch
    server = msgspec.structs.replace(mixed, torch=msgspec.structs.replace(mixed.torch, device_count=1))
    assert not findings(server=server)
    assert blocks(server=server, given={"env": {"CUDA_VISIBLE_DEVICES": "0"}}) == {"dtype.bf16"}
    hidden = msgspec.structs.replace(server.torch, device_count=0) if server.torch else None
    blind = msgspec.structs.replace(server, torch=hidden, environment={"CUDA_VISIBLE_DEVICES": ""})
    assert blocks(server=blind) == {"device.no_gpu"}
    assert not blocks(server=blind, gpus=(1,))


def test_more_processes_than_gpus() -> None:
    finding = findings(server=make_server(H200, H200), processes=8)["device.processes"]
    assert (finding.severity, changes(finding)) == ("block", [{"num_processes": 2}])
    assert blocks(server=make_server(H200, H200), gpus=(1,), processes=2) == {"device.processes"}
    assert not findings(server=make_server(H200, H200), processes=2)
    assert not findings(server=make_server(H200), processes=2, machines=2)
    assert not findings(server=make_server(H200), given={"use_cpu": True}, processes=4)


def test_gpus_that_are_chosen_twice() -> None:
    server = make_server(H200, H200)
    given = {"env": {"CUDA_VISIBLE_DEVICES": "1", "A": "b"}}
    found = findings(server=server, given=given, gpus=(0,))["device.chosen_twice.CUDA_VISIBLE_DEVICES"]
    assert (found.severity, changes(found)) == ("block", [{"env": {"A": "b"}}])
    assert not findings(server=server, given=given, gpus=(1,))
    assert not findings(server=server, given=given)
    secret = {"env": {"CUDA_VISIBLE_DEVICES": "1", "HF_TOKEN": "hf_secretsecret"}}
    assert changes(findings(server=server, given=secret, gpus=(0,))["device.chosen_twice.CUDA_VISIBLE_DEVICES"]) == []
    identifiers = findings(server=server, accelerate={"gpu_ids": "1"}, gpus=(0,))
    assert changes(identifiers["device.chosen_twice.gpu_ids"]) == [{"gpu_ids": None}]
    assert not findings(server=server, accelerate={"gpu_ids": "all"}, gpus=(0,))


def test_the_gpu_that_the_plan_names_is_judged() -> None:
    mixed = make_server(T4, A100)
    assert not findings(server=mixed, gpus=(1,))
    assert blocks(server=mixed, gpus=(0,)) == {"dtype.bf16"}
    assert blocks(server=mixed, processes=2) == {"dtype.bf16"}


def test_torch_built_without_the_card() -> None:
    old = make_server(B200, archs=("sm_80", "sm_90"))
    finding = findings(server=old)["device.architecture"]
    assert finding.severity == "block"
    install = "/opt/train/bin/python -m pip install --force-reinstall torch --index-url"
    assert finding.fixes[0].command == f"{install} https://download.pytorch.org/whl/cu130"
    for archs in (("sm_80", "sm_90", "compute_90"), ("sm_100",), ("sm_100a",), ("gfx942",), ()):
        assert not findings(server=make_server(B200, archs=archs))
    assert not findings(server=make_server(("NVIDIA L40S", (8, 9)), archs=("sm_80",)))
    assert blocks(server=make_server(("NVIDIA GB10", (12, 1)), archs=("sm_100", "sm_120a"))) == {"device.architecture"}


def test_bfloat16_is_on_by_default() -> None:
    server = make_server(T4)
    assert "unless fp16 is set" in findings(server=server)["dtype.bf16"].why
    named = findings(server=server, given={"bf16": True})["dtype.bf16"]
    assert changes(named) == [{"fp16": True, "bf16": None}]
    weights = findings(server=server, given={"bf16": False, "dtype": "bfloat16"})["dtype.bf16"]
    assert changes(weights) == [{"fp16": True, "bf16": None, "dtype": "float32"}]
    for given in ({"bf16": False}, {"fp16": True}, {"use_cpu": True}):
        assert not findings(server=server, given=given)


def test_flash_attention_does_not_compute_in_float32() -> None:
    finding = findings(given=HALF_OFF, build=make_build())["dtype.flash"]
    assert finding.severity == "block"
    assert changes(finding) == [{"dtype": "bfloat16"}, {"bf16": True}]
    full = msgspec.structs.replace(GQA, dtype="float32")
    assert blocks(model=full, given={**HALF_OFF, "dtype": "auto"}, build=make_build()) == {"dtype.flash"}
    packaged = make_server(H200, flash=("flash_attention_2",))
    assert blocks(server=packaged, given={**HALF_OFF, "attn_implementation": "flash_attention_2"}) == {"dtype.flash"}


@pytest.mark.parametrize(
    "change",
    [{"bf16": True}, {"bf16": None}, {"dtype": "bfloat16"}, {"dtype": "auto"}, {"attn_implementation": "sdpa"}],
)
def test_flash_attention_in_half_precision(change: dict[str, Any]) -> None:
    build = make_build() if "attn_implementation" not in change else None
    assert not findings(given={**HALF_OFF, **change}, build=build)


def test_other_kernels_may_compute_in_float32() -> None:
    given = {"bf16": False, "attn_implementation": "kerneltui/demo-attention"}
    build = make_build("v1", "torch-cuda", repository="kerneltui/demo-attention", archs=())
    assert not findings(given=given, build=build)
    cpu = make_build("v2", "torch211-cxx11-cpu-x86_64-linux", archs=())
    assert not blocks(server=make_server(), model=MHA, given={**HALF_OFF, "use_cpu": True}, build=cpu)


def test_a_dtype_that_is_not_known_is_not_guessed() -> None:
    given = {**HALF_OFF, "dtype": "auto"}
    assert not findings(model=None, given=given, build=make_build())
    assert not findings(given={**given, "dtype": None}, build=make_build())


def test_the_names_of_dtypes() -> None:
    for name, right in (("bf16", "bfloat16"), ("torch.float16", "float16"), ("flaot32", "float32")):
        finding = findings(given={"dtype": name})["dtype.name"]
        assert (finding.severity, changes(finding)) == ("block", [{"dtype": right}])
    assert changes(findings(given={"dtype": "int4x"})["dtype.name"]) == []


def test_a_kernel_for_the_gpu_in_a_run_on_the_cpu() -> None:
    given = {"use_cpu": True, "attn_implementation": f"{FLASH2}@v2"}
    assert blocks(given=given, build=make_build()) == {"device.kernel_on_cpu"}
    noarch = make_build("v1", "torch-cuda", repository="a/b", archs=())
    assert blocks(given={**given, "attn_implementation": "a/b"}, build=noarch) == {"device.kernel_on_cpu"}
    universal = make_build("v1", "torch-universal", repository="a/b", archs=())
    assert not findings(given={**given, "attn_implementation": "a/b"}, build=universal)
    packaged = make_server(H200, flash=("flash_attention_2",))
    native = {**given, "attn_implementation": "flash_attention_2"}
    assert blocks(server=packaged, given=native) == {"device.kernel_on_cpu"}

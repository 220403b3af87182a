"""Each rule about a server, with its harmless neighbour: the same server, a little better."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kerneltui.advice.finding import Finding
from kerneltui.advice.health import judge_server
from kerneltui.facts.server import (
    PENDING,
    Disk,
    Gpu,
    GpuProcess,
    HubAnswer,
    MigInstance,
    Package,
    Server,
    Stay,
    Toolchain,
    Torch,
)
from tests.servers import recorded

GIB = 1 << 30
HEALTHY = recorded("h200")


def changed(server: Server = HEALTHY, **changes: Any) -> Server:
    return msgspec.structs.replace(server, **changes)


def with_card(**changes: Any) -> Server:
    return changed(gpus=(msgspec.structs.replace(HEALTHY.gpus[0], **changes),))


def with_torch(server: Server = HEALTHY, **changes: Any) -> Server:
    assert server.torch
    return changed(server, torch=msgspec.structs.replace(server.torch, **changes))


SEVERAL = changed(with_torch(device_count=2), gpus=HEALTHY.gpus * 2)


def with_packages(**packages: Package | None) -> Server:
    """Return the healthy server with other packages; None takes one away."""
    named = {name.replace("_", "-"): package for name, package in packages.items()}
    found = {**HEALTHY.packages, **named}
    return changed(packages={name: package for name, package in found.items() if package is not None})


def broken(name: str, reason: str = "undefined symbol") -> Server:
    package = HEALTHY.packages.get(name, Package(version="2.8.3"))
    return changed(packages={**HEALTHY.packages, name: msgspec.structs.replace(package, error=reason)})


def disk(purpose: Any, free: int, total: int = 900 * GIB) -> Server:
    return changed(disks=(Disk(purpose=purpose, path="/data", free=free, total=total),))


def hub(**values: Any) -> Server:
    return changed(hub=HubAnswer(**{"endpoint": "https://hub.example", "seconds": 0.2, "kernels": True, **values}))


def process(memory: int) -> tuple[GpuProcess, ...]:
    return (GpuProcess(pid=7, user="alice", command="python train.py", memory=memory),)


def blind(**changes: Any) -> Server:
    """Return the healthy server with a torch that sees no device."""
    return with_torch(changed(**changes), device_count=0, arch_list=(), unavailable={"devices": "No CUDA GPUs"})


def without(server: Server, reason: str, **changes: Any) -> Server:
    """Return a server on which NVML does not start."""
    reasons = dict.fromkeys(("gpus", "driver", "driver_cuda"), reason)
    return changed(server, gpus=(), driver=None, driver_cuda=None, unavailable=reasons, **changes)


CPU_TORCH = Torch(version="2.11.0+cpu", unavailable={"devices": "Torch not compiled with CUDA enabled"})
OLD: dict[str, Any] = {"driver": "550.54.14", "driver_cuda": "12.4"}
EXCLUSIVE = "exclusive process"
PARTED = {"mig": True, "mig_instances": ()}
PART = MigInstance(uuid="MIG-aaaa", name="MIG 1g.18gb")

# The server, what is found, and servers a little better on which it is not found.
CASES: dict[str, tuple[Server, str, list[Server]]] = {
    "driver.mismatch": (without(blind(), "Driver/library version mismatch"), "block", [HEALTHY]),
    "driver.not_loaded": (without(blind(), "Driver Not Loaded"), "warn", [HEALTHY]),
    "driver.permission": (
        without(blind(), "Insufficient Permissions"),
        "block",
        [changed(driver=None, unavailable={"driver": "Insufficient Permissions"})],
    ),
    "driver.blocked": (
        without(blind(release="6.6.87.2-microsoft-standard-WSL2"), "Driver Not Loaded"),
        "block",
        [recorded("wsl"), without(blind(), "Driver Not Loaded")],
    ),
    "driver.hangs": (without(blind(), "no answer in 30 s: the driver hangs (look at dmesg)"), "block", [HEALTHY]),
    "driver.lost": (without(blind(), "Unknown Error"), "block", [HEALTHY]),
    "driver.no_nvml": (
        recorded("nvml-missing"),
        "warn",
        [recorded("rocm"), recorded("mac"), with_torch(recorded("nvml-missing"), device_count=0)],
    ),
    "gpu.none": (without(changed(torch=CPU_TORCH), "NVML Shared Library Not Found"), "warn", [recorded("mac")]),
    "device.driver": (
        blind(**OLD),
        "block",
        [changed(**OLD), with_torch(blind(**OLD), cuda="12.8"), changed(driver_cuda="13.2")],
    ),
    "torch.cpu_build": (changed(torch=CPU_TORCH), "block", [recorded("rocm"), recorded("mac"), recorded("no-gpu")]),
    "torch.hidden": (
        blind(environment={"CUDA_VISIBLE_DEVICES": "7"}),
        "warn",
        [changed(environment={"CUDA_VISIBLE_DEVICES": "0"})],
    ),
    "torch.no_device": (blind(), "block", [HEALTHY, blind(**OLD), blind(environment={"CUDA_VISIBLE_DEVICES": ""})]),
    "device.architecture": (
        with_torch(arch_list=("sm_70", "sm_80")),
        "block",
        [with_torch(arch_list=("sm_80", "compute_80")), with_torch(arch_list=()), with_torch(arch_list=("sm_90",))],
    ),
    "packages.missing": (with_packages(trl=None), "block", [changed(packages={}), with_packages(peft=None)]),
    "packages.broken.trl": (broken("trl"), "block", [HEALTHY]),
    "packages.broken.flash-attn": (broken("flash-attn"), "warn", [with_packages(flash_attn=Package(version="2.8.3"))]),
    "packages.broken.torch": (
        changed(torch=None, unavailable={"torch": "/x/torch is not a whole PyTorch"}),
        "block",
        [HEALTHY],
    ),
    "packages.range.trl": (
        with_packages(transformers=Package(version="4.40.0")),
        "warn",
        [with_packages(transformers=Package(version="5.30.0rc1")), with_packages(datasets=Package(version="?"))],
    ),
    "packages.kernels": (
        with_packages(kernels=Package(version="0.16.1")),
        "warn",
        [with_packages(kernels=Package(version="0.17.9")), changed(packages={})],
    ),
    "gpu.lost": (
        with_card(unavailable={"memory_total": "GPU is lost: it has fallen off the bus"}),
        "block",
        [with_card(unavailable={"nvlinks": "Not Supported"})],
    ),
    "gpu.busy": (
        with_card(memory_used=70 * GIB, processes=()),
        "warn",
        [
            with_card(memory_used=GIB, processes=process(GIB)),
            with_card(memory_used=70 * GIB, memory_unified=True, processes=()),
            with_card(memory_used=None, processes=None, utilization=None),
        ],
    ),
    "gpu.exclusive": (
        with_card(compute_mode=EXCLUSIVE, processes=process(GIB)),
        "block",
        [with_card(compute_mode=EXCLUSIVE), with_card(compute_mode=None, processes=process(GIB))],
    ),
    "gpu.ecc": (with_card(ecc_errors=2), "warn", [with_card(ecc_errors=None)]),
    "gpu.remap_failed": (with_card(remap_failed=True), "warn", [with_card(remap_failed=None)]),
    "gpu.remap_pending": (
        with_card(remap_pending=True),
        "note",
        [with_card(remap_pending=None), with_card(remap_pending=True, remap_failed=True)],
    ),
    "gpu.hot": (
        with_card(throttle=("thermal slowdown by the driver",)),
        "warn",
        [with_card(temperature=84), with_card(temperature=None), with_card(throttle=("power cap",))],
    ),
    "gpu.slowed": (
        with_card(throttle=("power brake", "power cap")),
        "warn",
        [with_card(throttle=("power cap", "application clocks are set")), with_card(throttle=None)],
    ),
    "gpu.mig_empty": (with_card(**PARTED), "block", [with_card(mig=True, mig_instances=(PART,)), with_card(mig=False)]),
    "gpu.mig": (with_card(mig=True, mig_instances=(PART,)), "note", [with_card(mig=False)]),
    "gpu.before_ampere": (
        with_card(name="Tesla T4", capability=(7, 5)),
        "note",
        [with_card(capability=(8, 0)), with_card(capability=None)],
    ),
    "gpu.bf16": (with_torch(bf16=False), "note", [with_torch(bf16=None)]),
    "gpu.several": (SEVERAL, "note", [HEALTHY, with_torch(recorded("mac"), device_count=2)]),
    "gpu.mixed": (
        changed(SEVERAL, gpus=(*HEALTHY.gpus, Gpu(index=1, name="Tesla T4", memory_total=15 * GIB))),
        "note",
        [SEVERAL],
    ),
    "gpu.unified": (with_card(memory_unified=True), "note", [HEALTHY]),
    "disk.runs": (disk("runs", 3 * GIB), "warn", [disk("runs", 30 * GIB)]),
    "disk.cache": (disk("cache", 3 * GIB), "warn", [disk("cache", 30 * GIB)]),
    "disk.shared_memory": (
        disk("shared memory", 60 << 20, 64 << 20),
        "note",
        [disk("shared memory", 60 << 20, 64 * GIB)],
    ),
    "memory.limit": (
        changed(memory_limit=4 * GIB),
        "warn",
        [changed(memory_limit=120 * GIB), changed(memory_limit=4 * GIB, gpus=())],
    ),
    "triton.toolchain": (
        changed(toolchain=Toolchain(compiler=None, headers="/usr/include")),
        "warn",
        [changed(toolchain=None), changed(with_packages(liger_kernel=None), toolchain=Toolchain())],
    ),
    "hub.offline": (
        changed(environment={"HF_HUB_OFFLINE": "1"}),
        "note",
        [changed(environment={"HF_HUB_OFFLINE": "0"})],
    ),
    "hub.unreachable": (
        hub(seconds=None, unavailable={"seconds": "timed out"}),
        "warn",
        [hub(), changed(hub(seconds=None, unavailable={"seconds": "x"}), environment={"HF_HUB_OFFLINE": "1"})],
    ),
    "hub.no_kernels": (hub(kernels=False), "warn", [hub(kernels=None)]),
    "hub.token": (
        hub(token="file", unavailable={"user": "the Hub does not accept the token"}),
        "warn",
        [hub(token="file", user="someone"), hub(), hub(token="file", unavailable={"user": "no answer in 8 s"})],
    ),
    "session.logout": (
        changed(stay=Stay(kill_user_processes=True, linger=False)),
        "warn",
        [changed(stay=Stay(kill_user_processes=True, linger=True)), changed(stay=Stay(kill_user_processes=None))],
    ),
    "session.slurm": (changed(stay=Stay(slurm_job="123")), "note", [changed(stay=None)]),
    "session.container": (
        changed(stay=Stay(container="docker")),
        "note",
        [changed(stay=Stay(container="docker", slurm_job="1"))],
    ),
}


def found(server: Server) -> dict[str, Finding]:
    return {finding.id: finding for finding in judge_server(server)}


@pytest.mark.parametrize("name", CASES)
def test_a_rule_and_its_harmless_neighbours(name: str) -> None:
    server, severity, neighbours = CASES[name]
    assert found(server)[name].severity == severity
    for neighbour in neighbours:
        assert name not in found(neighbour)


def test_what_one_card_has_does_not_block_the_others() -> None:
    gpus = (with_card(**PARTED, compute_mode="prohibited").gpus[0], HEALTHY.gpus[0])
    told = found(changed(SEVERAL, gpus=gpus))
    assert {told["gpu.mig_empty"].severity, told["gpu.exclusive"].severity} == {"warn"}
    foreign = changed(SEVERAL, gpus=(with_card(capability=(12, 0)).gpus[0], HEALTHY.gpus[0]))
    assert found(with_torch(foreign, arch_list=("sm_90",)))["device.architecture"].severity == "warn"


def test_offline_needs_a_filled_cache() -> None:
    offline = {"HF_HUB_OFFLINE": "1"}
    for cached, severity in ((0, "warn"), (3, "note"), (None, "note")):
        assert found(changed(hub(cached=cached), environment=offline))["hub.offline"].severity == severity


def test_shared_memory_matters_more_to_several_cards() -> None:
    small = changed(disk("shared memory", 60 << 20, 64 << 20), torch=SEVERAL.torch)
    assert found(small)["disk.shared_memory"].severity == "warn"


def test_a_disk_that_is_full_blocks_and_a_full_cache_does_not() -> None:
    assert found(disk("runs", GIB // 4))["disk.runs"].severity == "block"
    assert found(disk("cache", GIB // 4))["disk.cache"].severity == "warn"


def test_one_disk_for_both_is_said_once() -> None:
    both = (*disk("runs", GIB).disks, *disk("cache", GIB).disks)
    told = found(changed(disks=both))
    assert "disk.cache" not in told
    assert told["disk.runs"].title == "Little space for runs, checkpoints and the Hub's cache: 1.0 GiB"
    apart = (*disk("runs", GIB).disks, *disk("cache", GIB, 100 * GIB).disks)
    assert {"disk.runs", "disk.cache"} <= set(found(changed(disks=apart)))


def test_the_driver_that_a_cuda_needs_and_the_torch_that_this_driver_runs() -> None:
    finding = found(blind(**OLD))["device.driver"]
    assert "It needs driver 580.65.06 or newer." in finding.why
    assert [fix.command for fix in finding.fixes] == [
        "/opt/train/bin/python -m pip install --force-reinstall torch --index-url "
        "https://download.pytorch.org/whl/cu128"
    ]
    ancient = found(blind(driver="470.42", driver_cuda="11.4"))["device.driver"]
    assert ancient.fixes == ()


def test_what_fails_for_want_of_another_package_is_said_once() -> None:
    packages = {name: package for name, package in HEALTHY.packages.items() if name != "torch"}
    packages["accelerate"] = Package(version="1.15.0", error="ModuleNotFoundError: No module named 'torch'")
    packages["peft"] = Package(version="0.19.1", error="SyntaxError: invalid syntax")
    bare = changed(torch=None, packages=packages, unavailable={"torch": "No module named 'torch'"})
    assert set(found(bare)) == {"packages.missing", "packages.broken.peft"}
    assert [str(fix.command).partition("install ")[2] for fix in found(bare)["packages.missing"].fixes] == [
        "--force-reinstall torch --index-url https://download.pytorch.org/whl/cu130"
    ]


def test_what_fails_because_of_a_broken_package_is_said_once() -> None:
    reason = "ImportError: undefined symbol: ncclFoo"
    errors = {"transformers": reason, "trl": f"RuntimeError: Failed to import trl because of {reason}"}
    packages = {name: msgspec.structs.replace(it, error=errors.get(name)) for name, it in HEALTHY.packages.items()}
    told = [name for name in found(changed(packages=packages)) if name.startswith("packages.broken")]
    assert told == ["packages.broken.transformers"]
    errors = {"torch": "it is not whole", "trl": "No module named 'torch.utils'", "peft": "from 'torch' (x)"}
    packages = {name: msgspec.structs.replace(it, error=errors.get(name)) for name, it in HEALTHY.packages.items()}
    told = [name for name in found(changed(packages=packages)) if name.startswith("packages.broken")]
    assert told == ["packages.broken.torch"]


def test_what_is_still_being_read_is_no_finding() -> None:
    names = ("gpus", "driver", "driver_cuda", "packages", "torch", "libraries", "toolchain", "hub", "stay")
    early = Server(
        time="",
        hostname="h",
        system="Linux",
        machine="x86_64",
        interpreter="p",
        unavailable=dict.fromkeys(names, PENDING),
    )
    assert judge_server(early) == ()
    versions = changed(early, packages=HEALTHY.packages, unavailable={"torch": PENDING, "gpus": PENDING})
    assert judge_server(versions) == ()
    cards = changed(recorded("nvml-missing"), stay=None, unavailable={"driver": PENDING})
    assert judge_server(cards) == ()


def test_a_range_names_what_is_asked_for_and_what_there_is() -> None:
    finding = found(with_packages(transformers=Package(version="4.40.0")))["packages.range.trl"]
    assert finding.title == "trl 1.16.0 asks for transformers>=4.56.2; installed: transformers 4.40.0"
    assert finding.fixes[0].command == "/opt/train/bin/python -m pip install 'transformers>=4.56.2'"


def test_a_compiler_for_conda_goes_into_its_environment() -> None:
    finding = found(changed(toolchain=Toolchain(), installer="conda"))["triton.toolchain"]
    assert finding.fixes[0].command == "conda install -p /opt/train -c conda-forge gcc gxx"
    assert found(changed(toolchain=Toolchain()))["triton.toolchain"].fixes[0].command == (
        "sudo apt-get install gcc python3.12-dev"
    )


def test_every_rule_has_a_case() -> None:
    """A recorded server or a case above gives each identifier that the rules can give."""
    import ast
    from pathlib import Path

    from kerneltui.advice import health

    written = set()
    for path in Path(health.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "id" and isinstance(node.value, ast.Constant):
                written.add(node.value.value)
    assert len(written) > 25
    assert written <= set(CASES)

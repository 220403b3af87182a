"""What would load on a server, from the Hub's answers and kernels' rules together, held against kernels itself."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerneltui.errors import HubError, UsageError
from kerneltui.facts.builds import judge, judge_commit, judge_repository, local_kernels, system_values
from kerneltui.facts.hub import Hub
from kerneltui.facts.kernel_records import KernelBuild, KernelMetadata
from kerneltui.facts.server import Gpu, Libraries, Server, Torch
from kerneltui.interpreter import Asker
from tests.hub import LoopbackHub, installed_torch, machine_variant
from tests.hub.process import run_python
from tests.hub.repositories import METADATA

FLASH = "kernels-community/flash-attn2"
V2 = "db6b51744f0cd7061386442c09df890fc6d9f47e"


@pytest.fixture(scope="module")
def asker() -> Iterator[Asker]:
    """Return the asker of this interpreter."""
    with Asker(Path(sys.executable)) as started:
        yield started


def server(torch: Torch | None, **fields: Any) -> Server:
    """Return a server report with what the decisions depend on."""
    known = {"time": "", "hostname": "here", "system": "Linux", "machine": "x86_64", "python": "3.11.7"}
    return Server(**{**known, "interpreter": sys.executable, "torch": torch, **fields})


def this_server() -> Server:
    """Return a report of the machine that runs the tests."""
    torch = installed_torch()
    return server(Torch(version=torch["__version__"], cuda=torch["cuda"], cxx11_abi=True))


def gpu_server(capability: tuple[int, int], *others: tuple[int, int]) -> Server:
    """Return a report of a machine with torch 2.11 for CUDA 13.0 and one GPU of each capability."""
    gpus = tuple(Gpu(index=index, capability=it) for index, it in enumerate((capability, *others)))
    torch = Torch(version="2.11.0+cu130", cuda="13.0", cxx11_abi=True, device_count=len(gpus))
    return server(torch, gpus=gpus)


H200 = gpu_server((9, 0))


def reasons(build: KernelBuild) -> dict[str, str | None]:
    """Return the reason of each variant."""
    return {decision.variant: decision.reason for decision in build.decisions}


def test_no_difference_from_get_kernel_variants(hub: LoopbackHub, asker: Asker) -> None:
    """Every branch of every repository: the same variants, decisions, reasons, and the same best one."""
    wanted = [[repository.id, name] for repository in hub.repositories.values() for name in repository.branches]
    source = """
import kernels
from huggingface_hub.errors import RemoteEntryNotFoundError
decided = []
for repo, branch in arguments[0]:
    try:
        trace = kernels.get_kernel_variants(repo, revision=branch)
        decided.append([[it.variant.variant_str, getattr(it, "reason", None)] for it in trace])
    except RemoteEntryNotFoundError:
        decided.append(None)
print(json.dumps(decided))
"""
    theirs = run_python(source, hub, wanted)
    client = Hub(hub.url)
    for (repo, branch), decided in zip(wanted, theirs, strict=True):
        if decided is None:
            with pytest.raises(HubError, match=f"{repo}@{branch} has no build/ folder"):
                judge(asker, client, repo, branch, this_server())
            continue
        build = judge(asker, client, repo, branch, this_server())
        assert reasons(build) == dict(decided), (repo, branch)
        assert build.variant == next((name for name, reason in decided if reason is None), None)
        assert build.commit == hub.repository(repo).branches[branch][0].id
    assert sum(decided is not None for decided in theirs) > 70


def test_the_kernel_that_really_loads_is_the_one_that_was_named(hub: LoopbackHub, asker: Asker, tmp_path: Path) -> None:
    """`get_kernel` downloads, runs forward and backward, and agrees with torch's own attention."""
    source = """
import kernels, torch
kernel = kernels.get_kernel("kernels-community/flash-attn2", revision="v2")
torch.manual_seed(0)
q, k, v = (torch.randn(2, 7, heads, 16, requires_grad=True) for heads in (4, 2, 2))
weight = torch.randn(2, 7, 4, 16)
ours = kernel.flash_attn_func(q, k, v, causal=True)
theirs = torch.nn.functional.scaled_dot_product_attention(
    *(it.transpose(1, 2) for it in (q, k, v)), is_causal=True, enable_gqa=True
).transpose(1, 2)
torch.testing.assert_close(ours, theirs)
gradients = [torch.autograd.grad((it * weight).sum(), (q, k, v)) for it in (ours, theirs)]
torch.testing.assert_close(*gradients)
loaded = kernels.get_loaded_kernels()[0]
print(json.dumps([loaded.repo_info.repo_id, loaded.repo_info.revision, loaded.module.__file__, loaded.metadata.id]))
"""
    calls = tmp_path / "calls.json"
    repo, revision, file, identifier = run_python(source, hub, KERNELTUI_TEST_CALLS=str(calls))
    build = judge(asker, Hub(hub.url), FLASH, "v2", this_server())
    assert (repo, revision) == (build.repository, build.revision)
    assert f"snapshots/{build.commit}/build/{build.variant}/" in file
    assert build.metadata is not None
    assert identifier == build.metadata.id
    assert calls.read_text() == '{"dense": 1, "varlen": 0}'


def test_a_build_says_commit_variant_and_metadata(hub: LoopbackHub, asker: Asker) -> None:
    build = judge(asker, Hub(hub.url), FLASH, "v2", H200)
    assert (build.commit, build.variant, build.source) == (V2, "torch211-cxx11-cu130-x86_64-linux", "hub")
    assert build.metadata == KernelMetadata(
        name="flash-attn2",
        id="_flash_attn2_cuda_db6b517",
        version=2,
        license="BSD-3-Clause",
        backend="cuda",
        archs=("8.0", "9.0", "10.0", "12.0"),
    )
    assert reasons(build)["torch211-cxx11-cu128-x86_64-linux"] == (
        "CUDA version (12.8) is not compatible with system CUDA version (13.0)"
    )


def test_a_commit_is_a_revision(hub: LoopbackHub, asker: Asker) -> None:
    build = judge(asker, Hub(hub.url), FLASH, "239bb21bd566f598d7e2228eab9788b0a9239b2d", H200)
    assert build.variant == "torch-stable-abi210-cu130-x86_64-linux"
    assert build.metadata is not None
    assert build.metadata.id == "_flash_attn2_cuda_2d6ecf3"


def test_nothing_fits(hub: LoopbackHub, asker: Asker) -> None:
    build = judge(asker, Hub(hub.url), FLASH, "v1", server(Torch(version="2.14.0+cpu", cxx11_abi=True)))
    assert (build.variant, build.metadata) == (None, None)
    assert set(reasons(build).values()) == {
        f"Torch version (2.{minor}) does not match environment Torch version (2.14)" for minor in (10, 11, 12)
    }


@pytest.mark.parametrize(
    ("chosen", "error"),
    [
        (None, "CUDA capability 7.5 of the current device is not supported by the architectures of the build: "),
        ([0], None),
        ([1], "CUDA capability 7.5 of the current device is not supported by the architectures of the build: "),
    ],
)
def test_the_build_must_support_every_chosen_gpu(
    hub: LoopbackHub, asker: Asker, chosen: list[int] | None, error: str | None
) -> None:
    build = judge(asker, Hub(hub.url), FLASH, "v2", gpu_server((9, 0), (7, 5)), gpus=chosen)
    assert build.metadata is not None
    assert build.metadata.arch_error == (error and error + "8.0, 9.0, 10.0, 12.0")


def test_missing_packages(hub: LoopbackHub, asker: Asker) -> None:
    build = judge(asker, Hub(hub.url), "kernels-community/flash-attn4", "v0", H200)
    assert build.metadata is not None
    assert build.metadata.python_depends == ("einops", "tvm-ffi", "nvidia-cutlass-dsl")
    assert set(build.metadata.missing_depends) <= {"einops", "apache-tvm-ffi", "nvidia-cutlass-dsl"}


def old_server(torch: str) -> Server:
    """Return a machine with an older torch, for CUDA 12.8."""
    return server(Torch(version=torch, cuda="12.8", cxx11_abi=True, device_count=1), gpus=(Gpu(capability=(9, 0)),))


@pytest.mark.parametrize(
    ("torch", "error"),
    [
        ("2.7.1+cu128", "there is no metadata.json"),
        ("2.8.0+cu128", "Cannot parse metadata: missing field `name` at line 4 column 1"),
        ("2.9.1+cu128", "Cannot parse metadata: missing field `name` at line 12 column 1"),
    ],
)
def test_builds_with_metadata_that_kernels_cannot_read(hub: LoopbackHub, asker: Asker, torch: str, error: str) -> None:
    build = judge(asker, Hub(hub.url), FLASH, "main", old_server(torch))
    assert build.variant is not None
    assert build.metadata == KernelMetadata(error=error)


def test_metadata_that_is_not_text(hub: LoopbackHub, asker: Asker) -> None:
    hub.add("kernel", "kernels-community/odd", {"build/torch-universal/metadata.json": b"\xff\xfe"})
    build = judge(asker, Hub(hub.url), "kernels-community/odd", "main", H200)
    assert build.metadata is not None
    assert str(build.metadata.error).startswith("metadata.json is not UTF-8: ")


def test_folders_that_are_no_variants_are_named(hub: LoopbackHub, asker: Asker) -> None:
    files = {"build/whatever/__init__.py": b"", "build/torch-universal/metadata.json": b"{}"}
    hub.add("kernel", "kernels-community/odd", files)
    build = judge(asker, Hub(hub.url), "kernels-community/odd", "main", H200)
    assert build.variant == "torch-universal"
    assert str(reasons(build)["whatever"]).startswith("not a build variant that kernels ")


def test_errors_of_the_hub_come_through(hub: LoopbackHub, asker: Asker) -> None:
    client = Hub(hub.url)
    for repo, revision, kind in [
        ("kernels-community/nope", "v1", "not_found"),
        (FLASH, "v77", "no_revision"),
        ("kernels-community/relu", "main", "no_build"),
    ]:
        with pytest.raises(HubError) as caught:
            judge(asker, client, repo, revision, H200)
        assert caught.value.kind == kind
    hub.fail("/kernels/", status=503)
    with pytest.raises(HubError, match="The Hub has a failure of its own"):
        judge(asker, client, FLASH, "v2", H200)


def test_no_build_is_told_of_the_branch_not_of_its_commit(hub: LoopbackHub, asker: Asker) -> None:
    with pytest.raises(HubError, match="kernels-community/relu@main has no build/ folder"):
        judge(asker, Hub(hub.url), "kernels-community/relu", "main", H200)


def test_requests_for_one_build(hub: LoopbackHub, asker: Asker) -> None:
    judge(asker, Hub(hub.url), FLASH, "v2", H200)
    assert [request for request in hub.requests if "agent-harnesses" not in request] == [
        f"GET /api/kernels/{FLASH}/refs",
        f"GET /api/kernels/{FLASH}/tree/{V2}/build?recursive=false&expand=false",
        f"GET /kernels/{FLASH}/resolve/{V2}/build/torch211-cxx11-cu130-x86_64-linux/metadata.json",
    ]


def test_the_commit_of_a_pin_is_not_asked_for(hub: LoopbackHub, asker: Asker) -> None:
    client = Hub(hub.url)
    assert judge_commit(asker, client, FLASH, V2, client.commit_of(FLASH, V2), H200, metadata=False).metadata is None
    assert [request for request in hub.requests if "agent-harnesses" not in request] == [
        f"GET /api/kernels/{FLASH}/tree/{V2}/build?recursive=false&expand=false",
    ]
    with_metadata = judge(asker, client, FLASH, V2, H200)
    assert judge_commit(asker, client, FLASH, V2, V2, H200, metadata=False) == with_metadata  # it was kept


def test_all_revisions_of_a_repository(hub: LoopbackHub, asker: Asker) -> None:
    builds = judge_repository(asker, Hub(hub.url), FLASH, H200)
    assert [(build.revision, build.variant) for build in builds] == [
        ("v4", "torch-stable-abi210-cu130-x86_64-linux"),
        ("v3", "torch-stable-abi210-cu130-x86_64-linux"),
        ("v2", "torch211-cxx11-cu130-x86_64-linux"),
        ("v1", None),
        ("main", None),
    ]
    relu = judge_repository(asker, Hub(hub.url), "kernels-community/relu", H200)
    assert [build.revision for build in relu] == ["v1"]  # its main has no build/
    assert judge_repository(asker, Hub(hub.url), f"{FLASH}@v2", H200) == [builds[2]]


def test_a_repository_without_any_build(hub: LoopbackHub, asker: Asker) -> None:
    with pytest.raises(HubError, match="kernels-community/gemm@main has no build/ folder"):
        judge_repository(asker, Hub(hub.url), "kernels-community/gemm", H200)


def test_a_failure_on_one_revision_is_not_passed_over(hub: LoopbackHub, asker: Asker) -> None:
    hub.fail(f"/api/kernels/{FLASH}/tree/{V2}", status=503)
    with pytest.raises(HubError, match="The Hub has a failure of its own"):
        judge_repository(asker, Hub(hub.url), FLASH, H200)


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """Return a local kernel repository with one build for any torch."""
    folder = tmp_path / "local" / "build" / "torch-universal"
    folder.mkdir(parents=True)
    shutil.copy(METADATA / "05_fa2_cpu.json", folder / "metadata.json")
    return tmp_path / "local"


def test_local_kernels_come_before_the_hub(hub: LoopbackHub, asker: Asker, local: Path) -> None:
    here = server(Torch(version="2.13.0+cpu", cxx11_abi=True), environment={"LOCAL_KERNELS": f"{FLASH}={local}"})
    build = judge(asker, Hub(hub.url), FLASH, "v2", here)
    assert (build.source, build.commit, build.revision) == ("local", "local", "v2")
    assert build.variant == "torch-universal"
    assert build.metadata is not None
    assert build.metadata.id == "_flash_attn2_cpu_2d6ecf3"
    assert build.content_hash is not None
    assert len(build.content_hash) == 64
    assert hub.requests == []
    assert judge(asker, Hub(hub.url), FLASH, "v3", here).content_hash == build.content_hash


def test_a_local_kernel_that_is_not_there(hub: LoopbackHub, asker: Asker, tmp_path: Path) -> None:
    here = server(None, environment={"LOCAL_KERNELS": f"{FLASH}={tmp_path / 'nowhere'}"})
    build = judge(asker, Hub(hub.url), FLASH, "v2", here)
    assert (build.source, build.variant, build.decisions, build.content_hash) == ("local", None, (), None)


def test_the_format_of_local_kernels() -> None:
    assert local_kernels({}) == {}
    assert local_kernels({"LOCAL_KERNELS": "a/b=/x:c/d=/y=z"}) == {"a/b": "/x", "c/d": "/y=z"}
    for broken in ("", "a/b", "a/b=/x:"):
        with pytest.raises(UsageError) as caught:
            local_kernels({"LOCAL_KERNELS": broken})
        assert str(caught.value) == (
            "LOCAL_KERNELS cannot be read\n"
            f"{broken.rpartition(':')[2]!r} is not of the form repository=path; "
            "kernels then refuses to load any kernel.\n"
            "Write LOCAL_KERNELS=owner/name=/path (several with : between them), or unset it."
        )


@pytest.mark.parametrize(
    ("torch", "backend"),
    [
        (Torch(version="2.13.0+cpu"), "cpu"),
        (Torch(version="2.11.0+cu130", cuda="13.0"), "cu130"),
        (Torch(version="2.6.0", cuda="12.4"), "cu124"),
        (Torch(version="2.12.0", hip="7.1.25424-4179531dcd"), "rocm71"),
        (Torch(version="2.12.0+xpu", xpu="20250301"), "xpu20253"),
        (Torch(version="2.13.0", xpu="20260000"), "xpu20260"),
        (None, "cpu"),
    ],
)
def test_the_backend_is_that_of_the_torch_build(torch: Torch | None, backend: str) -> None:
    assert system_values(server(torch))["backend"] == backend


def test_the_system_of_a_server() -> None:
    libraries = Libraries(tvm_ffi="0.1.7")
    torch = Torch(version="2.14.0.dev20261101+cu132", cuda="13.2", cxx11_abi=True)
    assert system_values(server(torch, machine="aarch64", libraries=libraries)) == {
        "backend": "cu132",
        "machine": "aarch64",
        "os": "linux",
        "torch": "2.14",
        "cxx11_abi": True,
        "tvm_ffi": "0.1",
    }
    windows = system_values(server(torch, system="Windows", machine="AMD64"))
    assert (windows["machine"], windows["os"], windows["cxx11_abi"]) == ("x86_64", "windows", None)
    mac = system_values(server(Torch(version="2.12.0"), system="Darwin", machine="arm64"))
    assert (mac["machine"], mac["backend"]) == ("aarch64", "metal")


def test_this_machine_has_a_variant_on_the_loopback_hub(hub: LoopbackHub, asker: Asker) -> None:
    build = judge(asker, Hub(hub.url), FLASH, "v4", this_server())
    assert machine_variant() in {decision.variant for decision in build.decisions if decision.accepted}

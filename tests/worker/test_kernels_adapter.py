"""The adapter over kernels against kernels itself: variants, metadata and local directories."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import kernels
import pytest
from kernels import verify
from kernels.verify import VerificationResult
from sigstore.errors import TUFError

from kerneltui.worker import kernels_adapter
from tests.hub import LoopbackHub, machine_variant
from tests.hub.process import run_python
from tests.hub.repositories import METADATA, kernel_repositories
from tests.worker.systems import MORE_NAMES, PATCH, SYSTEMS, grid

CPU = SYSTEMS["CPU, torch 2.13"]
H200 = SYSTEMS["CUDA 13.0, torch 2.11"]
CAPABILITIES = [[7, 5], [8, 0], [8, 6], [8, 9], [9, 0], [10, 0], [10, 3], [12, 0], [12, 1]]

# What the build's architectures say of each of CAPABILITIES.
SUPPORTED = {
    "01_fa2_v3_stable_abi_cu130": "-++++++++",
    "02_fa3_v1_stable_abi_cu126": "-++++----",
    "06_activation_cu126_default_archs": "+++++++++",
    "10_minver_too_new": "----+----",
}
BROKEN = {
    "90_broken_fa2_torch28": "missing field `name` at line 4 column 1",
    "91_broken_fa2_torch29_partial": "missing field `name` at line 12 column 1",
    "92_broken_fa4_main": "missing field `name` at line 9 column 1",
    "93_broken_deep_gemm_backend_no_name": "missing field `name` at line 11 column 1",
    "94_broken_minver_two_components": "Version has 2 components, expected 3 at line 5 column 26",
}
FILES = sorted(path.stem for path in METADATA.glob("*.json"))


def all_names() -> list[str]:
    """Return the variants of all repositories and one of every other form."""
    paths = [
        path
        for repository in kernel_repositories()
        for history in repository.branches.values()
        for path in history[0].files
    ]
    return sorted({path.split("/")[1] for path in paths if path.startswith("build/")} | set(MORE_NAMES))


@pytest.fixture(scope="module")
def kernels_own(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[str | None]]]:
    """Return what kernels itself decides about all names on a process made to look like each system."""
    source = (
        PATCH
        + """
systems, names = arguments
decided = {}
for title, system in systems.items():
    become(system)
    decided[title] = decide(names)
print(json.dumps(decided))
"""
    )
    with LoopbackHub(tmp_path_factory.mktemp("hub")) as hub:
        decided: dict[str, list[list[str | None]]] = run_python(source, hub, SYSTEMS, all_names())
    return decided


@pytest.mark.parametrize("title", SYSTEMS)
def test_decisions_are_those_of_kernels(title: str, kernels_own: dict[str, list[list[str | None]]]) -> None:
    ours = {it["variant"]: it["reason"] for it in kernels_adapter.variants(all_names(), SYSTEMS[title])}
    theirs = {str(name): reason for name, reason in kernels_own[title]}
    assert ours == theirs
    assert [name for name in ours if ours[name] is None] == [name for name in theirs if theirs[name] is None]
    assert sorted(ours) == all_names()


PUBLIC = (
    PATCH
    + """
systems, wanted = arguments
decided = []
for system in systems:
    become(system)
    for repository, branch in wanted:
        trace = kernels.get_kernel_variants(repository, revision=branch)
        decided.append([[it.variant.variant_str, getattr(it, "reason", None)] for it in trace])
print(json.dumps(decided))
"""
)


def differences(systems: list[dict[str, Any]], tmp_path: Path) -> tuple[int, list[Any]]:
    """Return how many decisions of the public `get_kernel_variants` were compared, and where ours differ.

    kernels runs in a process whose backend, platform and torch version are those of each system, against the loopback
    Hub with every list of variants of the data file.
    """
    with LoopbackHub(tmp_path) as hub:
        lists: dict[tuple[str, ...], tuple[str, str]] = {}
        for repository in hub.repositories.values():
            for branch, history in repository.branches.items():
                names = sorted({path.split("/")[1] for path in history[0].files if path.startswith("build/")})
                if names:
                    lists.setdefault(tuple(names), (repository.id, branch))
        theirs = iter(run_python(PUBLIC, hub, systems, list(lists.values())))
    compared, wrong = 0, list[Any]()
    for system in systems:
        for listed in lists:
            ours = [[it["variant"], it["reason"]] for it in kernels_adapter.variants(list(listed), system)]
            decided = next(theirs)
            compared += len(decided)
            same = sorted(ours) == sorted(decided)  # kernels does not rank those that it refuses
            if not same or [it for it in ours if not it[1]] != [it for it in decided if not it[1]]:
                wrong.append((system, listed, ours, decided))
    return compared, wrong


def test_no_difference_from_the_public_answer_on_some_systems(tmp_path: Path) -> None:
    compared, wrong = differences(grid()[::17], tmp_path)
    assert (compared > 2000, wrong) == (True, [])


@pytest.mark.full
def test_no_difference_from_the_public_answer_on_any_system(tmp_path: Path) -> None:
    systems = grid()
    compared, wrong = differences(systems, tmp_path)
    print(f"{len(systems)} systems, {compared} decisions, {len(wrong)} lists that differ")
    assert (len(systems), compared > 40_000, wrong) == (140, True, [])


def test_best_first() -> None:
    names = ["torch-universal", "torch-cuda", "torch211-cxx11-cu130-x86_64-linux", "torch211-cu130-x86_64-linux"]
    names += ["torch-stable-abi210-cu130-x86_64-linux", "torch211-cxx11-cu128-x86_64-linux"]
    decided = kernels_adapter.variants(names, H200)
    assert [it["variant"] for it in decided] == [names[4], names[3], names[2], names[1], names[0], names[5]]
    assert decided[-1]["reason"] == "CUDA version (12.8) is not compatible with system CUDA version (13.0)"


def test_the_order_does_not_depend_on_the_order_of_the_question() -> None:
    assert kernels_adapter.variants(all_names()[::-1], CPU) == kernels_adapter.variants(all_names(), CPU)


@pytest.mark.parametrize(
    "name", ["whatever", "torch213", "torch213-cxx11-cpu", "torch29-cxx11-cu0128-x86_64-linux", ""]
)
def test_folders_that_are_no_variants(name: str) -> None:
    decided = kernels_adapter.variants([name, "torch-cpu"], CPU)
    reason = f"not a build variant that kernels {kernels.__version__} knows"
    assert decided == [{"variant": "torch-cpu", "reason": None}, {"variant": name, "reason": reason}]


def ask(stem: str, capability: list[int] | None = None, gcn_arch: str | None = None) -> dict[str, Any]:
    """Return what the adapter says of one of the metadata files."""
    text = (METADATA / f"{stem}.json").read_text()
    return kernels_adapter.metadata(text, "torch-cuda", H200, capability, gcn_arch)


def test_all_metadata_files_are_looked_at() -> None:
    assert len(FILES) == 15


@pytest.mark.parametrize("stem", [stem for stem in FILES if stem not in BROKEN])
def test_metadata_says_what_is_in_the_file(stem: str) -> None:
    written = json.loads((METADATA / f"{stem}.json").read_text())
    read = ask(stem)
    assert {key: read[key] for key in ("name", "id", "version", "license")} == {
        key: written[key] for key in ("name", "id", "version", "license")
    }
    assert read["python_depends"] == written["python-depends"]
    assert read["backend"] == written["backend"]["type"]
    assert read["archs"] == written["backend"].get("archs", [])
    assert read["kernels_minimum"] == written.get("kernels-minver")


@pytest.mark.parametrize("stem", BROKEN)
def test_metadata_that_kernels_cannot_read(stem: str) -> None:
    assert ask(stem) == {"error": f"Cannot parse metadata: {BROKEN[stem]}"}


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00"])
def test_metadata_that_is_no_json_object(text: str) -> None:
    assert ask_text(text)["error"].startswith("Cannot parse metadata: ")


def ask_text(text: str) -> dict[str, Any]:
    """Return what the adapter says of a text."""
    return kernels_adapter.metadata(text, "torch-cuda", H200)


@pytest.mark.parametrize("stem", SUPPORTED)
def test_architectures_of_a_build(stem: str) -> None:
    refused = [ask(stem, capability)["arch_error"] for capability in CAPABILITIES]
    assert "".join("-" if reason else "+" for reason in refused) == SUPPORTED[stem]
    assert ask(stem)["arch_error"] is None


def test_the_reason_for_an_architecture() -> None:
    assert ask("10_minver_too_new", [10, 0])["arch_error"] == (
        "CUDA capability 10.0 of the current device is not supported by the architectures of the build: 9.0a"
    )


def test_a_build_that_needs_a_newer_kernels() -> None:
    read = ask("10_minver_too_new", [9, 0])
    assert read["load_error"] == (
        "Kernel 'example-kernel' variant 'torch-cuda' requires kernels>=0.18.0, but version "
        f"{kernels.__version__} is installed. Upgrade with: pip install --upgrade kernels"
    )
    assert read["kernel_depends"] == ["kernels-community/einops@v1"]


def test_dependencies_of_a_kernel_on_kernels() -> None:
    made = json.loads((METADATA / "05_fa2_cpu.json").read_text())
    made["kernel-depends"] = [{"repo-id": "a/b", "revision": "main"}, {"repo-id": "c/d", "version": 2}]
    assert ask_text(json.dumps(made))["kernel_depends"] == ["a/b@main", "c/d@v2"]


def test_dependency_that_kernels_does_not_know() -> None:
    made = json.loads((METADATA / "05_fa2_cpu.json").read_text()) | {"python-depends": ["leftpad"]}
    assert ask_text(json.dumps(made))["load_error"] == (
        "Kernel module `flash_attn2` uses unsupported kernel dependency: leftpad"
    )


def test_missing_packages_are_named_as_pip_knows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    read = ask("03_fa4_v0_noarch_cuda")
    assert read["missing_depends"] == ["einops", "apache-tvm-ffi", "nvidia-cutlass-dsl"]
    assert read["load_error"] is None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert ask("03_fa4_v0_noarch_cuda")["missing_depends"] == []


def test_refusals_are_those_of_kernels(hub: LoopbackHub) -> None:
    """kernels' own validators, with a torch that reports each GPU, refuse exactly what the adapter says."""
    source = (
        PATCH
        + """
from kernels import Metadata
from kernels.archs import _check_arch_incompatibility
from kernels.validate import default_metadata_validators

def refusal(check):
    try:
        check()
    except (RuntimeError, ImportError, ValueError) as error:
        return str(error)

files, system, capabilities = arguments
become(system)
torch.cuda.is_available = lambda: True
said = {}
for stem, text in files.items():
    read = Metadata.from_bytes(text.encode())
    archs = []
    for capability in capabilities:
        torch.cuda.get_device_capability = lambda: capability
        archs.append(refusal(lambda: _check_arch_incompatibility(read, "torch-cuda")))
    validators = [refusal(lambda: it.validate_metadata(metadata=read, variant="torch-cuda"))
                  for it in default_metadata_validators()]
    said[stem] = [archs, [it for it in validators if it]]
print(json.dumps(said))
"""
    )
    files = {stem: (METADATA / f"{stem}.json").read_text() for stem in FILES if stem not in BROKEN}
    for stem, (archs, refused) in run_python(source, hub, files, H200, CAPABILITIES).items():
        for capability, theirs in zip(CAPABILITIES, archs, strict=True):
            ours = ask(stem, capability)["arch_error"]
            assert (ours is None) == (theirs is None), (stem, capability)
            assert ours is None or f"does not support the current device: {ours}. " in theirs
        read = ask(stem)
        assert bool(read["missing_depends"] or read["load_error"]) == bool(refused), stem
        for package in read["missing_depends"][:1]:
            assert refused[0].endswith(f"Please install with: pip install {package}")
        if read["load_error"]:
            assert read["load_error"] in refused


def test_rocm_architectures(hub: LoopbackHub) -> None:
    source = (
        PATCH
        + """
import types
from kernels import Metadata
from kernels.archs import _check_arch_incompatibility
text, system, devices = arguments
become(system)
torch.cuda.is_available, torch.cuda.current_device = lambda: True, lambda: 0
said = []
for device in devices:
    torch.cuda.get_device_properties = lambda index: types.SimpleNamespace(gcnArchName=device)
    try:
        _check_arch_incompatibility(Metadata.from_bytes(text.encode()), "v")
        said.append(None)
    except RuntimeError as error:
        said.append(str(error))
print(json.dumps(said))
"""
    )
    devices = ["gfx90a:sramecc+:xnack-", "gfx942", "gfx950", "gfx1200"]
    text = (METADATA / "07_activation_rocm.json").read_text()
    theirs = run_python(source, hub, text, SYSTEMS["ROCm 7.1, torch 2.12"], devices)
    ours = [ask("07_activation_rocm", gcn_arch=device)["arch_error"] for device in devices]
    assert [reason is None for reason in ours] == [reason is None for reason in theirs] == [True, True, False, False]
    assert all(mine is None or mine in reason for mine, reason in zip(ours, theirs, strict=True))


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """Return a folder with local kernels in every form that LOCAL_KERNELS takes, and some that it does not."""
    text = (METADATA / "05_fa2_cpu.json").read_text()

    def build(folder: Path, metadata: str = text) -> None:
        folder.mkdir(parents=True)
        (folder / "metadata.json").write_text(metadata)
        (folder / "__init__.py").write_text("value = 1\n")

    build(tmp_path / "repository" / "build" / machine_variant())
    build(tmp_path / "repository" / "build" / "torch-cuda")
    (tmp_path / "repository" / "torch-ext").mkdir()
    shutil.copytree(tmp_path / "repository" / "build", tmp_path / "builds")
    build(tmp_path / "any-name")
    build(tmp_path / "noarch" / "build" / "torch-universal")
    build(tmp_path / "other" / "build" / "torch-rocm")
    build(tmp_path / "broken" / "build" / "torch-universal", "{}")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    return tmp_path


def test_local_kernels_are_found_as_kernels_finds_them(local: Path, hub: LoopbackHub) -> None:
    source = """
from pathlib import Path
import torch
from kernels._rust import KernelDependency, KernelVersion
from kernels.backends import _backend
from kernels.resolver import RepoPathsResolver
found = {}
for path in arguments[0]:
    kernel = KernelDependency(repo_id="a/b", version=KernelVersion.Revision("main"))
    resolver = RepoPathsResolver(local_kernels={"a/b": Path(path)})
    try:
        found[path] = [str(resolver.resolve(api=None, backend=None, kernel=kernel).variant_path), None]
    except (FileNotFoundError, ValueError) as error:
        found[path] = [None, type(error).__name__]
print(json.dumps([found, _backend().variant_str, torch.__version__, torch.compiled_with_cxx11_abi()]))
"""
    paths = [str(path) for path in [*sorted(local.iterdir()), local / "nowhere"] if path.name != "huggingface"]
    theirs, backend, version, abi = run_python(source, hub, paths)
    system = {**CPU, "backend": backend, "torch": ".".join(version.split(".")[:2]), "cxx11_abi": abi}
    for path in paths:
        ours = kernels_adapter.local(path, system)
        directory, error = theirs[path]
        assert (ours["metadata"] or {}).get("error") is None or error == "ValueError"
        if error != "ValueError":  # a ValueError comes from the metadata of a variant that was found
            assert ours["directory"] == directory, path
    found = {path: kernels_adapter.local(path, system)["variant"] for path in paths}
    assert [Path(path).name for path, variant in found.items() if variant is None] == [
        "empty",
        "file",
        "other",
        "nowhere",
    ]


def test_local_answers_are_complete(local: Path) -> None:
    answer = kernels_adapter.local(str(local / "other"), CPU)
    reason = "backend (rocm) does not match system backend (cpu) and is not universal"
    assert answer["variants"] == [{"variant": "torch-rocm", "reason": reason}]
    assert (answer["directory"], answer["metadata"], answer["content_hash"]) == (None, None, None)
    broken = kernels_adapter.local(str(local / "broken"), CPU)
    assert broken["metadata"] == {"error": "Cannot parse metadata: missing field `name` at line 1 column 2"}
    named = kernels_adapter.local(str(local / "any-name"), CPU)
    assert named["variants"] == [{"variant": "any-name", "reason": None}]
    assert named["metadata"]["name"] == "flash-attn2"


def test_content_hash_tells_contents_apart_and_nothing_else(local: Path) -> None:
    first, second = local / "any-name", local / "noarch" / "build" / "torch-universal"
    expected = kernels_adapter.content_hash(first)
    assert len(expected) == 64
    assert kernels_adapter.content_hash(second) == expected
    (second / "__pycache__").mkdir()
    (second / "__pycache__" / "x.pyc").write_bytes(b"1")
    assert kernels_adapter.content_hash(second) == expected
    (second / "__init__.py").write_text("value = 2\n")
    assert kernels_adapter.content_hash(second) != expected
    (second / "__init__.py").rename(second / "init.py")
    (second / "init.py").write_text("value = 1\n")
    assert kernels_adapter.content_hash(second) != expected


class Trusting:
    """Stands in for sigstore's verifier, whose keys come from a network: every signature holds."""

    def verify_artifact(self, *_: object) -> None:
        """Find nothing."""


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a build whose signature would hold, with the digest of its files in metadata.json."""
    monkeypatch.setattr(verify.Bundle, "from_json", lambda text: text)
    monkeypatch.setattr(verify.Verifier, "production", Trusting)
    folder = tmp_path / "torch-cuda"
    folder.mkdir()
    (folder / "__init__.py").write_text("x = 1\n")
    digest = base64.b64encode(hashlib.sha256((folder / "__init__.py").read_bytes()).digest()).decode()
    told = json.loads((METADATA / f"{FILES[0]}.json").read_text())
    told["digest"] = {"algorithm": "sha256", "files": {"__init__.py": digest}}
    (folder / "metadata.json").write_text(json.dumps(told))
    (folder / "metadata.json.sigstore").write_text("{}")
    return folder


def test_a_signature_is_what_kernels_own_verification_says(build: Path) -> None:
    assert verify.verify_variant(build) == VerificationResult.Success()
    assert kernels_adapter.signature(str(build)) == {"state": "signed", "reason": None}

    (build / "__init__.py").write_text("x = 2\n")
    result = verify.verify_variant(build)
    assert isinstance(result, VerificationResult.DigestVerificationFailure)
    found = kernels_adapter.signature(str(build))
    assert (found["state"], found["reason"]) == ("invalid", "; ".join(map(str, result.violations)))

    (build / "metadata.json.sigstore").unlink()
    assert verify.verify_variant(build) == VerificationResult.SignatureBundleMissing()
    assert kernels_adapter.signature(str(build)) == {"state": "unsigned", "reason": None}


def test_a_signature_that_cannot_be_read_is_not_one(tmp_path: Path) -> None:
    (tmp_path / "metadata.json.sigstore").write_text("{}")
    result = verify.verify_variant(tmp_path)
    assert isinstance(result, VerificationResult.SignatureBundleInvalid)
    assert kernels_adapter.signature(str(tmp_path)) == {"state": "invalid", "reason": result.reason}


def test_a_signature_is_not_checked_without_the_keys_of_sigstore(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise TUFError("no keys")

    monkeypatch.setattr(verify.Verifier, "production", none)
    assert kernels_adapter.signature(str(build)) == {"state": "unchecked", "reason": "no keys"}

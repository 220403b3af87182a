"""The one adapter over kernels' private functions: which variants fit a system, and what their metadata says.

kernels decides for the machine that it runs on; these questions name the system, so that the asker (which
sees no GPU) and a plan for another machine get the same answers. Written against kernels 0.17.2; the tests
hold every answer against the public `get_kernel_variants`, `get_kernel` and the resolver for LOCAL_KERNELS.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
from pathlib import Path
from typing import Any

Decision = dict[str, Any]


def variants(names: list[str], system: dict[str, Any]) -> list[Decision]:
    """Return `{"variant", "reason"}` for each name, best first; the reason of an accepted one is None.

    `system` has "backend" (as in a variant's name: cpu, cu130, rocm71, xpu20253, metal), "machine" (x86_64,
    aarch64), "os" (linux, darwin, windows), "cxx11_abi" (true, false), and "torch", "tvm_ffi" and "macos"
    (versions as major.minor); each but the first three may be missing.
    """
    import kernels

    parsed = {name: _parse(name) for name in sorted(set(names))}
    known = {variant: name for name, variant in parsed.items() if variant is not None}
    unknown = [name for name, variant in parsed.items() if variant is None]
    trace = _trace(list(known), system)
    decided = {known[decision.variant]: getattr(decision, "reason", None) for decision in trace}
    for name in known.values():  # on a free-threaded Python kernels drops compiled builds without a word
        decided.setdefault(name, "kernels does not consider it on this Python")
    decided |= dict.fromkeys(unknown, f"not a build variant that kernels {kernels.__version__} knows")
    return [{"variant": name, "reason": reason} for name, reason in decided.items()]


def metadata(
    text: str,
    variant: str,
    system: dict[str, Any],
    capability: list[int] | None = None,
    gcn_arch: str | None = None,
    packages: list[str] | None = None,
) -> dict[str, Any]:
    """Return metadata.json as kernels reads it, and what kernels would refuse it for; see `KernelMetadata`.

    `capability` (CUDA) or `gcn_arch` (ROCm) is that of the GPU; None leaves out the check, as kernels does
    without a GPU. Dependencies are looked for in this interpreter, or among the `packages` of another machine.
    """
    from kernels import Metadata
    from kernels.backends import parse_backend

    try:
        read = Metadata.from_bytes(text.encode())
    except ValueError as error:
        return {"error": str(error)}
    missing, unsupported = _dependencies(read, parse_backend(system["backend"]), packages)
    archs = read.backend.archs or []
    return {
        "name": str(read.name),
        "id": read.id,
        "version": read.version,
        "license": read.license,
        "python_depends": read.python_depends,
        "missing_depends": missing,
        "kernel_depends": [_dependency(other) for other in read.kernel_depends],
        "kernels_minimum": str(read.kernels_minver) if read.kernels_minver else None,
        "backend": str(read.backend.backend_type).lower(),
        "archs": archs,
        "arch_error": _arch_error(read, capability, gcn_arch) if archs else None,
        "load_error": _too_old(read, variant) or unsupported,
    }


def local(
    path: str, system: dict[str, Any], capability: list[int] | None = None, digest: bool = True
) -> dict[str, Any]:
    """Return what kernels takes from a LOCAL_KERNELS `path`: a repository, its build/, or a variant's folder.

    "variants" is as `variants` returns it; "variant", "directory", "metadata" (as `metadata` returns it) and
    "content_hash" (without `digest` always) are None when nothing fits.
    Source: `kernels.resolver.resolve_local_kernel`.
    """
    folder, decisions = _find_local(Path(path), system)
    if folder is None:
        return {
            "variants": decisions,
            "variant": None,
            "directory": None,
            "metadata": None,
            "content_hash": None,
        }
    return {
        "variants": decisions,
        "variant": folder.name,
        "directory": str(folder),
        "metadata": _read_local(folder, system, capability),
        "content_hash": content_hash(folder) if digest else None,
    }


def content_hash(folder: Path) -> str:
    """Return the SHA-256 (hex) over path, size and bytes of all files but bytecode, in the order of paths."""
    digest = hashlib.sha256()
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    for name in sorted(name for name in files if not name.endswith(".pyc")):
        digest.update(f"{name}\0{files[name].stat().st_size}\0".encode())
        with files[name].open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def signature(path: str) -> dict[str, str | None]:
    """Return what kernels' own verification says of a build's folder: "state", and "reason" where it has one.

    The state is "signed", "unsigned", "invalid" (signature or content is not what was signed), or "unchecked": the
    signature needs sigstore's keys, which come from a network. kernels itself loads a build whatever it is.
    Source: `kernels.verify.verify_variant`, as `kernels verify-signature` calls it.
    """
    if not (Path(path) / "metadata.json.sigstore").is_file():
        return {"state": "unsigned", "reason": None}  # kernels asks this first too; its import of sigstore takes long
    try:
        from kernels.verify import VerificationResult, verify_variant
        from sigstore.errors import Error
    except ImportError as error:
        return {"state": "unchecked", "reason": str(error)}
    try:
        result = verify_variant(Path(path))
    except (Error, OSError) as error:
        return {"state": "unchecked", "reason": str(error)}
    if isinstance(result, VerificationResult.Success):
        return {"state": "signed", "reason": None}
    if isinstance(result, VerificationResult.SignatureBundleMissing):
        return {"state": "unsigned", "reason": None}
    violations = getattr(result, "violations", None)
    reason = "; ".join(map(str, violations)) if violations else getattr(result, "reason", None)
    return {"state": "invalid", "reason": reason or type(result).__name__}


def _parse(name: str) -> Any:
    """Return kernels' variant of that name, or None where its name for it would be another one or none."""
    from kernels.variants import parse_variant

    try:
        variant = parse_variant(name)
    except ValueError:
        return None
    return variant if variant.variant_str == name else None


def _trace(known: list[Any], system: dict[str, Any]) -> list[Any]:
    """Return kernels' decisions on `known`, the accepted ones first, best first."""
    from kernels.backends import parse_backend
    from kernels.variants import _resolve_variant_for_system
    from packaging.version import Version

    def version(key: str) -> Any:
        return Version(system[key]) if system.get(key) else None

    _, trace = _resolve_variant_for_system(
        variants=known,
        selected_backend=parse_backend(system["backend"]),
        cpu=system["machine"],
        os=system["os"],
        torch_version=version("torch"),
        torch_cxx11_abi=system.get("cxx11_abi"),
        tvm_ffi_version=version("tvm_ffi"),
        macos_version=version("macos"),
    )
    return list(trace)


def _dependencies(read: Any, backend: Any, packages: list[str] | None) -> tuple[list[str], str | None]:
    """Return the packages that are missing, and kernels' words on a dependency that it does not know."""
    from kernels.python_deps import _DEPENDENCY_DATA, validate_dependencies

    missing: list[str] = []
    for name in read.python_depends:
        try:
            with contextlib.suppress(ImportError):
                validate_dependencies(read.name.python_name, [name], backend)
        except ValueError as error:
            return missing, str(error)
        known = {**_DEPENDENCY_DATA.backends.get(backend.name, {}), **_DEPENDENCY_DATA.general}[name]
        missing += [it.pkg for it in known.python if it.import_name and not _installed(it, packages)]
    return missing, None


def _installed(package: Any, packages: list[str] | None) -> bool:
    return importlib.util.find_spec(package.import_name) is not None if packages is None else package.pkg in packages


def _dependency(other: Any) -> str:
    """Return a kernel dependency as "repository@revision"; a version N is the branch vN."""
    version = getattr(other.version, "version", None)
    return f"{other.repo_id}@{other.version.revision if version is None else f'v{version}'}"


def _arch_error(read: Any, capability: list[int] | None, gcn_arch: str | None) -> str | None:
    """Return kernels' reason when the build does not support the GPU.

    The rule and the words are those of `kernels.archs._check_arch_incompatibility`, which asks torch for the
    GPU.
    """
    from kernels._rust import Backend
    from kernels.archs import _supports_cuda_capability

    archs, backend = read.backend.archs, read.backend.backend_type
    device = None
    if backend == Backend.CUDA and capability and not _supports_cuda_capability(archs, tuple(capability)):
        device = "CUDA capability {}.{}".format(*capability)
    elif backend == Backend.ROCm and gcn_arch and gcn_arch.split(":")[0] not in archs:
        device = f"ROCm arch {gcn_arch.split(':')[0]}"
    if device is None:
        return None
    named = ", ".join(archs)
    return f"{device} of the current device is not supported by the architectures of the build: {named}"


def _too_old(read: Any, variant: str) -> str | None:
    """Return kernels' words when the build asks for a newer kernels than is installed."""
    from kernels.validate import MinverValidator

    try:
        MinverValidator().validate_metadata(metadata=read, variant=variant)
    except RuntimeError as error:
        return str(error)
    return None


def _find_local(path: Path, system: dict[str, Any]) -> tuple[Path | None, list[Decision]]:
    """Return the folder of the variant that kernels takes, and its decisions on all that lie there."""
    decisions: list[Decision] = []
    for base in (path, path / "build"):
        names = [entry.name for entry in base.iterdir() if entry.is_dir()] if base.is_dir() else []
        # What lies beside build/ in a repository is no variant, and kernels does not mention it.
        decisions = variants([name for name in names if _parse(name) is not None], system)
        if decisions and decisions[0]["reason"] is None:
            return base / decisions[0]["variant"], decisions
    if (path / "metadata.json").exists():  # the variant's own folder: taken whatever its name
        return path, [{"variant": path.name, "reason": None}]
    return None, decisions


def _read_local(folder: Path, system: dict[str, Any], capability: list[int] | None) -> dict[str, Any]:
    try:
        text = (folder / "metadata.json").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return {"error": f"cannot read metadata.json: {error}"}
    return metadata(text, folder.name, system, capability)


HANDLERS = {
    "kernels.variants": variants,
    "kernels.metadata": metadata,
    "kernels.local": local,
    "kernels.signature": signature,
}

"""Whether a build whose name fits would load on a server, and what is known of its CPU builds."""

from __future__ import annotations

from packaging.version import Version

from kerneltui.advice import known
from kerneltui.advice.finding import Severity
from kerneltui.facts.kernel_records import KernelBuild, KernelMetadata
from kerneltui.facts.packages import read_version
from kerneltui.facts.server import Server

# The source in which the CPU build of flash-attn2 was read to have no backward; other versions were not read.
_CPU_WITHOUT_BACKWARD = 3


def load_problem(metadata: KernelMetadata | None, server: Server) -> str | None:
    """Return why kernels would not load a build whose name fits, whatever the GPU; None where it would."""
    if metadata is None:
        return None
    if metadata.error:
        return f"its metadata.json cannot be read: {metadata.error.splitlines()[0]}"
    if metadata.missing_depends:
        return f"it needs Python packages that are not installed: {', '.join(metadata.missing_depends)}"
    return refusal(metadata, installed_kernels(server))


def refusal(metadata: KernelMetadata, installed: Version | None) -> str | None:
    """Return why the kernels package that is `installed` refuses a build by its metadata; None where it does not."""
    if metadata.load_error:
        return metadata.load_error
    if is_older(installed, metadata.kernels_minimum):
        return f"It asks for kernels {metadata.kernels_minimum} or newer; {installed} is installed."
    return None


def is_older(installed: Version | None, needed: str | None) -> bool:
    """Return whether a version is lower than a needed one; False where one of them is not known."""
    wanted = read_version(needed)
    return installed is not None and wanted is not None and installed < wanted


def installed_kernels(server: Server) -> Version | None:
    """Return the version of the kernels package on a server, None where it is not there or cannot be read."""
    package = server.packages.get("kernels")
    return read_version(package.version) if package else None


def platform_name(server: Server) -> str:
    """Return what builds must fit, for a sentence: torch and the processor."""
    return f"torch {server.torch.version} on {server.machine}" if server.torch else "this server"


def cpu_backward(build: KernelBuild) -> Severity | None:
    """Return "block" for a CPU build of flash-attn2 without a backward, "warn" where none was read; else None."""
    if build.repository != known.FLASH_ATTENTION_2 or "-cpu" not in (build.variant or ""):
        return None
    return "block" if known.major_version(build.revision, build) == _CPU_WITHOUT_BACKWARD else "warn"

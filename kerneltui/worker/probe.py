"""The probe: what the training interpreter has and what its torch sees.

A fresh process; it takes no memory on a GPU. Each question imports something that may raise, exit or take the process
with it: the answer to each is `{"value", "reason"}`, and whoever asks starts another process for the next question.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable
from typing import Any

from .library_tables import attempt, read_tables, reason
from .protocol import Handler, serve
from .toolchain import read_toolchain
from .torch_adapter import read_torch

PACKAGES = (
    *("torch", "transformers", "trl", "kernels", "liger-kernel", "accelerate", "datasets", "peft"),
    *("huggingface_hub", "tokenizers", "flash-attn", "flash-attn-3", "flash-attn-4", "vllm", "triton"),
    *("bitsandbytes", "deepspeed", "einops", "helion", "apache-tvm-ffi", "nvidia-cutlass-dsl", "nki"),
)


def main() -> None:
    """Serve the questions."""
    # Before torch is imported: the numbers of its devices must be those that nvidia-smi shows.
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    read: dict[str, Callable[..., Any]] = {
        "python": read_python,
        "torch": read_torch,
        "libraries": read_tables,
        "toolchain": read_toolchain,
        "import": importlib.import_module,
    }
    serve({name: _attempted(name, question) for name, question in read.items()})


def _attempted(name: str, read: Callable[..., Any]) -> Handler:
    """Return the handler that answers with what `read` gives, or with the reason why it gives nothing."""

    def answer(**arguments: Any) -> dict[str, Any]:
        unavailable: dict[str, str] = {}
        value = attempt(name, functools.partial(read, **arguments), unavailable)
        # A module that was imported has no place in an answer.
        return {"value": None if name == "import" else value, "reason": unavailable.get(name)}

    return answer


def read_python() -> dict[str, Any]:
    """Return what the interpreter is, the names of all packages that are looked for, and those that are there."""
    return {
        "version": platform.python_version(),
        "implementation": sys.implementation.name,
        "names": PACKAGES,
        "packages": read_packages(),
    }


def read_packages() -> dict[str, dict[str, Any]]:
    """Return version, error and requirements (as their metadata write them) of the installed ones of `PACKAGES`."""
    found: dict[str, dict[str, Any]] = {}
    for name in PACKAGES:
        try:
            metadata = importlib.metadata.distribution(name).metadata
            version, requires = metadata["Version"], metadata.get_all("Requires-Dist") or []
        except importlib.metadata.PackageNotFoundError:
            continue
        # Metadata that an interrupted installation left half-written, in whatever way.
        except Exception as error:  # noqa: BLE001
            found[name] = {
                "version": "",
                "error": f"its metadata cannot be read: {reason(error)}",
                "requires": [],
            }
            continue
        # Metadata without a version gives None.
        found[name] = {
            "version": version or "",
            "error": None if version else "its metadata names no version",
            "requires": requires,
        }
    return found

"""Attention kernels that are wrong in one way each: the demo's kernel with a fault around it."""

from __future__ import annotations

import functools
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

DEMO = Path(__file__).parents[2] / "kerneltui/demo/attention"

FAULTS = (
    *("backward_raises", "gradient_of_k", "leaks", "odd_nan", "ignores_window", "no_gradient", "float32_only"),
    *("killed", "exits", "hangs", "illegal_access"),
)


class _Behind(torch.autograd.Function):
    """Leaves a tensor as it is; its gradient is multiplied, or raises where `factor` is None."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, factor: float | None) -> Tensor:
        ctx.factor = factor
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        if ctx.factor is None:
            raise RuntimeError("Dimension out of range (expected to be in range of [-5, 4], but got 126301640993808)")
        return gradients[0] * ctx.factor, None


def spoil(fault: str, dense: Any, varlen: Any) -> tuple[Any, Any]:
    """Return FlashAttention's two functions with a fault."""

    def spoilt(original: Any, q: Tensor, k: Tensor, v: Tensor, *places: Any, **options: Any) -> Tensor:
        if fault == "killed":
            os.kill(os.getpid(), signal.SIGSEGV)
        if fault == "exits":
            os._exit(1)
        while fault == "hangs":
            time.sleep(1)
        if fault == "illegal_access" and original is varlen:  # on a GPU: keys far behind the last
            options["cu_seqlens_k"] = options["cu_seqlens_k"] + 2_000_000_000
        if fault == "ignores_window":
            options["window_size"] = (-1, -1)
        if fault == "gradient_of_k":
            k = _Behind.apply(k, 0.5)
        if fault == "leaks" and original is varlen:
            shared = {name: value for name, value in options.items() if "seqlen" not in name}
            return dense(q[None], k[None], v[None], **shared)[0]
        with torch.set_grad_enabled(fault != "no_gradient"):
            output: Tensor = original(q, k, v, *places, **options)
        if fault == "backward_raises" and q.shape[-2] != k.shape[-2]:
            output = _Behind.apply(output, None)
        longest = options.get("max_seqlen_q", q.shape[1])
        if fault == "odd_nan" and int(longest) % 2:
            output = output * float("nan")
        return output * 1.05 if fault == "float32_only" and q.dtype != torch.float32 else output

    # transformers reads the names of the arguments to see what a kernel can do.
    return _signed(dense, spoilt), _signed(varlen, spoilt)


def _signed(original: Any, spoilt: Any) -> Any:
    return functools.wraps(original)(functools.partial(spoilt, original))


def make_kernel(folder: Path, fault: str) -> Path:
    """Write a kernel repository with a fault, as LOCAL_KERNELS takes it, and return its folder."""
    for backend in ("cpu", "cuda"):
        build = folder / f"build/torch-{backend}"
        build.mkdir(parents=True)
        metadata = json.loads((DEMO / f"build/torch-{backend}/metadata.json").read_text())
        (build / "metadata.json").write_text(json.dumps({**metadata, "name": "faulty", "id": f"_faulty_{fault}"}))
        (build / "_demo.py").write_text((DEMO / "demo_attention.py").read_text())
        (build / "_faults.py").write_text(Path(__file__).read_text())
        functions = "_demo.flash_attn_func, _demo.flash_attn_varlen_func"
        (build / "__init__.py").write_text(
            "from . import _demo, _faults\n"
            f"flash_attn_func, flash_attn_varlen_func = _faults.spoil({fault!r}, {functions})\n"
        )
    return folder

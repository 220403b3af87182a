"""The preflight: one attention implementation loaded as training loads it, and tried at a model's shapes.

A fresh process, on one device. Each case is a question of its own, so that whoever asks knows at which one the process
died or hung. `preflight.load` comes first.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from .protocol import progress, serve


class Preflight:
    """What was loaded, and the cases that it is tried on."""

    def load(
        self,
        implementation: str,
        shapes: list[dict[str, Any]],
        dtype: str,
        device: str,
        length: int,
        batch: int,
        packed: bool,
        allow_all_kernels: bool = False,
    ) -> dict[str, Any]:
        """Load an implementation and return its "name" there, "seconds", "loaded" kernels, and "cases" in words.

        `device` is "cpu" or "cuda": the first device that the process sees. "speed" has the case of the measurement.
        """
        began = time.perf_counter()
        progress("importing torch and transformers")
        waking = _wake(device)
        from . import attention_call
        from .attention_cases import plan_cases, speed_case
        from .loaded import loaded_kernels

        progress(f"loading {implementation}")
        self.name = attention_call.load(implementation, allow_all_kernels=allow_all_kernels)
        self.cases = plan_cases(shapes, dtype, length, device)
        if waking.is_alive():
            waking.join()
        self.measured = speed_case(shapes[0], dtype, length, batch, packed, device)
        return {
            "name": self.name,
            "seconds": time.perf_counter() - began,
            "loaded": loaded_kernels(),
            "cases": [case.describe() for case in self.cases],
            "speed": self.measured.describe(),
        }

    def case(self, number: int) -> list[dict[str, Any]]:
        """Return the checks of a case."""
        from .attention_call import attention, baseline
        from .attention_checks import try_case

        case = self.cases[number]
        return try_case(attention(self.name), attention(baseline(self.name, case.shape)), case)

    def speed(self, implementation: str) -> dict[str, Any]:
        """Return the milliseconds of "forward" and "backward" of an implementation, or the "reason" for none."""
        import torch

        from .attention_call import attention
        from .attention_speed import measure

        try:
            return measure(attention(implementation), self.measured)
        except torch.OutOfMemoryError:
            return {"reason": "there was no memory for it on the card"}
        except Exception as error:  # noqa: BLE001 - whatever it raises is why there is no figure
            return {"reason": f"{type(error).__name__}: {error}"}
        finally:
            if self.measured.device != "cpu":
                torch.cuda.empty_cache()


def _wake(device: str) -> threading.Thread:
    """Start what a GPU needs seconds for, its context and its libraries, while transformers is imported."""
    import torch

    def wake() -> None:
        # What fails here fails again where it is told.
        with contextlib.suppress(RuntimeError):
            for kind in (torch.float64, torch.float32, torch.bfloat16):
                some = torch.ones(1, 1, 64, 64, device=device, dtype=kind, requires_grad=True)
                output = torch.nn.functional.scaled_dot_product_attention(some, some, some, is_causal=True)
                (output @ some).softmax(-1).sum().backward()
            torch.cuda.synchronize()

    thread = threading.Thread(target=wake, daemon=True)
    if device != "cpu":
        thread.start()
    return thread


def main() -> None:
    """Serve the questions of `kerneltui.prove.preflight`."""
    # Without telemetry kernels 0.17.2 ends its User-Agent header in "; ", which the HTTP client refuses to send.
    os.environ.setdefault("HF_HUB_USER_AGENT_ORIGIN", "kerneltui")
    preflight = Preflight()
    handlers: dict[str, Callable[..., Any]] = {
        "preflight.load": preflight.load,
        "preflight.case": preflight.case,
        "preflight.speed": preflight.speed,
    }
    serve(handlers)

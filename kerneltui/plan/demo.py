"""The plan of the demo: the embedded model, data and attention kernel, on whatever this server has."""

from __future__ import annotations

import os
from pathlib import Path

from kerneltui import demo
from kerneltui.errors import UsageError
from kerneltui.facts.server import AMPERE, Server
from kerneltui.plan.plan import Launch, Plan


def demo_plan(server: Server, *, steps: int, name: str | None = None, gpus: tuple[int, ...] | None = None) -> Plan:
    """Return a plan that trains the embedded model for `steps` optimizer steps, without a network.

    It takes `gpus`, else the fitting one with the most free memory, else the CPU. Raises UsageError where one of `gpus`
    does not fit.
    """
    fitting = _fitting_gpus(server)
    _check(gpus or (), fitting)
    chosen = gpus or tuple(fitting[:1])
    return Plan(
        trainer="sft",
        cwd=str(Path.cwd()),
        config=demo.config_text(output_dir=None, gpu=bool(chosen), steps=steps),
        launch=Launch(
            name=name,
            gpus=chosen or None,
            environment={
                "LOCAL_KERNELS": demo.local_kernels(os.environ.get("LOCAL_KERNELS")),
                "HF_HUB_OFFLINE": "1",
            },
        ),
    )


def _fitting_gpus(server: Server) -> list[int]:
    """Return the GPUs that the demo's CUDA build and its bfloat16 run on (Ampere or newer), most free memory first."""
    if not server.torch or not server.torch.cuda or not server.torch.device_count:
        return []
    fitting = [
        (gpu.memory_free or 0, -gpu.index)
        for gpu in server.gpus
        if gpu.index is not None and gpu.torch_index is not None and (gpu.capability or (0, 0)) >= AMPERE
    ]
    return [-index for _, index in sorted(fitting, reverse=True)]


def _check(gpus: tuple[int, ...], fitting: list[int]) -> None:
    if unfit := [str(index) for index in gpus if index not in fitting]:
        raise UsageError(
            f"The demo cannot train on GPU {', '.join(unfit)}",
            "It takes NVIDIA GPUs of compute capability 8.0 or more that torch sees.",
            f"Those are: {', '.join(map(str, sorted(fitting)))}."
            if fitting
            else "There is none here; without --gpus the demo trains on the CPU.",
        )

"""The plan of the demo: the embedded model, data and attention kernel, on whatever this server has."""

from __future__ import annotations

import os
from pathlib import Path

from kerneltui import demo
from kerneltui.facts.server import AMPERE, Server
from kerneltui.plan.plan import Launch, Plan


def demo_plan(server: Server, *, steps: int, name: str | None = None) -> Plan:
    """Return a plan that trains the embedded model for `steps` optimizer steps, without a network."""
    card = _usable_gpu(server)
    return Plan(
        trainer="sft",
        cwd=str(Path.cwd()),
        config=demo.config_text(output_dir=None, gpu=card is not None, steps=steps),
        launch=Launch(
            name=name,
            gpus=None if card is None else (card,),
            environment={
                "LOCAL_KERNELS": demo.local_kernels(os.environ.get("LOCAL_KERNELS")),
                "HF_HUB_OFFLINE": "1",
            },
        ),
    )


def _usable_gpu(server: Server) -> int | None:
    """Return the first GPU that the demo's CUDA build and its bfloat16 run on (Ampere or newer), else None."""
    if not server.torch or not server.torch.cuda or not server.torch.device_count:
        return None
    fitting = (gpu.index for gpu in server.gpus if gpu.torch_index is not None and (gpu.capability or (0, 0)) >= AMPERE)
    return next((index for index in fitting if index is not None), None)

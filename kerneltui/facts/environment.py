"""The environment variables that matter, with harmless values."""

from __future__ import annotations

import os
from collections.abc import Mapping

from kerneltui.text import harmless

# Those that change which kernel, model or GPU is taken, or where from, and which libraries torch loads.
VARIABLES = (
    *("HF_HOME", "HF_ENDPOINT", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "TRANSFORMERS_OFFLINE"),
    *("HF_DATASETS_CACHE", "HF_DATASETS_OFFLINE", "HF_TOKEN_PATH", "HF_HUB_DISABLE_IMPLICIT_TOKEN"),
    *("HF_HUB_DISABLE_XET", "USE_HUB_KERNELS", "LOCAL_KERNELS", "KERNELS_CACHE"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    *("ZE_AFFINITY_MASK", "LD_LIBRARY_PATH", "PYTHONPATH", "CC", "TRITON_CACHE_DIR"),
)
_PREFIX = "NCCL_"


def read_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables that matter (of this process, if not given) with harmless values."""
    variables = os.environ if environment is None else environment
    chosen = sorted(name for name in variables if name in VARIABLES or name.startswith(_PREFIX))
    return {name: harmless(variables[name]) for name in chosen}


def is_offline(environment: Mapping[str, str]) -> bool:
    """Return whether variables forbid to ask the Hub, as `huggingface_hub.constants` reads them."""
    values = (environment.get(name, "") for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
    return any(value.upper() in ("1", "ON", "YES", "TRUE") for value in values)

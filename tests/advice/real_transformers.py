"""Runs in the training interpreter: what the installed transformers makes of attention names, without a network.

Reads JSON from standard input and writes one line of JSON. The kernels are a stand-in that records what was asked for.
"""

from __future__ import annotations

import json
import sys
import types
from typing import Any


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    request = json.load(sys.stdin)
    output, sys.stdout = sys.stdout, sys.stderr
    from transformers.integrations import hub_kernels

    from kerneltui.worker.library_tables import read_tables

    answer = {
        "kernels": [hub_kernels.is_kernel(name) for name in request["names"]],
        "libraries": read_tables(),
        "cases": [resolve(kind, asked) for kind, asked in request["cases"]],
    }
    print(json.dumps(answer), file=output)


def resolve(kind: str, asked: str | None) -> dict[str, Any]:
    """Return what a tiny model of class `kind` runs with when `asked` is asked for, and the facts of its class."""
    import transformers
    from transformers import modeling_flash_attention_utils as flash
    from transformers.integrations import hub_kernels
    from transformers.utils.import_utils import get_device_type

    from kerneltui.worker.transformers_adapter import _facts

    loaded: list[list[Any]] = []

    def get_kernel(repository: str, revision: str | None = None, version: int | None = None, **_: Any) -> Any:
        loaded.append([repository, revision if revision is not None else f"v{version}"])
        kernel = types.ModuleType("kernel")
        for name in ("flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache"):
            setattr(kernel, name, lambda q, k, v, **_: q)
        return kernel

    hub_kernels.get_kernel = get_kernel
    flash._loaded_implementation = None
    config = tiny_config(kind)
    facts = _facts(config)
    device = get_device_type()
    try:
        model = getattr(transformers, kind)._from_config(config, attn_implementation=asked)
    except (ValueError, ImportError) as error:
        return {"facts": facts, "error": str(error), "device": device}
    used = model.config._attn_implementation
    return {"facts": facts, "implementation": used, "loaded": loaded[-1:], "device": device}


def tiny_config(kind: str) -> Any:
    import transformers

    config = getattr(transformers, kind).config_class()
    for name, value in (
        *(("hidden_size", 16), ("intermediate_size", 16), ("num_hidden_layers", 1), ("num_attention_heads", 2)),
        *(("num_key_value_heads", 1), ("head_dim", 8), ("vocab_size", 8), ("num_local_experts", 2)),
        *(("pad_token_id", None), ("layer_types", ["full_attention"]), ("n_layer", 1), ("n_head", 2)),
    ):
        if hasattr(config, name):
            setattr(config, name, value)
    config.architectures = [kind]
    return config


if __name__ == "__main__":
    main()

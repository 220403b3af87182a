"""The asker: a long-lived worker that answers questions about the installed libraries; it sees no GPU."""

from __future__ import annotations

from . import (
    construction,
    dataset_choices,
    dataset_copy,
    dataset_scan,
    datasets_adapter,
    kernels_adapter,
    shrink,
    step_memory,
    transformers_adapter,
    trl_adapter,
    trl_fields,
)
from .probe import read_packages
from .protocol import Handler, serve


def main() -> None:
    """Serve every question of the adapters; each imports what it needs at its first question."""
    handlers: dict[str, Handler] = {}
    data = (construction, dataset_choices, dataset_copy, dataset_scan, datasets_adapter)
    installed = (kernels_adapter, shrink, step_memory, transformers_adapter, trl_adapter, trl_fields)
    for adapter in (*data, *installed):
        handlers |= adapter.HANDLERS
    serve({**handlers, "packages": read_packages})

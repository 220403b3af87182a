"""The asker: a long-lived worker that answers questions about the installed libraries; it sees no GPU."""

from __future__ import annotations

from . import kernels_adapter, transformers_adapter, trl_adapter
from .protocol import Handler, serve


def main() -> None:
    """Serve every question of the adapters; each imports what it needs at its first question."""
    handlers: dict[str, Handler] = {}
    for adapter in (kernels_adapter, transformers_adapter, trl_adapter):
        handlers |= adapter.HANDLERS
    serve(handlers)

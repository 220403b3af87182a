"""How much GPU memory a plan takes: an estimate in parts, whether it fits, and what would."""

from kerneltui.advice.memory.rough import (
    GIB,
    REFERENCE,
    Size,
    activation_bytes,
    expected_parameters,
    free_memory,
    is_modern,
    parameters,
    size_of,
    state_bytes,
)

__all__ = [
    "GIB",
    "REFERENCE",
    "Size",
    "activation_bytes",
    "expected_parameters",
    "free_memory",
    "is_modern",
    "parameters",
    "size_of",
    "state_bytes",
]

"""Counts the bytes of the tensors that live while code runs."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """While it is entered, `now` are the bytes of the storages that were made in it and live, `peak` their most.

    Counted is what has `factor` among the factors of its number of elements; the weights of `model` are not.
    """

    def __init__(self, model: Any, factor: int) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._factor = factor
        self._known: dict[int, Any] = {}
        for tensor in [*model.parameters(), *model.buffers()]:
            storage = tensor.untyped_storage()
            self._known[id(storage)] = storage

    def restart(self) -> int:
        """Return the peak so far and count another one from now on."""
        peak, self.peak = self.peak, self.now
        return peak

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for it in tree_leaves(result):
            if isinstance(it, torch.Tensor):
                self._add(it)
        return result

    def _add(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key, size = id(storage), storage.nbytes()
        if key in self._known or not size or (size // tensor.element_size()) % self._factor:
            return
        self._known[key] = weakref.ref(storage, lambda _: self._remove(key, size))
        self.now += size
        self.peak = max(self.peak, self.now)

    def _remove(self, key: int, size: int) -> None:
        self._known.pop(key, None)
        self.now -= size

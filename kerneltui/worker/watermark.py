"""How high the memory of the GPU stands: what the allocator's peak was in each part of a training step."""

from __future__ import annotations

import functools
from typing import Any

import torch
from transformers import TrainerCallback


class Watermark(TrainerCallback):
    """Reads the allocator at the borders of loading, generation, forward, backward and optimizer, and ends the run."""

    class Enough(BaseException):
        """Training has made its steps: there is no need to go on."""

    def __init__(self) -> None:
        self.marks: list[dict[str, Any]] = []
        self._about: dict[str, Any] = {}

    def install(self) -> None:
        """Watch this process from here on."""
        import transformers.trainer
        from accelerate import Accelerator
        from transformers import GenerationMixin, PreTrainedModel

        transformers.trainer.DEFAULT_CALLBACKS.append(self)
        self._around(PreTrainedModel, "from_pretrained", "load")
        self._around(GenerationMixin, "generate", "generate")
        self._around(Accelerator, "backward", "backward")

    def mark(self, name: str) -> None:
        """Note what is allocated now and what the peak was since the last mark, in bytes."""
        if torch.cuda.is_available():
            self.marks.append(
                {
                    "after": name,
                    "peak": torch.cuda.max_memory_allocated(),
                    "reserved_peak": torch.cuda.max_memory_reserved(),
                    "allocated": torch.cuda.memory_allocated(),
                }
            )
            torch.cuda.reset_peak_memory_stats()

    def report(self) -> dict[str, Any]:
        """Return the peaks in bytes, the marks, and what was trained; without a GPU no peaks."""
        peaks = {
            "allocated": max((mark["peak"] for mark in self.marks), default=None),
            "reserved": max((mark["reserved_peak"] for mark in self.marks), default=None),
        }
        return {"peaks": peaks, "marks": self.marks, **self._about}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note what is being trained."""
        self._about = _describe(kwargs["model"])
        self.mark("train_begin")

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Mark what lies between steps."""
        self.mark("step_begin")

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Mark the clipping of the gradients."""
        self.mark("clip")

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Mark the optimizer's step."""
        self.mark("optimizer")

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Mark the end of a step."""
        self.mark("step_end")

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the run here: what comes next writes the model."""
        self.mark("train_end")
        self._about |= _optimizer(kwargs.get("optimizer"))
        if torch.cuda.is_available():
            free, total = torch.cuda.mem_get_info()
            self._about |= {"device_free": free, "device_total": total, "held": torch.cuda.memory_reserved()}
        raise self.Enough

    def _around(self, owner: Any, name: str, label: str) -> None:
        """Mark before and after each call of a method."""
        found = owner.__dict__[name]
        call = found.__func__ if isinstance(found, classmethod) else found

        @functools.wraps(call)
        def marked(*args: Any, **kwargs: Any) -> Any:
            self.mark(f"before {label}")
            result = call(*args, **kwargs)
            self.mark(label)
            return result

        setattr(owner, name, classmethod(marked) if isinstance(found, classmethod) else marked)


def _describe(model: Any) -> dict[str, Any]:
    parameters = list(model.parameters())
    trained = [it for it in parameters if it.requires_grad]
    return {
        "class": type(model).__name__,
        "attention": getattr(model.config.get_text_config(), "_attn_implementation", None),
        "parameters": sum(it.numel() for it in parameters),
        "parameter_bytes": sum(it.numel() * it.element_size() for it in parameters),
        "trained": sum(it.numel() for it in trained),
        "trained_bytes": sum(it.numel() * it.element_size() for it in trained),
        "trained_dtypes": sorted({str(it.dtype) for it in trained}),
        "buffer_bytes": sum(it.numel() * it.element_size() for it in model.buffers()),
    }


def _optimizer(optimizer: Any) -> dict[str, Any]:
    states = getattr(optimizer, "state", {}) or {}
    tensors = [it for state in states.values() for it in state.values() if torch.is_tensor(it)]
    return {"optimizer_bytes": sum(it.numel() * it.element_size() for it in tensors)}

"""The callback that times training steps as a run makes them, and reads what tells whether they computed the same."""

from __future__ import annotations

import itertools
import time
from typing import Any

import torch
from transformers import TrainerCallback

from .loaded import loaded_kernels

# Of the first forward pass this many positions and features are kept, spread evenly: enough to tell another attention
# from rounding, and little enough to write down.
_POSITIONS = 64
_FEATURES = 32
# What the configurations of mixtures of experts call their number.
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


class Stopwatch(TrainerCallback):
    """Times `steps` optimizer steps after `warmup` others; then it ends the run by raising `Enough`.

    From the end of one step to that of the next, with what lies between: that is what training takes.
    """

    class Enough(BaseException):
        """The steps are made: there is no need to go on."""

    def __init__(self, warmup: int, steps: int) -> None:
        self.warmup = warmup
        self.steps = steps
        self._marks: list[Any] = []
        self._tokens = 0
        self._about: dict[str, Any] = {}
        self._sample: Any = None
        self._logs: dict[str, Any] = {}

    def install(self) -> None:
        """Watch every Trainer of this process from here on."""
        import transformers.trainer

        transformers.trainer.DEFAULT_CALLBACKS.append(self)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note what is trained, and listen to its first forward pass."""
        model = kwargs["model"]
        self._about = {
            "attention": getattr(model.config.get_text_config(), "_attn_implementation", None),
            "kernels": loaded_kernels(),
            "flops_per_token": _flops_per_token(model),
            "attention_flops": _attention_flops(model.config.get_text_config()),
        }
        model.register_forward_pre_hook(self._count, with_kwargs=True)
        _decoder(model).register_forward_hook(self._keep)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Mark the end of a step."""
        if state.global_step == self.warmup:
            self._tokens = 0
        if state.global_step >= self.warmup:
            self._marks.append(_mark())

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Keep the first loss and gradient norm that the trainer logs."""
        if logs and not self._logs:
            self._logs = {name: float(logs[name]) for name in ("loss", "grad_norm") if name in logs}

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the run here: what comes next writes the model."""
        raise self.Enough

    def report(self) -> dict[str, Any]:
        """Return the steps in milliseconds, the tokens of a step, the peak in bytes, and what was computed."""
        timed = len(self._marks) - 1
        found = {
            **self._about,
            **self._logs,
            "steps": _between(self._marks),
            "tokens": self._tokens / timed if timed > 0 else None,
            "sample": None if self._sample is None else [round(value, 5) for value in self._sample.flatten().tolist()],
        }
        if torch.cuda.is_available():
            found |= {"peak": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
            found["product_flops"] = measure_product()
        return found

    def _count(self, module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        if (ids := kwargs.get("input_ids")) is not None:
            self._tokens += ids.numel()

    def _keep(self, module: Any, args: Any, output: Any) -> None:
        if self._sample is None:
            hidden = output[0].detach().reshape(-1, output[0].shape[-1])
            rows = torch.linspace(0, hidden.shape[0] - 1, min(_POSITIONS, hidden.shape[0]), dtype=torch.int64)
            columns = torch.linspace(0, hidden.shape[1] - 1, min(_FEATURES, hidden.shape[1]), dtype=torch.int64)
            self._sample = hidden[rows.to(hidden.device)][:, columns.to(hidden.device)].float().cpu()


def measure_product() -> float | None:
    """Return the FLOP a second that a large bfloat16 matrix product reaches on this GPU; None where it has no room."""
    size, times = 8192, 10
    try:
        torch.cuda.empty_cache()
        left, right = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        for _ in range(3):
            left @ right
        begin = _mark()
        for _ in range(times):
            left @ right
        (milliseconds,) = _between([begin, _mark()])
    except torch.OutOfMemoryError:
        return None
    return 2 * size**3 * times / (milliseconds / 1000)


def _mark() -> Any:
    if not torch.cuda.is_available():
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _between(marks: list[Any]) -> list[float]:
    """Return the milliseconds between marks that follow one another."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        return [float(one.elapsed_time(other)) for one, other in itertools.pairwise(marks)]
    return [(other - one) * 1000 for one, other in itertools.pairwise(marks)]


def _decoder(model: Any) -> Any:
    """Return the part of a model that gives the last hidden states."""
    found = model.get_decoder() if hasattr(model, "get_decoder") else None
    return found if found is not None else getattr(model, model.base_model_prefix)


def _flops_per_token(model: Any) -> float | None:
    """Return the FLOP of the weights for a token, forward and backward.

    2 for each weight forward, 2 for the gradient of its input, 2 for its own where it is trained; an embedding that is
    only looked up has none (the usual count, Kaplan et al. 2020). None for experts, of which a token uses a part.
    """
    text = model.config.get_text_config()
    if any(getattr(text, name, None) for name in _EXPERTS):
        return None
    output = model.get_output_embeddings()
    tied = output is not None and output.weight is model.get_input_embeddings().weight
    skipped = None if tied else model.get_input_embeddings().weight
    weights = [it for it in model.parameters() if it.dim() > 1 and it is not skipped]
    return float(sum(it.numel() * (6 if it.requires_grad else 4) for it in weights))


def _attention_flops(text: Any) -> float | None:
    """Return the FLOP of causal attention for a token and a position of its row, forward and backward.

    Two products of 2 x heads x head dimension forward and twice that backward, of which causal attention needs half.
    """
    layers, heads = getattr(text, "num_hidden_layers", None), getattr(text, "num_attention_heads", None)
    if not layers or not heads:
        return None
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // heads
    return float(6 * layers * heads * head_dim)

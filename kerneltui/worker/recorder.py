"""The callback that records training and carries out requests."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import transformers.trainer
from transformers import TrainerCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from .loaded import loaded_kernels
from .record import Record, describe

# Seconds between two progress lines, and at most between two looks for a request.
_INTERVAL = 1.0
# Seconds between two looks at whether the weights are still numbers.
_WEIGHTS = 10.0
_ACTIONS = ("", "checkpoint", "stop")
# What the memory of a step goes with, and how the trainer logs and saves; as the trainer itself has them.
_SETTINGS = (
    "per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps",
    "gradient_checkpointing", "max_length", "packing", "logging_steps", "num_generations", "beta",
)  # fmt: skip


def install(record: Record) -> Recorder:
    """Give every Trainer of this process the recorder, and return it."""
    recorder = Recorder(record)
    transformers.trainer.DEFAULT_CALLBACKS.append(recorder)
    return recorder


class Recorder(TrainerCallback):
    """Writes metrics, progress, checkpoints and what really loaded; makes requested checkpoints and stops.

    Only rank 0 writes and reads requests; it tells the others, so that all act at the same step. `stopped` tells
    whether training ended by request. What fails in here does not end the training: it is recorded once.
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        self.stopped = False
        self._failed = False
        self._message: Any = None
        # When and at which step progress was last written, and when the last step ended.
        self._last_time = self._step_time = 0.0
        self._last_step = 0
        self._next_look = 0
        self._weights_time = 0.0
        self._broken = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record what was really loaded, and where training starts."""
        self._last_time = self._step_time = time.monotonic()
        self._last_step = self._next_look = state.global_step
        with self._unharmed("on_train_begin"):
            self._message = _make_message(args)
        if state.is_world_process_zero:
            with self._unharmed("on_train_begin"):
                self._record_begin(args, state, kwargs)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Record what the trainer logs, at full precision."""
        if state.is_world_process_zero and logs:
            with self._unharmed("on_log"):
                self.record.metrics("log", step=state.global_step, epoch=state.epoch, values=logs)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record progress now and then; look for a request, and carry it out on all ranks."""
        self._step_time = time.monotonic()
        steps, elapsed = state.global_step - self._last_step, self._step_time - self._last_time
        if state.is_world_process_zero and (elapsed >= _INTERVAL or state.global_step >= state.max_steps):
            self._record_progress(state)
        self._look_at_weights(state, kwargs.get("model"))
        if args.world_size > 1 and (self._message is None or state.global_step < self._next_look):
            return
        action = ""
        if state.is_world_process_zero:
            with self._unharmed("on_step_end"):
                action = take_request(self.record.run)
        action, wait = self._agree(action, max(1, int(_INTERVAL * steps / elapsed)) if elapsed and steps else 1)
        self._next_look = state.global_step + wait
        if action:
            control.should_save = True
            if action == "stop":
                control.should_training_stop = self.stopped = True
            if state.is_world_process_zero:
                with self._unharmed("on_step_end"):
                    self.record.event("request", action=action, step=state.global_step)

    def _look_at_weights(self, state: Any, model: Any) -> None:
        """Record once that the weights are no numbers: a loss that is logged rarely, or filtered, does not tell.

        One NaN in the gradients makes all of them NaN where they are clipped, and then all weights: one is enough.
        """
        if self._broken or self._step_time < self._weights_time + _WEIGHTS:
            return
        self._weights_time = self._step_time
        with self._unharmed("weights"):
            if not _is_finite(model):
                self._broken = True
                self.record.event("not_finite", what="weights", step=state.global_step)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record a checkpoint that has been written."""
        if state.is_world_process_zero:
            with self._unharmed("on_save"):
                path = Path(args.output_dir).absolute() / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
                self.record.event("checkpoint", step=state.global_step, path=str(path))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record the last step, and of every rank where its training ended and the kernels that it had loaded."""
        if state.is_world_process_zero:
            self._record_progress(state)
        kernels = self._loaded_kernels("on_train_end")
        with self._unharmed("on_train_end"):
            self.record.event(
                "train_end", step=state.global_step, kernels=kernels, memory_peak=_allocated(args.device, peak=True)
            )

    def _record_begin(self, args: Any, state: Any, kwargs: dict[str, Any]) -> None:
        self.record.event(
            "train_begin",
            step=state.global_step,
            total=state.max_steps,
            output_dir=str(Path(args.output_dir).absolute()),
            world_size=args.world_size,
            device=str(args.device),
            save_steps=state.save_steps if args.save_strategy == "steps" else None,
            settings={name: getattr(args, name) for name in _SETTINGS if hasattr(args, name)},
            memory_allocated=_allocated(args.device),
            trainable_bytes=_trainable(kwargs["model"]),
            attention=_attention(kwargs["model"].config),
            kernels=self._loaded_kernels("on_train_begin"),
        )

    def _record_progress(self, state: Any) -> None:
        steps = state.global_step - self._last_step
        if not steps:
            return
        with self._unharmed("progress"):
            self.record.metrics(
                "progress", step=state.global_step, total=state.max_steps, epoch=state.epoch,
                seconds_per_step=(self._step_time - self._last_time) / steps,
            )  # fmt: skip
        self._last_time, self._last_step = self._step_time, state.global_step

    def _loaded_kernels(self, place: str) -> list[dict[str, Any]]:
        with self._unharmed(place):
            return loaded_kernels()
        return []

    def _agree(self, action: str, wait: int) -> tuple[str, int]:
        """Return the action of rank 0 and the number of steps until the next exchange, the same on every rank.

        What fails here is not held back: the ranks are no longer connected, and one that went on alone would leave
        the others waiting.
        """
        if self._message is None:
            return action, wait
        import torch
        import torch.distributed

        self._message.copy_(torch.tensor([_ACTIONS.index(action), wait], device="cpu"))
        torch.distributed.broadcast(self._message, src=0)
        index, wait = self._message.tolist()
        return _ACTIONS[index], wait

    @contextlib.contextmanager
    def _unharmed(self, place: str) -> Iterator[None]:
        """Keep from the training what fails in here; the first time it is recorded."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - no fault of the recorder, of whatever kind, may end the training
            if not self._failed:
                self._failed = True
                self.record.event("recorder_failed", place=place, error=describe(error))


def take_request(run: Path) -> str:
    """Return the requested action and remove the request, so that each is carried out once; "" where there is none.

    A `kill` is left to the supervisor, and what cannot be read or taken now to the next look.
    """
    request, taken = run / "request", run / ".request.taken"
    try:
        if not _action(request):
            return ""
        request.rename(taken)
        action = _action(taken)
        if not action:  # another has come meanwhile
            taken.rename(request)
    except OSError:
        return ""
    if action:
        with contextlib.suppress(OSError):
            taken.unlink()
    return action


def _action(request: Path) -> str:
    """Return what a request file asks of the training process, "" for what is not for it. Raises OSError."""
    try:
        action = json.loads(request.read_bytes())["action"]
    except (ValueError, KeyError, TypeError):
        return ""
    return action if action in _ACTIONS else ""


def _make_message(args: Any) -> Any:
    """Return the tensor through which rank 0 tells the others, None for a single process.

    Made once: at a step there may be no memory left on the GPU for a new one. Raises RuntimeError where the ranks are
    connected in another way; then requests are not carried out.
    """
    if args.world_size == 1:
        return None
    import torch
    import torch.distributed

    if not torch.distributed.is_initialized():
        raise RuntimeError("the ranks are not connected through torch.distributed: checkpoint and stop cannot work")
    return torch.zeros(2, dtype=torch.int64, device=args.device)


def _is_finite(model: Any) -> bool:
    """Return whether a value of the first trained weight with any values here is a number. It waits for the GPU."""
    if not hasattr(model, "parameters"):
        return True
    trained = (value for value in model.parameters() if value.requires_grad and value.numel())
    first = next(trained, None)
    return first is None or math.isfinite(first.detach().reshape(-1)[0].item())


def _allocated(device: Any, *, peak: bool = False) -> int | None:
    """Return the bytes that torch has on a GPU, or had at most, None for another device."""
    import torch

    if not str(device).startswith("cuda"):
        return None
    return int(torch.cuda.max_memory_allocated(device) if peak else torch.cuda.memory_allocated(device))


def _trainable(model: Any) -> int | None:
    """Return the bytes of the parameters that are trained, of this rank; None for what is no torch module."""
    if not hasattr(model, "parameters"):
        return None
    return sum(value.numel() * value.element_size() for value in model.parameters() if value.requires_grad)


def _attention(config: Any) -> str | None:
    """Return the attention implementation that the model uses, read back from the model."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    return getattr(text, "_attn_implementation", None)

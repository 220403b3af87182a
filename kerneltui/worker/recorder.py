"""The callback that records training and carries out requests."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import transformers.trainer
from transformers import TrainerCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from .record import Record

# Seconds between two progress lines, and at most between two looks for a request.
_INTERVAL = 1.0
_ACTIONS = ("", "checkpoint", "stop")


def install(record: Record) -> Recorder:
    """Give every Trainer of this process the recorder, and return it."""
    recorder = Recorder(record)
    transformers.trainer.DEFAULT_CALLBACKS.append(recorder)
    return recorder


class Recorder(TrainerCallback):
    """Writes metrics, progress, checkpoints and what really loaded; makes requested checkpoints and stops.

    Only rank 0 writes and reads requests; it tells the others, so that all act at the same step. `stopped` tells
    whether training ended by request.
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        self.stopped = False
        self._last_time = 0.0
        self._last_step = 0
        self._next_look = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record what was really loaded, and where training starts."""
        self._last_time = time.monotonic()
        self._last_step = self._next_look = state.global_step
        if state.is_world_process_zero:
            config = kwargs["model"].config
            self.record.event(
                "train_begin",
                step=state.global_step,
                total=state.max_steps,
                output_dir=str(Path(args.output_dir).absolute()),
                world_size=args.world_size,
                device=str(args.device),
                save_steps=state.save_steps if args.save_strategy == "steps" else None,
                attention=_attention(config),
                kernels=loaded_kernels(),
            )

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Record what the trainer logs, at full precision."""
        if state.is_world_process_zero and logs:
            self.record.metrics("log", step=state.global_step, epoch=state.epoch, values=logs)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record progress now and then; look for a request."""
        now = time.monotonic()
        steps, elapsed = state.global_step - self._last_step, now - self._last_time
        last = state.global_step >= state.max_steps
        if state.is_world_process_zero and steps and (elapsed >= _INTERVAL or last):
            self.record.metrics(
                "progress", step=state.global_step, total=state.max_steps, epoch=state.epoch,
                seconds_per_step=elapsed / steps,
            )  # fmt: skip
            self._last_time, self._last_step = now, state.global_step
        if args.world_size > 1 and state.global_step < self._next_look:
            return
        action, wait = self._agree(
            args, _take_request(self.record.run) if state.is_world_process_zero else "", elapsed, steps
        )
        self._next_look = state.global_step + wait
        if action:
            control.should_save = True
            if action == "stop":
                control.should_training_stop = self.stopped = True
            if state.is_world_process_zero:
                self.record.event("request", action=action, step=state.global_step)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record a checkpoint that has been written."""
        if state.is_world_process_zero:
            path = Path(args.output_dir).absolute() / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
            self.record.event("checkpoint", step=state.global_step, path=str(path))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record the end of training and the kernels that it had loaded by then."""
        if state.is_world_process_zero:
            self.record.event("train_end", step=state.global_step, kernels=loaded_kernels())

    def _agree(self, args: Any, action: str, elapsed: float, steps: int) -> tuple[str, int]:
        """Return the action of rank 0 and the number of steps until the next exchange, the same on every rank."""
        if args.world_size == 1:
            return action, 1
        import torch
        import torch.distributed

        wait = max(1, int(_INTERVAL * steps / elapsed)) if elapsed and steps else 1
        message = torch.tensor([_ACTIONS.index(action), wait], device=args.device)
        torch.distributed.broadcast(message, src=0)
        index, wait = message.tolist()
        return _ACTIONS[index], wait


def _take_request(run: Path) -> str:
    """Return the requested action and remove the request, so that each is carried out once."""
    request, taken = run / "request", run / ".request.taken"
    try:
        request.rename(taken)
    except FileNotFoundError:
        return ""
    try:
        action = json.loads(taken.read_bytes())["action"]
    except (ValueError, KeyError, TypeError):
        return ""
    if action not in _ACTIONS:  # for the supervisor
        taken.rename(request)
        return ""
    taken.unlink()
    return str(action)


def _attention(config: Any) -> str | None:
    """Return the attention implementation that the model uses, read back from the model."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    return getattr(text, "_attn_implementation", None)


def loaded_kernels() -> list[dict[str, Any]]:
    """Return the Hub kernels that this process has loaded: repository, revision, commit, variant, version."""
    kernels = sys.modules.get("kernels")
    if kernels is None or not hasattr(kernels, "get_loaded_kernels"):
        return []
    return [_loaded(kernel) for kernel in kernels.get_loaded_kernels()]


def _loaded(kernel: Any) -> dict[str, Any]:
    path = Path(kernel.module.__file__)
    parts = path.parts
    build = len(parts) - 1 - parts[::-1].index("build") if "build" in parts else None
    cached = "snapshots" in parts
    return {
        "name": str(kernel.metadata.name),
        "version": kernel.metadata.version,
        "repository": kernel.repo_info.repo_id if kernel.repo_info else None,
        "revision": kernel.repo_info.revision if kernel.repo_info else None,
        "commit": parts[parts.index("snapshots") + 1] if cached else "local",
        "variant": parts[build + 1] if build is not None else path.parent.name,
        "path": str(path.parent),
    }

"""What `kerneltui demo` trains on: a tiny model, small data sets and an attention kernel, all shipped with the package.

Nothing here touches a network or a training package. `tests/tools/make_demo.py` made the files.
"""

from __future__ import annotations

import glob
import math
import shlex
from pathlib import Path

import yaml

from kerneltui.errors import KerneltuiError, UsageError

ATTENTION = "kerneltui/demo-attention"
"""The kernel repository that the demo names. It is not on the Hub: `LOCAL_KERNELS` says where it lies."""

# TRL's data set types (docs: dataset_formats); KTO splits preferences into pairs itself.
_DATA = {
    "sft": "conversations",
    "dpo": "preferences",
    "kto": "preferences",
    "reward": "preferences",
    "grpo": "prompts",
    "rloo": "prompts",
    "distillation": "prompts",
}

_HERE = Path(__file__).absolute().parent


def model_path() -> Path:
    """Return the directory of the model and its tokenizer."""
    return _HERE / "model"


def data_path(trainer: str) -> Path:
    """Return the JSON lines that fit `trainer`, by its name in the `trl` command; raises UsageError for others."""
    if trainer not in _DATA:
        raise UsageError(
            f"The demo has no data for {trainer!r}",
            f"It has data for {', '.join(_DATA)}.",
            "Choose one of these.",
        )
    return _HERE / "data" / f"{_DATA[trainer]}.jsonl"


def attention_path() -> Path:
    """Return the directory of the attention kernel repository, with its `build/`."""
    return _HERE / "attention"


def local_kernels(existing: str | None) -> str:
    """Return the value of `LOCAL_KERNELS` that serves the demo's kernel, with the other entries of `existing` kept.

    The form is `repo=path[:repo=path…]`, without any way to quote (kernels/load.py); raises KerneltuiError when this
    package lies in a path that it cannot carry.
    """
    path = str(attention_path())
    if ":" in path:
        raise KerneltuiError(
            "The demo cannot run from this installation",
            f"kernels reads LOCAL_KERNELS up to the next colon, and there is one in {path}",
            "Install kerneltui into a directory without a colon in its path.",
        )
    entries = [entry for entry in (existing or "").split(":") if entry]
    others = [entry for entry in entries if entry.partition("=")[0] != ATTENTION]
    return ":".join([*others, f"{ATTENTION}={path}"])


def config_text(*, output_dir: Path | None, gpu: bool, steps: int) -> str:
    """Return the configuration of the demo's run, as `trl sft --config` reads it.

    `output_dir` is left out when None, `steps` is the number of optimizer steps. With `gpu` the weights are bfloat16,
    as FlashAttention needs it; without, float32, which every CPU computes at full speed.
    """
    lines = [
        "# kerneltui's demo: a tiny random model learns 96 short conversations. Nothing comes from a network.",
        "# The kernel is not on the Hub. To run this file by hand, without kerneltui:",
        f"#   export LOCAL_KERNELS={_shell_word(local_kernels(None))}",
        "#   trl sft --config THIS_FILE",
        f"model_name_or_path: {_scalar(model_path())}",
        f"attn_implementation: {ATTENTION}",
        "datasets:",
        "  - path: json",
        # datasets takes this for a pattern, and finds nothing behind a directory named [x].
        f"    data_files: {_scalar(glob.escape(str(data_path('sft'))))}",
    ]
    if output_dir is not None:
        lines.append(f"output_dir: {_scalar(output_dir)}")
    lines += _GPU if gpu else _CPU
    lines += [line.format(steps=steps, save_steps=max(1, steps // 2)) for line in _TRAINING]
    return "\n".join(lines) + "\n"


_GPU = (
    "dtype: bfloat16  # FlashAttention computes in half precision",
    "bf16: true",
)

_CPU = (
    "dtype: float32",
    "bf16: false",
    "use_cpu: true",
    "dataloader_pin_memory: false  # there is no GPU to pin for",
)

_TRAINING = (
    "packing: true  # several conversations fill a row; attention keeps them apart",
    "max_length: 256",
    "per_device_train_batch_size: 8",
    "learning_rate: 0.01  # high, so that a few steps are enough to see the loss fall",
    "lr_scheduler_type: constant",
    "max_steps: {steps}",
    "logging_steps: 1",
    "save_strategy: steps",
    "save_steps: {save_steps}",
    "gradient_checkpointing: false  # saves memory that this model does not need",
    "report_to: none",
)


def _scalar(value: object) -> str:
    """Return `str(value)` as a YAML scalar on one line, quoted whatever it holds."""
    return yaml.safe_dump(str(value), default_style='"', allow_unicode=True, width=math.inf).rstrip("\n")


def _shell_word(text: str) -> str:
    """Return `text` as a shell reads it, for a comment; a path that would end the comment's line is not shown."""
    return shlex.quote(text) if text.isprintable() else f"{ATTENTION}=DIRECTORY"

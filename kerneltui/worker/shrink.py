"""A small copy of what a plan names, for its rehearsal: models of the same class with random weights, first rows.

Of a model on the Hub the configuration and the tokenizer are fetched, and no weights.
"""

from __future__ import annotations

import copy
import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .fetch import CONFIGURATION
from .narrowed import attention_shapes, ways
from .rows_file import write_rows
from .shortened import again, depth_name, shorten
from .trl_adapter import directory

# A model with more parameters than this is not small: a class that cannot be narrowed, with a large vocabulary.
_MOST = 1_500_000_000


class NotShrunkError(Exception):
    """No small model could be made; the message says why."""


def shrink(
    path: str, cwd: str, folder: str, revision: str | None = None, trust_remote_code: bool = False
) -> dict[str, Any]:
    """Save a small model of the class at `path` (a folder or a Hub name) to `folder`, with its tokenizer.

    The answer has "kind" (the class), "layers", "kinds" of them, "parameters" and "left_out", what of the
    configuration the small model has not.
    """
    with directory(cwd), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = _copy(path, Path(folder), revision)
        config = _config(source, trust_remote_code)
        written = list(config.architectures or [])
        left_out = _leave_out(config)
        model, kinds = _small(config, _class_of(config, trust_remote_code), _example(source, config))
        dtype = getattr(config, "dtype", None)
        model.to(dtype or None).save_pretrained(folder)
        _name_as_before(Path(folder, "config.json"), written)
    return {
        "kind": type(model).__name__,
        "layers": getattr(model.config.get_text_config(), str(depth_name(model.config.get_text_config()))),
        "kinds": kinds,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "left_out": left_out,
    }


def _copy(path: str, folder: Path, revision: str | None) -> Path:
    """Copy what is no weights of a model to `folder`, and return where it came from."""
    local = Path(path).expanduser()
    if not local.is_dir():
        from huggingface_hub import snapshot_download

        allowed = [f"*{end}" for end in CONFIGURATION]
        local = Path(snapshot_download(path, revision=revision, allow_patterns=allowed, ignore_patterns=["*/*"]))
    folder.mkdir(parents=True, exist_ok=True)
    for file in local.iterdir():
        if file.is_file() and file.name.endswith(CONFIGURATION) and not file.name.endswith(".index.json"):
            shutil.copyfile(file, folder / file.name)
    return local


def _config(source: Path, trust_remote_code: bool) -> Any:
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(str(source), trust_remote_code=trust_remote_code)


def _leave_out(config: Any) -> list[str]:
    """Take out what random weights cannot have: a quantized form of their own."""
    if getattr(config, "quantization_config", None) is None:
        return []
    del config.quantization_config
    return ["quantization_config"]


def _class_of(config: Any, trust_remote_code: bool) -> Callable[[Any], Any]:
    """Return what makes a model of a configuration, as `trl.trainer.utils.create_model_from_path` finds its class."""
    import transformers

    kind = getattr(transformers, (config.architectures or [""])[0], None)
    if kind is not None:
        return lambda it: kind._from_config(it, attn_implementation="eager")
    remote = getattr(config, "auto_map", None) or {}
    names = ("AutoModelForImageTextToText", "AutoModelForCausalLM")
    auto = getattr(transformers, next((name for name in names if name in remote), names[-1]))
    return lambda it: auto.from_config(it, trust_remote_code=trust_remote_code, attn_implementation="eager")


def _small(config: Any, make: Callable[[Any], Any], example: dict[str, Any]) -> tuple[Any, int]:
    """Return the smallest model that its class takes and that computes, and how many kinds of layers it has."""

    def build(it: Any) -> Any:
        import torch

        with torch.device("meta"):
            return make(copy.deepcopy(it))

    short, kinds = shorten(again(config), build)
    wanted = attention_shapes(build(short))
    why: Exception | None = None
    usable = []
    for candidate in ways(short):
        try:
            empty = build(candidate)
        except Exception as error:  # noqa: BLE001 - whatever a class raises on widths that it does not take
            why = error
            continue
        if attention_shapes(empty) != wanted or sum(it.numel() for it in empty.parameters()) > _MOST:
            continue
        usable.append(candidate)
        try:
            return _computing(make(copy.deepcopy(candidate)), example), kinds
        except Exception as error:  # noqa: BLE001 - the next way may do
            why = error
    if usable:  # what fails on the CPU may be meant for a GPU alone, and then all ways fail alike
        return make(copy.deepcopy(usable[0])), kinds
    raise NotShrunkError(f"no small model of this class could be made{f': {why}' if why else ''}")


def _computing(model: Any, example: dict[str, Any]) -> Any:
    """Return the model after a forward pass; raises what that raises."""
    import torch

    with torch.no_grad():
        model(**example)
    return model


def _example(source: Path, config: Any) -> dict[str, Any]:
    """Return a batch for a first forward pass: a few tokens, with a picture for a model that sees."""
    import torch

    if len(getattr(config, "sub_configs", {})) > 1:
        try:
            return _picture(source)
        except Exception:  # noqa: BLE001 - no processor, no template, no pillow: then text alone
            pass
    return {"input_ids": torch.arange(5, 21)[None] % config.get_text_config().vocab_size}


def _picture(source: Path) -> dict[str, Any]:
    from PIL import Image
    from transformers import AutoProcessor

    content = [{"type": "image", "image": Image.new("RGB", (64, 64))}, {"type": "text", "text": "What is it?"}]
    processor = AutoProcessor.from_pretrained(str(source))
    made = processor.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=True, return_dict=True, return_tensors="pt"
    )
    return dict(made)


def _name_as_before(path: Path, architectures: list[str]) -> None:
    """Write the names of the class as the model's own configuration has them: TRL chooses by them."""
    config = json.loads(path.read_text(encoding="utf-8"))
    config["architectures"] = architectures or None
    path.write_text(json.dumps(config, indent=2), encoding="utf-8")


HANDLERS = {"shrink.model": shrink, "shrink.rows": write_rows}

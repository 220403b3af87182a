"""What a model is made of: its class built from the configuration without memory for its weights."""

from __future__ import annotations

import collections
import copy
import functools
from pathlib import Path
from typing import Any

# Shapes that are kept: a plan asks for the same model at every key.
_KEPT = 16


def shape(config: Any) -> dict[str, Any]:
    """Return `{parameters, linear, head, experts}` of a configuration's model; all empty where it cannot be built here.

    `parameters` counts shared weights once. `linear` has the names of its linear layers with how many there are of
    each, as `lora_target_modules` takes them, without the `head`; `experts` the weights of experts that are no layers
    of their own, as `lora_target_parameters` takes them.
    """
    names = list(config.architectures or [])
    return copy.copy(_shape(names[0], ConfigKey(config))) if names else dict(_NOTHING)


class ConfigKey:
    """A configuration, equal to another one that says the same."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self._text = config.to_json_string()

    def __hash__(self) -> int:
        return hash(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigKey) and self._text == other._text


_NOTHING: dict[str, Any] = {"parameters": None, "linear": {}, "head": None, "experts": []}


@functools.lru_cache(maxsize=_KEPT)
def _shape(architecture: str, key: ConfigKey) -> dict[str, Any]:
    import torch
    import transformers

    kind = getattr(transformers, architecture, None)
    if kind is None:
        return _NOTHING
    try:
        with torch.device("meta"):
            model = kind(copy.deepcopy(key.config))
        model.tie_weights()
    except Exception:  # noqa: BLE001 - some classes need packages or files that are not here
        return _NOTHING
    output = model.get_output_embeddings()
    head = next((name for name, module in model.named_modules() if module is output), None) if output else None
    layers = [name for name, module in model.named_modules() if _is_linear(module) and name != head]
    experts = {".".join(name.split(".")[-3:]) for name, weight in model.named_parameters() if weight.dim() == 3}
    return {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "linear": dict(collections.Counter(name.rpartition(".")[2] for name in layers)),
        "head": head,
        "experts": sorted(experts),
    }


def _is_linear(module: Any) -> bool:
    """Whether a module is one that LoRA takes for linear (peft: torch's Linear, and the Conv1D of GPT-2)."""
    import torch
    from transformers.pytorch_utils import Conv1D

    return isinstance(module, (torch.nn.Linear, Conv1D))


def has_chat_template(path: str, revision: str | None) -> bool | None:
    """Return whether a model's tokenizer has a chat template; None where that cannot be told without its files."""
    local = Path(path)
    if local.is_dir():
        return _says_template(local)
    return _on_hub(path, revision)


def _says_template(folder: Path) -> bool:
    if (folder / "chat_template.jinja").exists() or (folder / "chat_template.json").exists():
        return True
    config = folder / "tokenizer_config.json"
    return config.exists() and '"chat_template"' in config.read_text(encoding="utf-8", errors="replace")


@functools.lru_cache(maxsize=_KEPT)
def _on_hub(path: str, revision: str | None) -> bool | None:
    """Return what the two small files on the Hub, or in its cache, say."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    folder: Path | None = None
    for name in ("chat_template.jinja", "tokenizer_config.json"):
        try:
            folder = Path(hf_hub_download(path, name, revision=revision)).parent
        except LocalEntryNotFoundError:
            continue
        except EntryNotFoundError:
            continue
        except Exception:  # noqa: BLE001 - the Hub's reasons are told where the configuration is read
            return None
    return _says_template(folder) if folder else None

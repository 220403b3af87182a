"""What public sources tell of each kernel repository: `kernels.toml`, read once."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import Literal

from kerneltui.records import Record, from_builtins

COMMUNITY = "kernels-community"

Role = Literal["attention", "layers", "MoE", "quantization", "other"]
ROLES: tuple[Role, ...] = ("attention", "layers", "MoE", "quantization", "other")

_NO_VARLEN = "it has no flash_attn_varlen_func, the function that transformers calls"
_NOT_ATTENTION = f"it is no attention that transformers can call: {_NO_VARLEN}"

# What training may need of an attention kernel, in the order in which it is shown.
FEATURES = {
    "backward": "backward",
    "varlen": "packed sequences (varlen)",
    "window": "sliding window",
    "softcap": "softcap",
    "sinks": "attention sinks",
    "gqa": "shared key/value heads (GQA)",
    "head_dims": "head dimensions",
    "dtypes": "dtypes",
    "gpus": "compiled for",
}


class KnownKernel(Record):
    """A repository as public sources of `date` tell of it; None where they do not.

    `callable` tells whether transformers can call it as attention, `unfit` why it cannot be the attention of a
    training run. The features (see `FEATURES`) are words for a person. What rules go by: head dimensions up to
    `max_head_dim` that are multiples of `head_dim_unit`; whether softcap and sinks have a gradient, and whether dropout
    of attention is applied. `source` is where that was read.
    """

    id: str
    role: Role
    source: str
    date: str
    what: str | None = None
    callable: bool | None = None
    beta: bool = False
    backward: Literal["yes", "partly", "no"] | None = None
    backward_note: str | None = None
    varlen: str | None = None
    window: str | None = None
    softcap: str | None = None
    sinks: str | None = None
    gqa: str | None = None
    head_dims: str | None = None
    dtypes: str | None = None
    gpus: str | None = None
    max_head_dim: int | None = None
    head_dim_unit: int | None = None
    softcap_trains: bool | None = None
    sinks_train: bool | None = None
    dropout_applied: bool | None = None
    unfit: str | None = None
    files: str | None = None

    def features(self) -> dict[str, str | None]:
        """Return what it can do for training, by name as in `FEATURES`; None where that is not known."""
        found = {name: getattr(self, name) for name in FEATURES}
        if self.backward and self.backward_note:
            found["backward"] = f"{self.backward}: {self.backward_note}"
        return found


@functools.cache
def catalogue() -> dict[str, KnownKernel]:
    """Return all repositories that public sources tell of, by their ids."""
    written = tomllib.loads(resources.files("kerneltui.advice").joinpath("kernels.toml").read_text("utf-8"))
    found = {}
    for raw in written["kernel"]:
        owner, _, name = raw["id"].partition("/")
        own = f"{written['source']}/{name}"
        source = own if owner == COMMUNITY else f"https://huggingface.co/kernels/{raw['id']}"
        made = {"source": source, "date": written["date"], **raw}
        if raw["role"] != "attention" or raw.get("callable") is False:
            made.setdefault("unfit", _NOT_ATTENTION)
        found[raw["id"]] = from_builtins(made, KnownKernel, "kernels.toml")
    return found


def role_of(repository: str) -> Role | None:
    """Return what a repository is for; by its name where no source tells. None where neither does."""
    if known := catalogue().get(repository):
        return known.role
    words = set(repository.partition("/")[2].lower().replace("_", "-").split("-"))
    for role, signs in _SIGNS.items():
        if words & signs:
            return role
    return None


# Parts of a name that tell what a repository is for.
_SIGNS: dict[Role, set[str]] = {
    "attention": {"attn", "attention", "sdpa", "mla", "flash"},
    "MoE": {"moe", "megablocks"},
    "quantization": {"quantization", "fp8", "int8", "int4", "nvfp4", "mxfp4", "gemm", "bitsandbytes"},
    "layers": {"norm", "rmsnorm", "layernorm", "rope", "rotary", "activation", "relu", "gelu", "mamba"},
}

"""What attention is tried on: a shape, a layout and lengths; the inputs made for it, and what it must give.

Tensors are as transformers hands them to an attention function: queries (batch, heads, length, dim), keys and values
with their own heads; the output is (batch, length, heads, dim). Nothing but torch is needed here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor

Layout = Literal["dense", "padded", "packed"]

# Bytes that one chunk of the reference's scores may take.
_CHUNK = 256 << 20
# How far scores reach toward a softcap: a spread of a fifth of it changes the weights by tens of percent, and
# does not yet leave one key alone.
_OF_SOFTCAP = 5


@dataclass(frozen=True)
class Shape:
    """The fields of `facts.proof.AttentionShape`."""

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int | None = None
    window: int | None = None
    softcap: float | None = None
    scale: float | None = None
    sinks: bool = False
    causal: bool = True

    @property
    def scaling(self) -> float:
        """What scores are multiplied by."""
        return self.head_dim**-0.5 if self.scale is None else self.scale


@dataclass(frozen=True)
class Case:
    """One input. `lengths` are those of the rows ("dense" and "padded") or of the sequences of one row ("packed")."""

    shape: Shape
    layout: Layout
    lengths: tuple[int, ...]
    dtype: torch.dtype
    device: str = "cpu"
    note: str = field(default="", compare=False)

    @property
    def rows(self) -> int:
        """The batch size."""
        return 1 if self.layout == "packed" else len(self.lengths)

    @property
    def length(self) -> int:
        """The length of a row."""
        return sum(self.lengths) if self.layout == "packed" else max(self.lengths)

    def documents(self) -> Tensor:
        """Return (rows, length): the number of the sequence that a place belongs to, -1 for padding."""
        if self.layout == "packed":
            return torch.repeat_interleave(torch.arange(len(self.lengths)), torch.tensor(self.lengths))[None]
        places = torch.arange(self.length)[None]
        return torch.where(places < torch.tensor(self.lengths)[:, None], 0, -1)

    def positions(self) -> Tensor:
        """Return (rows, length): each place's position in its sequence."""
        if self.layout == "packed":
            return torch.cat([torch.arange(length) for length in self.lengths])[None]
        return torch.arange(self.length)[None].expand(self.rows, -1)

    def visible(self) -> Tensor:
        """Return (rows, length, length): which key (column) each query (row) sees."""
        documents, place = self.documents(), torch.arange(self.length)
        behind = place[:, None] - place[None]
        seen = documents[:, :, None] == documents[:, None, :]
        if self.shape.causal:
            seen = seen & (behind >= 0)
        if self.shape.window is not None:
            seen = seen & (behind < self.shape.window) & (behind > -self.shape.window)
        return seen

    def describe(self) -> str:
        """Return the case in words."""
        shape = self.shape
        same = len(set(self.lengths)) == 1 and len(self.lengths) > 2
        lengths = f"{len(self.lengths)}×{self.lengths[0]}" if same else "+".join(map(str, self.lengths))
        words = [
            f"{self.layout} {lengths}",
            f"{shape.heads}/{shape.kv_heads} heads of {shape.head_dim}",
            f"values of {shape.value_dim}" if shape.value_dim not in (None, shape.head_dim) else "",
            f"window {shape.window}" if shape.window else "",
            f"softcap {shape.softcap:g}" if shape.softcap else "",
            "sinks" if shape.sinks else "",
            str(self.dtype).removeprefix("torch."),
            self.note,
        ]
        return ", ".join(word for word in words if word)


@dataclass(frozen=True)
class Inputs:
    """Queries, keys, values, the sinks' logits where there are any, and the gradient that comes from behind."""

    q: Tensor
    k: Tensor
    v: Tensor
    sinks: Tensor | None
    gradient: Tensor

    @property
    def leaves(self) -> dict[str, Tensor]:
        """What has a gradient, by name."""
        found = {"q": self.q, "k": self.k, "v": self.v}
        return found if self.sinks is None else {**found, "sinks": self.sinks}

    def fresh(self) -> Inputs:
        """Return the same numbers in tensors that have no history."""
        leaves = {name: leaf.detach().clone().requires_grad_() for name, leaf in self.leaves.items()}
        return Inputs(leaves["q"], leaves["k"], leaves["v"], leaves.get("sinks"), self.gradient)


def make_inputs(case: Case, seed: int = 0) -> Inputs:
    """Return inputs of a case, the same ones for the same case, seed and device.

    Scores have a spread of one, with a softcap one that comes near it.
    """
    shape = case.shape
    generator = torch.Generator(case.device).manual_seed(seed)

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator, device=case.device)

    spread = max(1.0, (shape.softcap or 0.0) / _OF_SOFTCAP)
    values = shape.value_dim or shape.head_dim
    q = normal(case.rows, shape.heads, case.length, shape.head_dim) * (spread / (shape.scaling * shape.head_dim**0.5))
    k = normal(case.rows, shape.kv_heads, case.length, shape.head_dim)
    v = normal(case.rows, shape.kv_heads, case.length, values)
    sinks = normal(shape.heads) + 1 if shape.sinks else None
    gradient = normal(case.rows, case.length, shape.heads, values)
    gradient = gradient * (case.documents() >= 0).to(case.device)[:, :, None, None]
    moved = [None if it is None else it.to(case.dtype) for it in (q, k, v, sinks, gradient)]
    return Inputs(*moved).fresh()


@dataclass(frozen=True)
class Result:
    """What attention gave: the output and the gradients by name; None where there is none."""

    output: Tensor
    gradients: dict[str, Tensor | None]


def reference(case: Case, inputs: Inputs) -> Result:
    """Return what attention must give, in float64 and step by step, with autograd's gradients."""
    shape, groups = case.shape, case.shape.heads // case.shape.kv_heads
    exact = {name: leaf.detach().double() for name, leaf in inputs.leaves.items()}
    totals = {name: torch.zeros_like(leaf) for name, leaf in exact.items()}
    visible = case.visible().to(case.device)[:, None]
    behind = inputs.gradient.double().transpose(1, 2)
    outputs = []
    step = max(1, _CHUNK // (8 * case.rows * case.length**2))
    for start in range(0, shape.heads, step):
        heads = torch.arange(start, min(start + step, shape.heads), device=case.device)
        own = {name: exact[name][:, heads if name == "q" else heads // groups] for name in ("q", "k", "v")}
        if shape.sinks:
            own["sinks"] = exact["sinks"][heads]
        leaves = {name: part.detach().requires_grad_() for name, part in own.items()}
        output = _attend(shape, leaves, visible)
        found = torch.autograd.grad(output, list(leaves.values()), behind[:, heads])
        for name, part in zip(leaves, found, strict=True):
            axis, index = (0, heads) if name == "sinks" else (1, heads if name == "q" else heads // groups)
            totals[name].index_add_(axis, index, part)
        outputs.append(output.detach())
    return Result(torch.cat(outputs, dim=1).transpose(1, 2), dict(totals))


def _attend(shape: Shape, leaves: dict[str, Tensor], visible: Tensor) -> Tensor:
    scores = leaves["q"] @ leaves["k"].transpose(-1, -2) * shape.scaling
    if shape.softcap:
        scores = shape.softcap * torch.tanh(scores / shape.softcap)
    # A padded place sees nothing; it may look everywhere here, since no gradient comes back from it.
    scores = scores.masked_fill(~(visible | ~visible.any(-1, keepdim=True)), float("-inf"))
    if "sinks" in leaves:
        sinks = leaves["sinks"][None, :, None, None].expand(*scores.shape[:-1], 1)
        weights = torch.cat([scores, sinks], dim=-1).softmax(-1)[..., :-1]
    else:
        weights = scores.softmax(-1)
    return weights @ leaves["v"]


def plan_cases(shapes: list[dict[str, Any]], dtype: str, length: int, device: str) -> list[Case]:
    """Return the cases for a model's shapes: short, odd and long rows, padded ones, and packed sequences.

    `length` is the plan's in tokens. A processor computes in float64 slowly: there rows are short, and a window that
    is longer than a row is a shorter one, as `Case.note` says.
    """
    kind, slow = getattr(torch, dtype), device == "cpu"
    found = []
    for entry in shapes:
        shape = Shape(**entry)
        near = shape if shape.window is None else replace(shape, window=min(shape.window, 24))
        found += [
            Case(near, "dense", (16, 16), kind, device),
            Case(near, "dense", (65,) if slow else (257,), kind, device),
            _long(shape, max(64, min(length, 192 if slow else 2048)), kind, device),
            Case(near, "padded", (96, 67) if slow else (384, 131), kind, device),
            Case(near, "packed", (5, 64, 91, 34) if slow else (5, 128, 251, 130), kind, device),
        ]
    return found


def _long(shape: Shape, length: int, dtype: torch.dtype, device: str) -> Case:
    """Return the case of a long row: long enough for the model's own window, where that can be afforded."""
    if shape.window is None:
        return Case(shape, "dense", (length,), dtype, device)
    if shape.window <= (128 if device == "cpu" else 8192):
        return Case(shape, "dense", (max(length, shape.window + 64),), dtype, device)
    note = f"in place of the model's window of {shape.window}"
    return Case(replace(shape, window=length // 2), "dense", (length,), dtype, device, note)


def speed_case(shape: dict[str, Any], dtype: str, length: int, batch: int, packed: bool, device: str) -> Case:
    """Return the case that is measured: the plan's length and batch, as many tokens of it as can be afforded."""
    tokens = 1024 if device == "cpu" else 32768
    length = min(length, tokens)
    rows = max(1, min(batch, tokens // length))
    layout: Layout = "packed" if packed else "dense"
    lengths = (length // 4,) * 4 * rows if packed and length >= 8 else (length,) * rows
    return Case(Shape(**shape), layout, lengths, getattr(torch, dtype), device)


def borders(case: Case) -> list[tuple[int, int]]:
    """Return the first place of each packed sequence and the place after its last."""
    ends = [0]
    for length in case.lengths:
        ends.append(ends[-1] + length)
    return list(pairwise(ends))

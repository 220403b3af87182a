"""A model's configuration with few layers: one of every kind that the model's class makes of it.

What kinds there are is asked of the class: the whole model is built without memory (on torch's "meta" device), and
layers that look alike are of one kind.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator
from typing import Any

# At most so many layers stay; a class in which every layer differs has no fewer kinds than layers.
LIMIT = 8
# What depends on a layer's place and not on its kind.
_PLACE = re.compile(r"idx|index|layer_id|layer_num")
# Fields that list layers by their numbers: mlp_only_layers, full_attn_idxs, deepstack_visual_indexes, …
_NUMBERS = re.compile(r"(layers|layer_ids|idxs|indices|indexes)$")
# Fields that count layers from the first on, and from the last.
_FROM_FIRST = ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index")
_FROM_LAST = ("num_kv_shared_layers",)
# How configurations name their number of layers.
_DEPTHS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "depth", "encoder_layers", "vision_layers")


def depth_name(config: Any) -> str | None:
    """Return the field of a configuration, without those inside of it, that says how many layers there are."""
    found = (name for name in _DEPTHS if isinstance(getattr(config, name, None), int))
    return next(found, None)


def shorten(config: Any, build: Any) -> tuple[Any, int]:
    """Return a copy of a configuration with one layer of every kind, two at least, and how many kinds there were.

    `build` makes a model without memory of a configuration. Each part (text, vision, audio) is shortened for itself.
    """
    kinds = [layer_kinds(build(config), part) for part in parts(config)]
    count = len(set(kinds[0])) if kinds else 0
    picked = [_pick(part, found) for part, found in zip(parts(config), kinds, strict=True)]
    short = _shortened(config, picked)
    if kinds and set(layer_kinds(build(short), parts(short)[0])) >= _wanted(kinds[0], picked[0]):
        return short, count
    # The places of the kinds follow from numbers that are not lists: the first layers have them as they are.
    whole = kinds[0]
    last = max((whole.index(kind) for kind in dict.fromkeys(whole)), default=0)
    short = _shortened(config, [list(range(max(last + 1, min(2, len(whole))))), *picked[1:]])
    return short, count


def parts(config: Any) -> list[Any]:
    """Return the configurations that have layers of their own, that of the text first."""
    text = config.get_text_config()
    others = (value for value in vars(config).values() if hasattr(value, "to_dict") and value is not text)
    return [part for part in (text, *others) if depth_name(part)]


def layer_kinds(model: Any, part: Any) -> list[str]:
    """Return what the layers of a part look like, one text for each layer; equal texts are one kind."""
    count = getattr(part, str(depth_name(part)))
    # Each part's own model has the part as its configuration; two parts may have the same number of layers.
    owners = (module for module in model.modules() if type(getattr(module, "config", None)) is type(part))
    inside = {id(module): module for owner in owners for module in owner.modules()}
    lists = [module for module in inside.values() if type(module).__name__ == "ModuleList" and len(module) == count]
    return ["\n".join(_looks(layers[number]) for layers in lists) for number in range(count if lists else 0)]


def _looks(layer: Any) -> str:
    """Return the classes, shapes and settings of all that is in a layer, but for its place among the others."""
    lines = []
    for name, module in layer.named_modules():
        plain = {
            key: value
            for key, value in vars(module).items()
            if isinstance(value, bool | int | float | str | None) and not key.startswith("_") and not _PLACE.search(key)
        }
        shapes = {key: tuple(value.shape) for key, value in module.named_parameters(recurse=False)}
        lines.append(f"{name} {type(module).__name__} {plain} {shapes}")
    return "\n".join(lines)


def _pick(part: Any, kinds: list[str]) -> list[int]:
    """Return the numbers of the layers that stay: the first of each kind, and of those that a field lists."""
    count = getattr(part, str(depth_name(part)))
    found = {kinds.index(kind) for kind in dict.fromkeys(kinds)} | {0}
    for value in _numbered(part, count).values():
        found |= set(value[:1])
    for name in _FROM_LAST:
        if isinstance(shared := getattr(part, name, None), int) and 0 < shared < count:
            found.add(count - shared)
    if len(found) < 2 <= count:
        found.add(next(number for number in range(count) if number not in found))
    return sorted(found)[:LIMIT]


def _wanted(kinds: list[str], picked: list[int]) -> set[str]:
    return {kinds[number] for number in picked} if kinds else set()


def _numbered(part: Any, count: int) -> dict[str, list[int]]:
    """Return the fields that list layers by their numbers."""
    return {
        name: list(value)
        for name, value in vars(part).items()
        if isinstance(value, list | tuple)
        and _NUMBERS.search(name)
        and len(value) != count
        and all(isinstance(it, int) and not isinstance(it, bool) and 0 <= it < count for it in value)
    }


def _shortened(config: Any, picked: Iterable[list[int]]) -> Any:
    short = copy.deepcopy(config)
    for part, numbers in zip(parts(short), picked, strict=True):
        count = getattr(part, str(depth_name(part)))
        for name, value in list(_changes(part, count, numbers)):
            setattr(part, name, value)
    return again(short)


def _changes(part: Any, count: int, picked: list[int]) -> Iterator[tuple[str, Any]]:
    """Give the fields of a part with their values for the picked layers alone."""
    for name, value in vars(part).items():
        if isinstance(value, list | tuple) and len(value) == count and count > 1:
            yield name, [value[number] for number in picked]
        elif isinstance(value, str) and len(value) == count and "pattern" in name:
            yield name, "".join(value[number] for number in picked)
    for name, numbers in _numbered(part, count).items():
        yield name, [picked.index(number) for number in numbers if number in picked]
    for name in (*_FROM_FIRST, *_FROM_LAST):
        if isinstance(old := getattr(part, name, None), int) and not isinstance(old, bool):
            yield name, sum(number < old if name in _FROM_FIRST else number >= count - old for number in picked)
    yield str(depth_name(part)), len(picked)


def again(config: Any) -> Any:
    """Return a configuration as it will be read from its file; raises what its class raises."""
    return type(config).from_dict(config.to_dict())

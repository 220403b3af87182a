"""Making a benchmark of what was asked for, on the card that it is for."""

from __future__ import annotations

import itertools
from typing import get_args

import msgspec

from kerneltui import __version__
from kerneltui.bench.presets import CPU_FLAGS, CPU_LENGTHS, GPU_FLAGS, PRESETS, Preset, model_folder
from kerneltui.bench.records import Benchmark, Comparison, Contender, LayerKernels
from kerneltui.demo import model_path
from kerneltui.errors import UsageError
from kerneltui.facts.server import Gpu, Server
from kerneltui.plan.devices import ORDER, VISIBLE, name_gpus
from kerneltui.plan.plan import Plan, parse_config
from kerneltui.records import Record
from kerneltui.text import did_you_mean, now

TRAINERS = ("sft", "dpo")
"""Those whose rows can be made at a length (see `worker/full_rows.py`), and whose step is one of training alone."""

_PACKAGES = ("torch", "transformers", "trl", "kernels", "liger-kernel", "flash-attn")


class Wanted(Record):
    """What the person asked to compare; what is empty or None comes from the preset."""

    preset: str | None = None
    attention: tuple[str, ...] = ()
    layer_kernels: tuple[str, ...] = ()
    packing: tuple[bool, ...] = (False,)
    lengths: tuple[int, ...] = ()
    steps: int | None = None
    warmup: int = 3
    rounds: int = 1
    layers: int | None = None

    @property
    def all_kernels(self) -> bool:
        """Whether every kernel that is ready here takes part."""
        return not self.attention and find_preset(self.preset).kernels


def find_preset(name: str | None) -> Preset:
    """Return the preset `name`, "quick" where it is None. Raises UsageError."""
    if name is not None and name not in PRESETS:
        raise UsageError(
            f"There is no preset {name!r}",
            "\n".join(f"{known}: {preset.what}" for known, preset in PRESETS.items()),
            did_you_mean(name, PRESETS) or "Choose one of them.",
        )
    return PRESETS[name or "quick"]


def trial_card(server: Server, plan: Plan, gpus: tuple[int, ...] | None) -> tuple[Gpu | None, dict[str, str]]:
    """Return the card that is measured on (None: the CPU), and the variables that name it to a process.

    The one that was asked for, else that with most free memory. Raises UsageError where it is not there.
    """
    usable = [gpu for gpu in server.gpus if gpu.torch_index is not None and gpu.index is not None]
    if gpus is not None:
        usable = [gpu for gpu in usable if gpu.index in gpus]
        if len(gpus) != 1 or not usable:
            raise UsageError(
                "A benchmark runs on one GPU", f"--gpus {','.join(map(str, gpus))} does not name one that torch sees."
            )
    base = {**plan.environment, ORDER: "PCI_BUS_ID"}
    if not usable:
        return None, {**base, VISIBLE: ""}
    card = max(usable, key=lambda gpu: gpu.memory_free or 0)
    assert card.index is not None
    return card, {**base, VISIBLE: name_gpus([card.index], server)}


def compare(wanted: Wanted, plan: Plan, server: Server, card: Gpu | None, kernels: tuple[str, ...] = ()) -> Benchmark:
    """Return the benchmark of what is wanted; `kernels` are those that take part beside the preset's.

    Raises UsageError for what cannot be compared.
    """
    preset = find_preset(wanted.preset)
    if plan.trainer not in TRAINERS:
        raise UsageError(f"{plan.trainer} cannot be compared", f"The trainers for that are {', '.join(TRAINERS)}.")
    plan, model = _complete(plan, preset, card)
    layer_kernels = tuple(_layer_kernels(word) for word in wanted.layer_kernels or preset.layer_kernels)
    attention = wanted.attention or (*preset.attention, *(it for it in kernels if it not in preset.attention))
    packing = wanted.packing if plan.trainer == "sft" else (False,)
    made = itertools.product(packing, layer_kernels, attention)
    return Benchmark(
        name=wanted.preset or ("quick" if not wanted.attention else plan.trainer),
        time=now(),
        kerneltui=__version__,
        comparison=Comparison(
            plan=plan,
            contenders=tuple(Contender(attention=a, layer_kernels=b, packing=c) for c, b, a in made),
            lengths=wanted.lengths or (preset.lengths if card else CPU_LENGTHS),
            steps=wanted.steps or preset.steps,
            warmup=wanted.warmup,
            rounds=wanted.rounds,
            layers=wanted.layers,
        ),
        model=model,
        device=(card.name or "GPU") if card else "the CPU",
        driver=server.driver if card else None,
        packages=packages_of(server),
    )


def packages_of(server: Server) -> dict[str, str]:
    """Return the versions of the packages that a step's time depends on."""
    return {name: server.packages[name].version for name in _PACKAGES if name in server.packages}


def _complete(plan: Plan, preset: Preset, card: Gpu | None) -> tuple[Plan, str]:
    """Return the plan with what the preset gives where it does not say itself, and the name of its model."""
    given = {**(parse_config(plan.config, "the configuration") if plan.config else {}), **_flags(plan.flags)}
    flags = list(plan.flags)
    if card is None and "use_cpu" not in given:
        flags = [*CPU_FLAGS, *flags]
    elif card is not None and "dtype" not in given:
        flags = [*GPU_FLAGS, *flags]
    if "per_device_train_batch_size" not in given:
        flags += ["--per_device_train_batch_size", str(preset.batch)]
    model = given.get("model_name_or_path")
    if model is None:
        folder = model_folder(preset.model) if card else model_path()
        flags += ["--model_name_or_path", str(folder)]
        model = f"{preset.model} (random weights)" if card else "the demo's tiny model"
    return msgspec.structs.replace(plan, flags=tuple(flags)), str(model)


def _flags(flags: tuple[str, ...]) -> dict[str, str]:
    """Return the flags that name a value; which ones are there matters, and the model's."""
    found: dict[str, str] = {}
    for place, flag in enumerate(flags):
        name, equals, value = flag.partition("=")
        if name.startswith("--"):
            found[name[2:]] = value if equals else flags[place + 1] if place + 1 < len(flags) else ""
    return found


def _layer_kernels(word: str) -> LayerKernels:
    known: tuple[LayerKernels, ...] = get_args(LayerKernels)
    for one in known:
        if word == one:
            return one
    raise UsageError(f"{word!r} are no layer kernels", f"Known are {', '.join(known)}.")

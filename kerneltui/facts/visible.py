"""What CUDA shows a process of a server's GPUs: whole cards, and parts of those that are divided (MIG).

Source: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/mig-device-names.html (CUDA Device Enumeration, read
2026-12): from driver 570 on a process sees one compute instance of each GPU instance, beside whole cards; with older
drivers the first compute instance alone, and no whole card beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kerneltui.facts.server import Gpu, MigInstance

_SEVERAL_PARTS = 570


def visible_gpus(gpus: Sequence[Gpu], devices: str | None, *, driver: str | None = None) -> tuple[Gpu, ...]:
    """Return what CUDA shows of `gpus` under CUDA_VISIBLE_DEVICES=`devices` (None: unset) and the driver `driver`.

    `devices` are numbers in PCI bus order, beginnings of UUIDs ("GPU-…", "MIG-…"), or parts as drivers before 470 name
    them ("MIG-GPU-…/1/0"). A part is its card with the part's name and memory, and `mig_instances` holds it alone. A
    name that is not there ends the list, and one that stands there twice empties it (`_parse_visible_devices` in
    torch.cuda). Where the parts are not known, all cards that may be divided count.
    """
    numbered = _enumerate(gpus, driver)
    if devices is None:
        return _shown(numbered, driver)
    unknown = tuple(gpu for gpu in gpus if gpu.mig is not False and gpu.mig_instances is None)
    if "MIG-" in devices and unknown:
        return unknown
    if all(gpu.index is None and gpu.uuid is None for gpu in gpus):
        return tuple(gpus)
    found: list[Gpu] = []
    for name in devices.split(","):
        named = _named(gpus, numbered, name.strip())
        if len(named) != 1:
            break
        found += named
    keys = [_key(gpu) for gpu in found]
    return _shown(found, driver) if len(set(keys)) == len(keys) else ()


def is_divided(gpu: Gpu) -> bool:
    """Return whether a card is in MIG mode, so that CUDA shows its parts (or nothing) in its place."""
    return bool(gpu.mig) and gpu.mig_instances is not None


def sees_several(driver: str | None) -> bool:
    """Return whether a process sees parts of several GPU instances; of an unknown driver the least is taken."""
    major = (driver or "").partition(".")[0]
    return major.isdigit() and int(major) >= _SEVERAL_PARTS


def part_of(gpu: Gpu, instance: MigInstance) -> Gpu:
    """Return one part of a card as CUDA shows it: with the part's name and memory.

    Who computes on it is not told apart, but its own memory tells how much is taken.
    """
    total, used = instance.memory_total, instance.memory_used
    reasons = {name: reason for name, reason in gpu.unavailable.items() if not name.startswith("memory_")}
    told = {name: reason for name, reason in instance.unavailable.items() if name.startswith("memory_")}
    reasons |= {**dict.fromkeys(("memory_reserved", "processes"), "not told of a part"), **told}
    free = None if total is None or used is None else total - used
    if free is None:
        reasons["memory_free"] = "; ".join(dict.fromkeys(told.values())) or "not told"
    return msgspec.structs.replace(
        gpu,
        name=instance.name or gpu.name,
        memory_total=total,
        memory_used=used,
        memory_free=free,
        memory_reserved=None,
        processes=None,
        mig_instances=(instance,),
        unavailable=reasons,
    )


def parts_of(gpu: Gpu) -> tuple[Gpu, ...]:
    """Return the parts of a divided card, none where it has none."""
    return tuple(part_of(gpu, instance) for instance in gpu.mig_instances or ()) if is_divided(gpu) else ()


def _enumerate(gpus: Sequence[Gpu], driver: str | None) -> tuple[Gpu, ...]:
    """Return what CUDA counts: the whole cards, then the parts that it takes of each divided one.

    That the parts come last was seen, not documented: https://github.com/DataDog/datadog-agent/pull/36377
    """
    whole = [gpu for gpu in gpus if not is_divided(gpu)]
    parts: list[Gpu] = []
    for gpu in gpus:
        first = {_gpu_instance(part): part for part in reversed(parts_of(gpu))}
        parts += list(reversed(first.values())) if sees_several(driver) else parts_of(gpu)[:1]
    return (*whole, *parts)


def _shown(gpus: Sequence[Gpu], driver: str | None) -> tuple[Gpu, ...]:
    """Return those of the named devices that one process sees."""
    parts = [gpu for gpu in gpus if is_divided(gpu)]
    if parts and not sees_several(driver):
        return (parts[0],)
    taken: dict[object, Gpu] = {}
    for gpu in gpus:
        taken.setdefault((_card(gpu), _gpu_instance(gpu)) if is_divided(gpu) else id(gpu), gpu)
    return tuple(taken.values())


def _named(gpus: Sequence[Gpu], numbered: Sequence[Gpu], name: str) -> Sequence[Gpu]:
    """Return the devices that a name may mean; only one of exactly one is shown."""
    if name.isascii() and name.isdigit():
        if any(is_divided(gpu) for gpu in gpus):
            return numbered[int(name) : int(name) + 1]
        return [gpu for gpu in gpus if gpu.index == int(name)]
    if name.startswith("MIG-"):
        return [part for gpu in gpus for part in parts_of(gpu) if _is_part(part, name)]
    cards = [gpu for gpu in gpus if name.startswith("GPU-") and _begins(gpu.uuid, name)]
    return [part for gpu in cards for part in (parts_of(gpu)[:1] if is_divided(gpu) else (gpu,))]


def _is_part(part: Gpu, name: str) -> bool:
    instance = _instance(part)
    if _begins(instance.uuid, name):
        return True
    card, *numbers = name.removeprefix("MIG-").split("/")
    own = [str(instance.gpu_instance), str(instance.compute_instance)]
    return numbers == own and card.startswith("GPU-") and _begins(part.uuid, card)


def _begins(uuid: str | None, name: str) -> bool:
    return uuid is not None and uuid.lower().startswith(name.lower())


def _instance(part: Gpu) -> MigInstance:
    return (part.mig_instances or (MigInstance(),))[0]


def _gpu_instance(gpu: Gpu) -> object:
    """Return what the compute instances of the same GPU instance share."""
    instance = _instance(gpu)
    return instance.uuid if instance.gpu_instance is None else instance.gpu_instance


def _card(gpu: Gpu) -> object:
    return gpu.uuid or gpu.pci or gpu.index


def _key(gpu: Gpu) -> object:
    instance = _instance(gpu)
    return (_card(gpu), instance.uuid or (instance.gpu_instance, instance.compute_instance))

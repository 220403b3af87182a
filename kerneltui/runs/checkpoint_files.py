"""Whether a checkpoint is whole: what the Trainer needs to go on from it, and whether its files can be read.

Nothing is unpickled: a checkpoint may come from anywhere. Source of the names: transformers 5.22.2 `trainer.py`
(`_save_checkpoint`, `_load_rng_state`, `_load_optimizer_and_scheduler`), `trainer_jit_checkpoint.py` and
`utils/__init__.py`, peft 0.19 `utils/constants.py`, accelerate 1.15 `utils/fsdp_utils.py`, DeepSpeed's `latest`.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STATE = "trainer_state.json"
UNFINISHED = "checkpoint-is-incomplete.txt"
SCHEDULER = "scheduler.pt"
OPTIMIZERS = ("optimizer.pt", "optimizer.bin")
WEIGHTS = ("model.safetensors", "pytorch_model.bin", "adapter_model.safetensors", "adapter_model.bin")
INDICES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
FSDP = ("pytorch_model_fsdp.bin", "pytorch_model_fsdp_0")

_RNG = re.compile(r"rng_state(?:_(\d+))?\.pth")
# Longer headers are refused by safetensors itself. Source: safetensors 0.8 `MAX_HEADER_SIZE`.
_HEADER_LIMIT = 100_000_000


def faults_of(folder: Path, step: int, ranks: int | None) -> tuple[str, ...]:
    """Return why training cannot go on from a checkpoint of `step` with `ranks` processes; empty where it can.

    `ranks` None leaves their number unjudged. A disk that does not let itself be read is a fault as well.
    """
    try:
        return tuple(_faults(folder, step, ranks))
    except OSError as error:
        return (f"cannot be read: {error.strerror or error}",)


def _faults(folder: Path, step: int, ranks: int | None) -> Iterator[str]:
    if (folder / UNFINISHED).exists():
        yield "it was being written when the process ended"
    yield from _state_faults(folder / STATE, step)
    yield from _weight_faults(folder)
    if not (folder / "latest").is_file():  # DeepSpeed keeps its optimizer beside the weights
        yield from _optimizer_faults(folder)
    yield from _rank_faults(folder, ranks)


def _state_faults(path: Path, step: int) -> Iterator[str]:
    if not path.is_file():
        yield f"{STATE} is missing: it was not written to its end"
        return
    state = _json(path)
    if state is None:
        yield f"{STATE} cannot be read"
    elif state.get("global_step") != step:
        yield f"{STATE} is of step {state.get('global_step')}, not of {step}"


def _weight_faults(folder: Path) -> Iterator[str]:
    if (folder / "latest").is_file():
        yield from _deepspeed_faults(folder)
        return
    shards = [name for name in INDICES if (folder / name).is_file()]
    whole = [name for name in (*WEIGHTS, *FSDP) if (folder / name).exists()]
    if not shards and not whole:
        yield "no weights of a model or of an adapter are in it"
    for index in shards:
        names = (_json(folder / index) or {}).get("weight_map")
        if not isinstance(names, dict):
            yield f"{index} cannot be read"
            continue
        whole += sorted({str(name) for name in names.values()})
    for name in whole:
        if fault := _file_fault(folder / name):
            yield fault


def _deepspeed_faults(folder: Path) -> Iterator[str]:
    name = (folder / "latest").read_text(errors="replace").strip()
    parts = sorted((folder / name).glob("*_states.pt")) if name and "/" not in name else []
    if not parts:
        yield f"DeepSpeed's folder {name!r} is missing or empty"
    yield from filter(None, map(_file_fault, parts))


def _optimizer_faults(folder: Path) -> Iterator[str]:
    found = [folder / name for name in OPTIMIZERS if (folder / name).is_file()]
    sharded = [path for path in folder.glob("optimizer*") if path.is_dir()]
    if not found and not sharded:
        yield "it has no state of the optimizer (save_only_model keeps the weights alone)"
    if not (folder / SCHEDULER).is_file():
        yield f"{SCHEDULER} is missing"
    else:
        found.append(folder / SCHEDULER)
    yield from filter(None, map(_file_fault, [*found, *sharded]))


def _rank_faults(folder: Path, ranks: int | None) -> Iterator[str]:
    """Compare the random states with the ranks: without its own a rank would draw other numbers than before."""
    found = {name: match[1] for path in folder.iterdir() if (match := _RNG.fullmatch(name := path.name))}
    saved = len(found)
    if not found:
        yield "the random state is missing (rng_state.pth)"
    elif ranks is not None and saved != ranks:
        yield f"it was saved by {_processes(saved)}, and this run has {ranks}"
    elif saved > 1 and set(found.values()) != {str(rank) for rank in range(saved)}:
        yield f"the random states of {_processes(saved)} are not those of ranks 0 to {saved - 1}"
    yield from filter(None, (_file_fault(folder / name) for name in sorted(found)))


def _processes(count: int) -> str:
    return f"{count} process{'es' if count > 1 else ''}"


def _file_fault(path: Path) -> str | None:
    """Return what is wrong with a file of tensors, or with a folder of shards; None for nothing."""
    if path.is_dir():
        return None if (path / ".metadata").is_file() else f"{path.name}/.metadata is missing: a part was not written"
    if not path.is_file():
        return f"{path.name} is missing"
    return _safetensors_fault(path) if path.suffix == ".safetensors" else _torch_fault(path)


def _safetensors_fault(path: Path) -> str | None:
    """Hold the header against the size of the file: 8 bytes of length, JSON with offsets, then the tensors."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(size - 8, _HEADER_LIMIT):
            return f"{path.name} is cut off or empty"
        header = _decoded(file.read(length))
    if header is None:
        return f"{path.name} has a header that cannot be read"
    tensors = [value for name, value in header.items() if name != "__metadata__"]
    try:
        end = max((int(tensor["data_offsets"][1]) for tensor in tensors), default=0)
    except (KeyError, TypeError, ValueError, IndexError):
        return f"{path.name} has a header that cannot be read"
    told = 8 + length + end
    return None if told == size else f"{path.name} has {size} bytes where its header tells of {told}"


def _torch_fault(path: Path) -> str | None:
    """Look at the directory that `torch.save` writes at the end of its archive, and at the part with the structure."""
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith("/data.pkl"):
                    archive.read(name)  # its checksum is compared
                    return None
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError):
        pass
    return f"{path.name} is cut off or damaged"


def _json(path: Path) -> dict[str, Any] | None:
    return _decoded(path.read_bytes())


def _decoded(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None

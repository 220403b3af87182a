"""Checkpoints as the Trainer leaves them, made without torch."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path


def make_checkpoint(output: Path, step: int, *, ranks: int = 1, shards: int = 0) -> Path:
    """Return a whole checkpoint of `step` in `output`; its weights are in one file, or in so many shards."""
    folder = output / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    names = [f"model-{number:05}.safetensors" for number in range(shards)] or ["model.safetensors"]
    for name in names:
        write_safetensors(folder / name)
    if shards:
        index = {"weight_map": {f"layer.{number}": name for number, name in enumerate(names)}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    random = ["rng_state.pth"] if ranks == 1 else [f"rng_state_{rank}.pth" for rank in range(ranks)]
    for name in ("optimizer.pt", "scheduler.pt", *random):
        write_archive(folder / name)
    return folder


def write_safetensors(path: Path, size: int = 64) -> None:
    """Write a file of one tensor."""
    header = json.dumps({"weight": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(size))


def write_archive(path: Path) -> None:
    """Write what `torch.save` writes: an archive with the structure and the tensors."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{path.stem}/data.pkl", b"\x80\x02}q\x00.")
        archive.writestr(f"{path.stem}/data/0", bytes(4096))

"""A model that sees (Gemma 3 4B by its configuration) and rows with pictures, written without a library."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

from kerneltui import demo

_SIGNS = ("<start_of_image>", "<image_soft_token>", "<end_of_image>")
_TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: "
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
    "{% if part.type == 'image' %}<start_of_image>{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}{% endif %}{{ eos_token }}{% endfor %}"
)
# A picture has fewer tokens than that model's 256: pictures of 224 pixels a side in the place of 896.
_SIDE, _PICTURE_TOKENS = 224, 16
_PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
_TEXT: dict[str, Any] = {
    "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "query_pre_attn_scalar": 256,
    "sliding_window": 1024, "vocab_size": 512 + len(_SIGNS), "pad_token_id": 0, "bos_token_id": None, "eos_token_id": 2,
    "layer_types": [("full" if number % 6 == 0 else "sliding") + "_attention" for number in range(1, 35)],
    "rope_parameters": {"sliding_attention": _PLAIN, "full_attention": _PLAIN},
}  # fmt: skip
_CONFIG: dict[str, Any] = {
    "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "dtype": "bfloat16",
    "boi_token_index": 512, "image_token_index": 513, "eoi_token_index": 514, "eos_token_id": 2,
    "mm_tokens_per_image": _PICTURE_TOKENS, "text_config": _TEXT,
    "vision_config": {
        "model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
        "num_attention_heads": 16, "image_size": _SIDE, "patch_size": 14, "vision_use_head": False,
    },
}  # fmt: skip


def write_seeing_model(folder: Path) -> Path:
    """Write the configuration of the model, its processor, and the demo's tokenizer with the signs for pictures."""
    folder.mkdir(parents=True)
    tokenizer = json.loads((demo.model_path() / "tokenizer.json").read_text())
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    tokenizer["added_tokens"] += [{"id": 512 + place, "content": sign, **flags} for place, sign in enumerate(_SIGNS)]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    named = dict(zip(("boi_token", "image_token", "eoi_token"), _SIGNS, strict=True))
    settings = json.loads((demo.model_path() / "tokenizer_config.json").read_text())
    settings |= {"processor_class": "Gemma3Processor", "extra_special_tokens": named}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "chat_template.jinja").write_text(_TEMPLATE)
    image = {"image_processor_type": "Gemma3ImageProcessor", "size": {"height": _SIDE, "width": _SIDE}}
    (folder / "preprocessor_config.json").write_text(json.dumps({**image, "processor_class": "Gemma3Processor"}))
    processor = {"processor_class": "Gemma3Processor", "image_seq_length": _PICTURE_TOKENS}
    (folder / "processor_config.json").write_text(json.dumps(processor))
    (folder / "config.json").write_text(json.dumps(_CONFIG))
    return folder


def write_pictures(folder: Path, rows: int = 8) -> Path:
    """Write rows of one picture, a question and an answer, as `datasets` reads a folder of images."""
    folder.mkdir(parents=True)
    lines = []
    for number in range(rows):
        name = f"{number}.png"
        (folder / name).write_bytes(_png(56, 56, 30 * number))
        row = {
            "file_name": name,
            "prompt": [{"role": "user", "content": "What colour is it?"}],
            "completion": [{"role": "assistant", "content": f"Grey {number}."}],
        }
        lines.append(json.dumps(row))
    (folder / "metadata.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def _png(width: int, height: int, grey: int) -> bytes:
    """Return a picture of one colour (https://www.w3.org/TR/png/)."""
    rows = (b"\0" + bytes([grey, grey, grey]) * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

"""Text from outside, made harmless: what reaches the terminal is plain characters and nothing else."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

# C0 and C1 controls except tab and newline; escape sequences are taken as a whole first.
_ESCAPE_SEQUENCE = re.compile(
    r"(?:\x1b\]|\x9d).*?(?:\x07|\x1b\\|\x9c|$)"  # OSC … BEL or ST
    r"|\x1b[PX^_].*?(?:\x1b\\|\x9c|$)"  # DCS, SOS, PM, APC
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b[ -/]*[0-~]",  # two-character sequences
    re.DOTALL,
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Characters that turn the direction of what follows could make a line read as something else.
_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069\u200e\u200f]")

# Characters about whose width terminals disagree: joiners and selectors of emoji, the soft hyphen, what has no width;
# and Unicode's separators of lines. Without them a line has the width that is reckoned with.
_OF_NO_SURE_WIDTH = {
    0x200D: None, 0xFE0E: None, 0xFE0F: None, 0x200B: None, 0xFEFF: None, 0xAD: "-", 0x2028: " ", 0x2029: " ",
}  # fmt: skip
# All up to the last @: a password may itself hold an @ or a slash, and to show too little does no harm.
_CREDENTIALS = re.compile(r"(://)\S*@")
# Those of a login with a browser are longer: hf_oauth_ or hf_jwt_, then parts of base64 with dots between.
_TOKEN = re.compile(r"hf_\w{8,}(?:[.-]+\w+)*")
# The variables that huggingface_hub takes a token from. Source: huggingface_hub.utils._auth.
_TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_OIDC_ID_TOKEN")
_SHORTEST_TOKEN = 8


def sure_width(text: str) -> str:
    """Return `text` without characters about whose width terminals disagree, so that columns stay aligned."""
    return text.translate(_OF_NO_SURE_WIDTH)


def plain(text: str) -> str:
    """Return `text` without escape sequences, control characters (but tab and newline) and direction overrides."""
    return _DIRECTION.sub("", _CONTROL.sub("", _ESCAPE_SEQUENCE.sub("", text)))


def plain_line(text: str) -> str:
    """Return `plain(text)` on one line, of a sure width; of a line that carriage returns rewrite the last state."""
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]
    return sure_width(" ".join(plain(line) for line in lines)).expandtabs(1).strip()


def cut_middle(text: str, cells: int) -> str:
    """Return `text` in at most so many cells; what is too long loses its middle, so that both ends stay."""
    from rich.cells import cell_len, chop_cells

    if cell_len(text) <= cells:
        return text
    if cells < 3:
        return "…"[:cells]
    tail = (cells - 1) // 2
    end = chop_cells(text[::-1], tail)[0][::-1] if tail else ""
    return f"{chop_cells(text, cells - 1 - tail)[0]}…{end}"


def harmless(value: str) -> str:
    """Return `value` on one line, with user and password taken out of addresses and the Hub's tokens replaced."""
    return hide_secrets(plain_line(value))


def hide_secrets(text: str) -> str:
    """Return `text` without user and password in addresses, and with the Hub's tokens replaced."""
    return hide_tokens(_CREDENTIALS.sub(r"\1", text))


def hide_tokens(text: str) -> str:
    """Return `text` with the Hub's tokens in it replaced: all that look like one, and those of this environment."""
    for token in (os.environ.get(name, "").strip() for name in _TOKEN_VARIABLES):
        if len(token) >= _SHORTEST_TOKEN:
            text = text.replace(token, "hf_…")
    return _TOKEN.sub("hf_…", text)


def without_secrets(value: Any) -> Any:
    """Return dicts and sequences within one another as they are, but for the secrets in their strings."""
    if isinstance(value, str):
        return hide_secrets(value)
    if isinstance(value, dict):
        return {key: without_secrets(inner) for key, inner in value.items()}
    return [without_secrets(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that is spelled most like `name`, or None where none is close; case does not count."""
    named = {candidate.casefold(): candidate for candidate in candidates}
    found = difflib.get_close_matches(name.casefold(), named, n=1, cutoff=0.6)
    return named[found[0]] if found else None


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return the sentence "Did you mean X?" for the nearest candidate, or an empty string."""
    close = nearest(name, candidates)
    return f"Did you mean {close}?" if close else ""


def now() -> str:
    """Return the present time as an ISO 8601 string with a time zone, to the millisecond."""
    return datetime.now().astimezone().isoformat(timespec="milliseconds")


def gibibytes(size: float) -> str:
    """Return a number of bytes in GiB: "0.25 GiB", "1.5 GiB", "139.8 GiB"."""
    value = size / 2**30
    return f"{value:.1f} GiB" if value >= 1 else f"{value:.2f} GiB"


def duration(seconds: float) -> str:
    """Return a span of time in its one or two largest units: "11 s", "4 m 10 s", "42 m", "1 h 12 m", "2 d 3 h"."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 600:
        return f"{whole // 60} m {whole % 60} s" if whole % 60 else f"{whole // 60} m"
    minutes = round(whole / 60)
    if minutes < 60:
        return f"{minutes} m"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} m" if minutes % 60 else f"{minutes // 60} h"
    hours = round(minutes / 60)
    return f"{hours // 24} d {hours % 24} h" if hours % 24 else f"{hours // 24} d"

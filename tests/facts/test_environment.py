"""What of the environment goes into a report."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneltui.facts.environment import read_environment
from kerneltui.text import harmless, hide_tokens, without_secrets


def test_only_variables_that_matter() -> None:
    given_ = {
        "HF_TOKEN": "hf_abcdefghijklmnop",
        "HF_HOME": "/data/hf",
        "NCCL_P2P_DISABLE": "1",
        "AWS_SECRET_ACCESS_KEY": "x",
        "CUDA_VISIBLE_DEVICES": "",
        "PATH": "/bin",
    }
    expected = {"CUDA_VISIBLE_DEVICES": "", "HF_HOME": "/data/hf", "NCCL_P2P_DISABLE": "1"}
    assert read_environment(given_) == expected


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("https://user:password@mirror.example/hf", "https://mirror.example/hf"),
        ("https://user:p@ss/word@mirror.example", "https://mirror.example"),
        ("https://token@mirror.example:8443/", "https://mirror.example:8443/"),
        ("https://mirror.example", "https://mirror.example"),
        ("https://mirror.example/?token=hf_abcdefghijkl", "https://mirror.example/?token=hf_…"),
        ("hf_oauth_eyJhbGciOi.eyJzdWIiOiI-2.c2ln--XYZ.", "hf_…."),
        ("org/kernel=/home/me/kernel:org/b=/x", "org/kernel=/home/me/kernel:org/b=/x"),
        ("0,1\x1b[31m", "0,1"),
    ],
)
def test_values_are_harmless(value: str, shown: str) -> None:
    assert harmless(value) == shown


@given(st.text("abcXYZ012:/@!$&'()*+,;=%-._~", max_size=40))
def test_no_password_stays(password: str) -> None:
    secret = f"S3cret{password}"
    assert "S3cret" not in harmless(f"https://user:{secret}@mirror.example/hf")


def test_a_token_of_this_environment_is_known_whatever_it_looks_like(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", " mirror-token-1234\n")
    assert hide_tokens("refused: mirror-token-1234") == "refused: hf_…"
    nested = {"why": ("mirror-token-1234", ["mirror-token-1234", 7, None])}
    assert without_secrets(nested) == {"why": ["hf_…", ["hf_…", 7, None]]}
    # One that is too short to be a token would take away words that are none.
    monkeypatch.setenv("HF_TOKEN", "no")
    assert hide_tokens("not there") == "not there"

"""Fetched once, a run starts without a network: the loopback Hub is stopped, and HF_HUB_OFFLINE is set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kerneltui import demo
from kerneltui.facts.cached import cached_kernels
from kerneltui.runs.control import ask_run
from kerneltui.runs.directory import ACTIVE, RunDirectory, read_lines
from tests.e2e.test_launch import KERNEL, kerneltui, write_config
from tests.hub.server import LoopbackHub
from tests.waiting import until

MODEL, DATA = "someone/tiny", "someone/rows"


def serve_model_and_data(hub: LoopbackHub) -> None:
    """Put the demo's model and data on the Hub, with files that no run reads."""
    hub.add("model", MODEL, demo.model_path())
    extra = {"onnx/model.onnx": b"0" * 1000, "pytorch_model.bin": b"0" * 1000}
    files = hub.repository(MODEL, "model").branches["main"][0].files
    hub.add("model", MODEL, {**files, **extra})
    hub.add("dataset", DATA, {"data/train.jsonl": demo.data_path("sft").read_bytes()})


@pytest.mark.full
@pytest.mark.parametrize("revision", ["@commit", "@v2", ""], ids=["commit", "branch", "unpinned"])
def test_a_run_starts_offline_after_a_fetch(tmp_path: Path, hub: LoopbackHub, revision: str) -> None:
    serve_model_and_data(hub)
    served = hub.repository(KERNEL).branches["v2" if revision else "v4"][0].id
    asked = KERNEL + (f"@{served}" if revision == "@commit" else revision)
    write_config(tmp_path / "c.yaml", model_name_or_path=MODEL, datasets=[{"path": DATA}], attn_implementation=asked)
    environment = {**hub.environment(), "HF_DATASETS_CACHE": str(hub.home / "datasets")}

    done = kerneltui("fetch", "sft", "c.yaml", "--json", environment=environment, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    parts = {part["kind"]: part for part in json.loads(done.stdout)["parts"]}
    assert set(parts) == {"kernel", "model", "data"}
    assert (parts["kernel"]["commit"], parts["kernel"]["size"] > 0) == (served, True)
    (held,) = cached_kernels(hub.home / "hub")[KERNEL]
    assert (held.whole, held.variants, held.commit) == (True, (parts["kernel"]["variant"],), served)
    assert hub.count("pytorch_model.bin") == hub.count("model.onnx") == 0
    again = kerneltui("fetch", "sft", "c.yaml", environment=environment, cwd=tmp_path)
    assert again.stdout.count("was there") == 2

    launch = ("launch", "sft", "c.yaml", "--wait", "--runs-dir", "runs", "--name")
    if revision == "@v2":  # to load it online once more must not spoil what was fetched
        assert kerneltui(*launch, "online", environment=environment, cwd=tmp_path).returncode == 0
    hub.close()
    done = kerneltui(*launch, "run", environment={**environment, "HF_HUB_OFFLINE": "1"}, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    run = RunDirectory(tmp_path / "runs" / "run")
    promised = run.read_run().will_run.attention
    assert (promised.commit, promised.variant) == (served, parts["kernel"]["variant"])
    begin = next(event for event in read_lines(run.events) if event["event"] == "train_begin")
    assert begin["kernels"][0]["commit"] == served
    assert not [event for event in read_lines(run.events) if event["event"] == "alert"]


@pytest.mark.full
def test_ranks_take_from_the_cache_what_was_fetched_before_them(tmp_path: Path, hub: LoopbackHub) -> None:
    serve_model_and_data(hub)
    write_config(tmp_path / "c.yaml", model_name_or_path=MODEL, datasets=[{"path": DATA}],
                 attn_implementation=f"{KERNEL}@v2")  # fmt: skip
    environment = {**hub.environment(), "HF_DATASETS_CACHE": str(hub.home / "datasets"), "OMP_NUM_THREADS": "1"}
    started = kerneltui(
        "launch", "sft", "c.yaml", "--multi_gpu", "--num_processes", "2", "--name", "run", "--runs-dir", "runs",
        environment=environment, cwd=tmp_path,
    )  # fmt: skip
    assert started.returncode == 0, started.stderr
    run = RunDirectory(tmp_path / "runs" / "run")
    asked = len(hub.requests)
    try:
        until(lambda: sum(event["event"] == "train_end" for event in read_lines(run.events)) == 2, limit=300)
        assert "HF_HUB_OFFLINE" in run.read_run().environment_names
        begin = [event for event in read_lines(run.events) if event["event"] == "train_begin"]
        assert {event["kernels"][0]["commit"] for event in begin} == {hub.repository(KERNEL).branches["v2"][0].id}
        assert not [event for event in read_lines(run.events) if event["event"] == "alert"]
        assert hub.requests[asked:] == []
    finally:
        ask_run(run, "kill")  # a rank on the CPU may hang at its end: see tests/runs/test_two_ranks.py
        until(lambda: run.read_state().phase not in ACTIVE)

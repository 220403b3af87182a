"""Run directories as a run leaves them, made by hand: going on, finished, failed, hostile. No process behind them."""

from __future__ import annotations

import fcntl
import json
import math
import socket
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from kerneltui.advice.assessment import Attention, WillRun
from kerneltui.facts.server import Gpu, Server
from kerneltui.plan.plan import Launch, Plan
from kerneltui.runs.directory import Command, Phase, RunDirectory, RunRecord, State

START = datetime.fromisoformat("2026-12-01T14:02:00+00:00")
KERNEL = "kernels-community/flash-attn2"
COMMIT = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d"
LOADED = {
    "name": "flash-attn2", "version": 4, "repository": KERNEL, "revision": "v4", "commit": COMMIT,
    "variant": "torch211-cxx11-cu130-x86_64-linux", "path": "/cache/build/torch211",
}  # fmt: skip


class FakeRun:
    """Writes a run directory piece by piece; `run` is what a screen opens.

    It holds the run's lock as a supervisor does, so that to look at it starts none.
    """

    def __init__(
        self, runs: Path, name: str = "calm-otter", *, trainer: str = "sft", model: str = "Qwen/Qwen3-0.6B",
        gpus: int = 1, total: int = 3000, start: datetime = START, host: str | None = None,
    ) -> None:  # fmt: skip
        self.run = RunDirectory(runs / name)
        self.total = total
        self.start = self.time = start
        self.gpus = gpus
        self.run.attempt(1).mkdir(parents=True)
        self.run.output(1).touch()
        self._host = host or socket.gethostname()
        self._lock = self.run.lock.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._write_record(name, trainer, model)
        self.state("running")

    def _write_record(self, name: str, trainer: str, model: str) -> None:
        cards = tuple(
            Gpu(index=index, uuid=f"GPU-{index}", name="NVIDIA H200", memory_total=143 << 30, power_limit=700.0)
            for index in range(self.gpus)
        )
        server = Server(
            time=self.start.isoformat(), hostname="gpu-7", system="Linux", machine="x86_64", python="3.12",
            interpreter="/usr/bin/python", gpus=cards,
        )  # fmt: skip
        attention = Attention(
            asked=f"{KERNEL}@v4", implementation=f"{KERNEL}@v4", repository=KERNEL, revision="v4", commit=COMMIT
        )
        record = RunRecord(
            name=name, time=self.start.isoformat(), kerneltui="0.1.0",
            plan=Plan(trainer=trainer, cwd="/home/me", config="max_steps: 3000\n", launch=Launch(name=name)),
            will_run=WillRun(
                trainer=trainer, model=model, attention=attention, dtype="bfloat16", packages={"trl": "1.16.0"}
            ),
            findings=(), forced=False, output_dir=str(self.run.path / "output"), server=server, environment_names=(),
        )  # fmt: skip
        self.run.write("run.json", record)
        self.run.write("attempts/1/command.json", Command(argv=("trl", trainer), cwd="/home/me", environment={}))

    def state(self, phase: Phase, *, attempt: int = 1, reason: str | None = None, code: int | None = None) -> None:
        """Write `state.json`."""
        ended = self.time.isoformat() if phase not in ("starting", "running") else None
        self.run.write(
            "state.json",
            State(
                phase=phase, attempt=attempt, hostname=self._host, boot_id=None, updated=self.time.isoformat(),
                started=self.start.isoformat(), ended=ended, exit_code=code, reason=reason,
            ),
        )  # fmt: skip

    def event(self, name: str, *, attempt: int = 1, **values: Any) -> None:
        """Append an event at the present time of the fake."""
        self._append(self.run.events, {"attempt": attempt, "event": name, "rank": 0, **values})

    def begin(self, *, attempt: int = 1, step: int = 0, attention: str = f"{KERNEL}@v4", **values: Any) -> None:
        """Append what stands before the first step."""
        self.event("process_start", attempt=attempt, trainer="sft", pid=1)
        self.forward(9)
        values = {"save_steps": 500, "kernels": [LOADED], **values}
        self.event(
            "train_begin", attempt=attempt, step=step, total=self.total, output_dir=str(self.run.path / "output"),
            world_size=1, device="cuda:0", attention=attention, **values,
        )  # fmt: skip

    def log(self, step: int, *, attempt: int = 1, **values: Any) -> None:
        """Append a log event."""
        line = {"attempt": attempt, "kind": "log", "step": step, "epoch": step / 700, "values": values}
        self._append(self.run.metrics, line)

    def progress(self, step: int, *, attempt: int = 1, seconds: float = 0.127) -> None:
        """Append a progress line."""
        self._append(
            self.run.metrics,
            {"attempt": attempt, "kind": "progress", "step": step, "total": self.total, "epoch": step / 700,
             "seconds_per_step": seconds},
        )  # fmt: skip

    def sample(self, number: int = 0, **values: Any) -> None:
        """Append a sample of the machine."""
        wave = math.sin(number / 7)
        cards = [
            {
                "index": index, "uuid": f"GPU-{index}", "utilization": int(94 + 5 * wave),
                "memory_used": int((68 + 3 * wave) * 2**30), "power": 612 + 40 * wave,
                "temperature": int(61 + 2 * wave), "throttle": [], "unavailable": {}, **values,
            }
            for index in range(self.gpus)
        ]  # fmt: skip
        self._append(
            self.run.system,
            {"attempt": 1, "gpus": cards, "memory_used": 180 << 30, "memory_total": 503 << 30, "disk_free": 812 << 30},
        )

    def print(self, text: str | bytes, *, attempt: int = 1) -> None:
        """Append to the log."""
        with self.run.output(attempt).open("ab") as file:
            file.write(text if isinstance(text, bytes) else text.encode())

    def forward(self, seconds: float) -> None:
        """Let time pass for what is written next."""
        self.time += timedelta(seconds=seconds)

    def train(self, first: int, last: int, *, every: int = 4, attempt: int = 1) -> None:
        """Append a stretch of training as SFT logs it: metrics, progress, samples, log."""
        for step in range(first, last + 1, every):
            self.forward(0.127 * every)
            loss = 1.7 + 2.4 * math.exp(-step / 60) + 0.09 * math.sin(step * 1.7) + 0.05 * math.sin(step * 0.31)
            self.log(
                step, attempt=attempt, loss=loss,
                grad_norm=0.7 + 2.2 * math.exp(-step / 35) + 0.1 * math.sin(step * 2.3),
                learning_rate=2e-5 * min(1, step / 100), entropy=1.6 + math.exp(-step / 90),
                mean_token_accuracy=0.62 - 0.3 * math.exp(-step / 70), num_tokens=float(step * 16384), epoch=step / 700,
            )  # fmt: skip
            if step % 8 == 0:
                self.progress(step, attempt=attempt)
                self.print(f"\r{100 * step // self.total:3d}%|███       | {step}/{self.total} [00:52<05:27,  7.90it/s]")
            if step % 16 == 0:
                self.sample(step)
            words = {"loss": f"{loss:.4g}", "learning_rate": "2e-05", "epoch": f"{step / 700:.3g}"}
            self.print(f"\r{' ' * 60}\r{words}\n")

    def _append(self, path: Path, line: dict[str, Any]) -> None:
        with path.open("a") as file:
            file.write(json.dumps({"time": self.time.isoformat(timespec="milliseconds"), **line}) + "\n")


def running(runs: Path, **values: Any) -> FakeRun:
    """Return a run in the middle of its training."""
    fake = FakeRun(runs, **values)
    fake.print("[transformers] The tokenizer has new PAD/BOS/EOS tokens that differ from the model config.\n")
    fake.begin()
    for number in range(120):
        fake.sample(number)
    for step in (100, 200, 300, 400):
        fake.train(step - 96, step)
        fake.log(step, eval_loss=1.9 + step**-0.6, eval_runtime=3.1, eval_samples_per_second=60.0)
    fake.event("checkpoint", step=400, path=str(fake.run.path / "output" / "checkpoint-400"))
    fake.train(404, 412)
    return fake


def finished(runs: Path, **values: Any) -> FakeRun:
    """Return a run that reached its end."""
    fake = FakeRun(runs, **{"name": "first-try", "total": 300, **values})
    fake.begin(save_steps=100)
    for step in (100, 200, 300):
        fake.train(step - 96, step)
        fake.event("checkpoint", step=step, path=str(fake.run.path / "output" / f"checkpoint-{step}"))
    fake.log(300, train_runtime=38.2, train_steps_per_second=7.85, train_loss=1.93)
    fake.event("train_end", step=300, kernels=[LOADED])
    fake.event("process_end", outcome="finished", error=None)
    fake.print("✅ Training completed.\n💾 Model saved.\n")
    fake.state("finished", code=0)
    return fake


def failed(runs: Path, **values: Any) -> FakeRun:
    """Return a run that failed after a checkpoint."""
    fake = FakeRun(runs, **{"name": "dpo-test", "trainer": "dpo", "total": 500, **values})
    fake.begin(save_steps=50)
    fake.train(2, 120, every=2)
    fake.event("checkpoint", step=100, path=str(fake.run.path / "output" / "checkpoint-100"))
    reason = "OutOfMemoryError: CUDA out of memory. Tried to allocate 24.00 GiB. GPU 0 has 139.80 GiB in all."
    fake.print(f'Traceback (most recent call last):\n  File "/x/train.py", line 3, in <module>\n{reason}\n')
    fake.event("process_end", outcome="failed", error={"type": "OutOfMemoryError", "message": "CUDA out of memory"})
    fake.state("failed", reason=reason, code=1)
    return fake


HOSTILE_LOG = (
    (
        "\x1b]0;owned\x07\x1b]52;c;ZXZpbA==\x07title and clipboard\n"
        "\x1b[31mred\x1b[0m \x1b[2J\x1b[H\x1b[?1000h mouse \x9b31m c1 \x85 next\n"
        "[/red] [b [bold]not bold[/bold] [@click=app.quit]quit[/] $primary [/]\n"
        "损失下降:0.123 训练正常 ✅ 🚀 👩‍💻 ⚠️ tail\n"
        "tab\there \u202eright to left\u202c \u200bzero\u00adsoft\u2028line\n"
        "\ud7ff invalid: "
    ).encode()
    + b"\xff\xfe\xc3( end\n"
    + b"\x00\x01\x02nul\n"
    + b"a" * 5000
    + b"\n"
)


def hostile(runs: Path, **values: Any) -> FakeRun:
    """Return a run whose words, numbers and log try to break a screen."""
    fake = FakeRun(
        runs, **{"name": "平静的水獭", "model": "某人/[red]模型[/]🚀-\x1b[31m0.6B", "trainer": "sft", **values}
    )
    fake.begin(attention="evil/[/red]\x1b]0;x\x07attention")
    for step in range(1, 60):
        fake.forward(1)
        value = "NaN" if 20 <= step < 30 or step > 55 else "Infinity" if step == 40 else 1.0 + 1 / step
        odd: dict[str, Any] = {"[/red]奖励🚀": 1e-12 * step, "\x1b[2Jx": 1}
        fake.log(step, loss=value, grad_norm=1e300 if step == 3 else 0.5, **odd)
        fake.progress(step, seconds=1.0)
    fake.sample(throttle=["thermal slowdown by the driver", "[/b]"])
    fake.print(HOSTILE_LOG)
    for number in range(3000):
        fake.print(f"\r{number}/3000 " + "█" * (number % 40))
    fake.state("running")
    return fake

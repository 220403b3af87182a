"""The verb that sets attention implementations side by side on this machine."""

from __future__ import annotations

import contextlib
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kerneltui.cli import options
from kerneltui.cli.output import print_json, print_lines, progress
from kerneltui.cli.situation import gpu_numbers, plan_of, server_report
from kerneltui.errors import KerneltuiError, UsageError

if TYPE_CHECKING:
    from kerneltui.bench.compare import Wanted
    from kerneltui.bench.records import Benchmark, Measured
    from kerneltui.bench.store import Store
    from kerneltui.bench.summary import Summary
    from kerneltui.facts.server import Server
    from kerneltui.plan.plan import Plan

_FORMS = (".csv", ".md", ".svg")


@click.command(context_settings=options.PASS_ON)
@click.argument("trainer", default="sft")
@options.arguments
@click.option("--preset", help="guide, quick or kernels: what is compared where nothing else is said.")
@click.option("--attention", help="Attention implementations: sdpa,eager,kernels-community/flash-attn2@v2")
@click.option("--layer-kernels", help="Of none, liger and hub, those that are compared: none,liger")
@click.option("--packed", type=click.Choice(["no", "yes", "both"]), default="no", help="sft: packed rows.")
@click.option("--lengths", help="Lengths of a row in tokens: 512,1024,2048")
@click.option("--steps", type=click.IntRange(min=2), help="Measured steps of each point.")
@click.option("--warmup", type=click.IntRange(min=1), default=3, show_default=True, help="Steps before them.")
@click.option("--rounds", type=click.IntRange(min=1), default=1, show_default=True, help="Processes for each point.")
@click.option("--layers", type=click.IntRange(min=1), help="Keep the first layers of the model alone.")
@click.option(
    "--export", "exports", multiple=True, type=click.Path(path_type=Path), help=f"Write a file: {', '.join(_FORMS)}."
)
@click.option("--list", "listing", is_flag=True, help="List the benchmarks that were made here.")
@options.gpus
@options.python
@options.as_json
def bench(
    trainer: str,
    arguments: tuple[str, ...],
    preset: str | None,
    attention: str | None,
    layer_kernels: str | None,
    packed: str,
    lengths: str | None,
    steps: int | None,
    warmup: int,
    rounds: int,
    layers: int | None,
    exports: tuple[Path, ...],
    listing: bool,
    gpus: str | None,
    python: Path | None,
    as_json: bool,
) -> None:
    """Set attention implementations side by side: step time and peak memory of real training steps.

    The weights are random, so nothing of a model is downloaded but its configuration. Ctrl-C keeps what was measured,
    and the same command goes on from there.
    """
    from kerneltui.bench.compare import Wanted

    if listing:
        print_lines(_list())
        return
    _check_forms(exports)
    wanted = Wanted(
        preset=preset,
        attention=_words(attention),
        layer_kernels=_words(layer_kernels),
        packing={"no": (False,), "yes": (True,), "both": (False, True)}[packed],
        lengths=_lengths(lengths),
        steps=steps,
        warmup=warmup,
        rounds=rounds,
        layers=layers,
    )
    if trainer.startswith("-"):  # flags of TRL alone
        trainer, arguments = "sft", (trainer, *arguments)
    plan = plan_of(trainer, arguments)
    machine = server_report(python, None, None)
    benchmark, store, environment = _prepare(wanted, plan, machine, gpu_numbers(gpus), python)
    finished = _measure(benchmark, store, environment, python, quiet=as_json)
    _show(benchmark, store, exports, as_json)
    if not finished:
        raise SystemExit(130)


def _check_forms(paths: tuple[Path, ...]) -> None:
    for path in paths:
        if path.suffix not in _FORMS:
            raise UsageError(f"{path} has no form that can be written", hint=f"Let it end in {', '.join(_FORMS)}.")


def _prepare(
    wanted: Wanted, plan: Plan, machine: Server, gpus: tuple[int, ...] | None, python: Path | None
) -> tuple[Benchmark, Store, dict[str, str]]:
    from kerneltui.bench.compare import compare, trial_card
    from kerneltui.bench.store import store_of

    card, environment = trial_card(machine, plan, gpus)
    ready = _ready_kernels(machine, python) if wanted.all_kernels else ()
    benchmark = compare(wanted, plan, machine, card, ready)
    store = store_of(benchmark)
    store.begin(benchmark)
    return benchmark, store, environment


def _ready_kernels(machine: Server, python: Path | None) -> tuple[str, ...]:
    """Return the attention kernels of the Hub that can train here. Raises HubError where it does not say."""
    from kerneltui.browse.browser import KernelBrowser
    from kerneltui.facts.hub import Hub
    from kerneltui.interpreter import Asker, find_interpreter
    from kerneltui.paths import hub_answers

    with progress() as tell, Asker(find_interpreter(python)) as asker:
        tell("asking the Hub which kernels are ready here")
        found = KernelBrowser(asker, Hub(folder=hub_answers()), machine).rows()
    return tuple(
        row.repository
        for row in found.repositories
        if row.role == "attention" and row.verdict and row.verdict.kind in ("ready", "care")
    )


def _measure(
    benchmark: Benchmark, store: Store, environment: dict[str, str], python: Path | None, *, quiet: bool
) -> bool:
    """Measure what is missing; return whether all of it is there now: Ctrl-C ends it, and keeps what there is."""
    from kerneltui.bench.measure import Measuring
    from kerneltui.interpreter import find_interpreter
    from kerneltui.show_bench import describe, point_line

    measuring = Measuring(store, benchmark.comparison, find_interpreter(python), environment)

    def tell_point(measured: Measured) -> None:
        if not quiet:
            print_lines([point_line(measured)], err=True)

    print_lines([describe(benchmark.comparison, store.measured())], err=True)
    with progress() as tell:
        try:
            measuring.run(tell_point, tell)
        except KeyboardInterrupt:
            measuring.cancel()
            return False
    return True


def _show(benchmark: Benchmark, store: Store, exports: tuple[Path, ...], as_json: bool) -> None:
    from rich.console import Console

    from kerneltui.bench.summary import summarise
    from kerneltui.show_bench import picture

    summary = summarise(benchmark.comparison, store.measured())
    for path in exports:
        _write(path, benchmark, summary)
    if as_json:
        print_json({"schema": 1, "benchmark": benchmark, "summary": summary, "path": str(store.path)})
        return
    Console(file=sys.stdout, highlight=False).print(picture(benchmark, summary))
    click.echo(f"Kept in {store.path}", err=True)


def _write(path: Path, benchmark: Benchmark, summary: Summary) -> None:
    from kerneltui.show_bench import to_csv, to_markdown, to_svg

    command = shlex.join(["kerneltui", *sys.argv[1:]])
    forms = {
        ".csv": lambda: to_csv(benchmark, summary),
        ".md": lambda: to_markdown(benchmark, summary, command),
        ".svg": lambda: to_svg(benchmark, summary),
    }
    try:
        path.write_text(forms[path.suffix](), encoding="utf-8")
    except OSError as error:
        raise KerneltuiError(f"Cannot write {path}", error.strerror or str(error)) from error


def _list() -> list[str]:
    from kerneltui.bench.store import stored_benchmarks
    from kerneltui.show_bench import title

    found = [f"{made.time[:16].replace('T', ' ')}  {title(made)}  {store.path}" for made, store in stored_benchmarks()]
    return found or ["No benchmark was made here yet. `kerneltui bench --preset quick` makes one."]


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, map(str.strip, (text or "").split(",")))))


def _lengths(text: str | None) -> tuple[int, ...]:
    words = _words(text)
    with contextlib.suppress(ValueError):
        found = tuple(sorted({int(word) for word in words}))
        if all(length > 0 for length in found):
            return found
    raise UsageError(f"{text!r} is no list of lengths", hint="Give numbers of tokens: --lengths 512,1024")

"""Make the pictures of the README from the real app: `python -m tests.tools.screenshots [--into DIR]`.

The loopback Hub stands in for the Hub; the runs of the live pane are records made by the tests' own builders.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widgets import DataTable

import kerneltui
from tests.hub.server import LoopbackHub

SIZE = (120, 40)
HERE = "/home/you/models"


async def settle(pilot: Pilot[Any], condition: Callable[[], object], *, limit: float = 300) -> None:
    """Wait until a condition of the app holds."""
    from tests.tui.watching import until

    await until(pilot, condition, limit=limit)
    await pilot.pause()


async def wizard(python: Path, work: Path, endpoint: str, into: Path) -> None:
    """Save home and each of the seven steps."""
    from kerneltui.tui.app import KerneltuiApp
    from kerneltui.tui.screens.wizard import WizardScreen
    from kerneltui.tui.session import Session
    from tests.tui.watching import shown

    app: Any = KerneltuiApp(python, work / "runs", session=Session(python, work / "runs", endpoint=endpoint))
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot, lambda: "torch" in shown(pilot))
        save(app, into / "home.svg")
        await pilot.press("n")
        await settle(pilot, lambda: isinstance(app.screen, WizardScreen))
        for number, keys in enumerate((1, 1, 1, 1, 1, 1, 0), start=1):
            await settle(pilot, partial(judged, app, number))
            save(app, into / f"step-{number}.svg")
            for _ in range(keys):
                await pilot.press("enter")
            await settle(pilot, partial(at_step, app, number + 1 if keys else number))


async def recorded(python: Path, work: Path, endpoint: str, into: Path) -> None:
    """Save the doctor and the kernels for a server that is known by its report."""
    from kerneltui.facts.server import Server
    from kerneltui.records import read_record
    from kerneltui.tui.app import KerneltuiApp
    from kerneltui.tui.session import Session
    from tests.tui.watching import shown

    server = read_record(Path(__file__).parents[1] / "servers" / "eight-a100-two-busy.json", Server)
    session = Session(python, work / "runs", recorded=server, endpoint=endpoint)
    app: Any = KerneltuiApp(python, work / "runs", session=session)
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot, lambda: "A100" in shown(pilot))
        await pilot.press("d")
        await settle(pilot, lambda: "In detail" in shown(pilot) and "in use by" in shown(pilot))
        save(app, into / "doctor.svg")
        await pilot.press("escape", "k")
        await settle(pilot, lambda: "16 of 16 for attention judged" in shown(pilot))
        while "loads v4 @" not in shown(pilot):  # as flash-attn2 does
            await pilot.press("down")
            await pilot.pause()
        save(app, into / "kernels.svg")
        await pilot.press("enter")
        await settle(pilot, lambda: "✔ metadata" in shown(pilot))
        save(app, into / "kernel.svg")


def at_step(app: Any, number: int) -> bool:
    """Whether a step is in front."""
    return bool(app.screen.at == number - 1)


def judged(app: Any, number: int) -> bool:
    """Whether the plan is judged and a step shows what it found out."""
    from tests.tui.watching import text_of

    state = app.screen.state
    return state.assessment is not None and state.busy is None and ready(app, number, text_of(app.screen))


def ready(app: Any, number: int, text: str) -> bool:
    """Whether what a step finds out is there."""
    if number == 2:
        return app.screen.state.situation.data is not None
    if number == 3:
        return app.screen.query_one("#trainers", DataTable).row_count > 0 and "✔  sft" in text
    if number == 4:
        return "←" in text
    return number != 6 or "Batch and length" in text


async def live(into: Path, work: Path) -> None:
    """Save the live pane of a running, a finished and a failed run."""
    from tests.tui import fake_runs
    from tests.tui.watching import WatchApp, until

    for name in ("running", "finished", "failed"):
        app: Any = WatchApp(getattr(fake_runs, name)(work / name).run)
        async with app.run_test(size=SIZE) as pilot:
            await until(pilot, partial(drawn, app))
            await pilot.pause()
            save(app, into / f"live-{name}.svg")


def drawn(app: Any) -> bool:
    """Whether the live pane has read and drawn everything."""
    screen = app.run_screen
    return screen.view is not None and not screen.view.behind and screen.curves is not None


def save(app: Any, path: Path) -> None:
    """Write the screen as SVG."""
    picture = app.export_screenshot(title="kerneltui")
    for place, shown in {str(Path(kerneltui.__file__).parents[1]): "/opt/train", str(Path.cwd()): HERE}.items():
        picture = picture.replace(place, shown)  # where it was made is nobody's business
    path.write_text(picture, encoding="utf-8")
    print(path, flush=True)


def main() -> None:
    """Make all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=Path("screenshots"))
    into = parser.parse_args().into.absolute()
    into.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, LoopbackHub(Path(name) / "huggingface") as hub:
        os.environ.update({key: value for key, value in hub.environment().items() if value})
        os.environ["XDG_CACHE_HOME"] = f"{name}/cache"
        os.chdir(name)
        asyncio.run(wizard(Path(sys.executable), Path(name), hub.url, into))
        asyncio.run(recorded(Path(sys.executable), Path(name), hub.url, into))
        asyncio.run(live(into, Path(name)))


if __name__ == "__main__":
    main()

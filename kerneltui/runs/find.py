"""Finding runs: in one directory, and in the other places that are known to hold some."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from kerneltui.errors import KerneltuiError, UsageError
from kerneltui.records import Record
from kerneltui.runs.contact import restarted
from kerneltui.runs.directory import ACTIVE, RunDirectory
from kerneltui.runs.places import known_places
from kerneltui.text import did_you_mean


class Elsewhere(Record):
    """A directory that holds runs beside the one that was asked for: how many, and how many of them are live."""

    directory: str
    runs: int
    live: int


def find_run(runs: Path, name: str, *, elsewhere: bool = False) -> RunDirectory:
    """Return the run of that name in `runs`, or the run directory at that path.

    With `elsewhere` a run that is not in `runs` is looked for in all known places. Raises UsageError, also where
    several of them have one of that name.
    """
    path = Path(name).expanduser()
    if "/" in name and (path / "run.json").is_file():
        return RunDirectory(path.absolute())
    here = list_runs(runs)
    others = [run for _, found in _places_elsewhere(runs) for run in found] if elsewhere else []
    for found in ([run for run in here if run.name == name], [run for run in others if run.name == name]):
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(
                f"Several runs are called {name!r}",
                "\n".join(str(run.path) for run in found),
                "Give the path of the one that is meant.",
            )
    raise UsageError(
        f"No run {name!r} in {runs}" + (" or in any other known place" if others else ""),
        "`kerneltui runs` lists them.",
        did_you_mean(name, [run.name for run in (*here, *others)])
        or "Give --runs-dir, or the path of the run's directory.",
    )


def runs_elsewhere(runs: Path) -> list[Elsewhere]:
    """Return the known places other than `runs` that hold runs, the one used last first."""
    return [
        Elsewhere(directory=str(place), runs=len(found), live=sum(map(_is_live, found)))
        for place, found in _places_elsewhere(runs)
        if found
    ]


def _places_elsewhere(runs: Path) -> Iterator[tuple[Path, list[RunDirectory]]]:
    """Give each known place but `runs` once, with its runs; one that cannot be read has none."""
    seen: set[Path] = {runs.resolve()}
    for place in known_places():
        with contextlib.suppress(KerneltuiError, OSError):
            if (real := place.resolve()) not in seen:
                seen.add(real)
                yield place, list_runs(place)


def _is_live(run: RunDirectory) -> bool:
    with contextlib.suppress(KerneltuiError):
        state = run.read_state()
        return state.phase in ACTIVE and not restarted(state)
    return False


def list_runs(runs: Path) -> list[RunDirectory]:
    """Return the runs in the directory `runs`, the one launched last first; none where it does not exist."""
    try:
        found = [(launched, path) for path in runs.iterdir() if (launched := _launched(path)) is not None]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise KerneltuiError(
            f"Cannot read {runs}", error.strerror or str(error), "Choose another directory with --runs-dir."
        ) from error
    return [RunDirectory(path) for _, path in sorted(found, reverse=True)]


def _launched(path: Path) -> float | None:
    """Return when `run.json` was written, once and for all, at launch; None where there is none to be seen."""
    try:
        return (path / "run.json").stat().st_mtime
    except OSError:
        return None

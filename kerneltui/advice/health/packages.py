"""The training packages: whether they are there, import, and accept one another."""

from __future__ import annotations

import re
from collections.abc import Callable

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from kerneltui.advice.finding import Finding, Fix
from kerneltui.advice.fixes import install
from kerneltui.advice.health.torch_build import fitting_torch
from kerneltui.facts.packages import cite, kernels_usable, read_version
from kerneltui.facts.server import PENDING, Server

# Without these nothing trains.
_NEEDED = ("torch", "transformers", "trl", "accelerate", "datasets")
_CORE = (*_NEEDED, "huggingface_hub", "tokenizers")


def missing(server: Server) -> list[Finding]:
    """TRL and what it stands on must be installed in the training interpreter."""
    absent = _missing(server)
    if not absent:
        return []
    others = [name for name in absent if name != "torch"]
    return [
        Finding(
            id="packages.missing",
            severity="block",
            title=f"{server.interpreter} lacks {', '.join(absent)}",
            why="Nothing trains without. Another environment is named with --python.",
            origin="asked",
            source="the metadata of the installed packages",
            fixes=(
                *(_torch(server) if "torch" in absent else ()),
                *((install(server, "Install what is missing", *_with_extras(others)),) if others else ()),
            ),
        )
    ]


def _missing(server: Server) -> list[str]:
    if not server.packages and (server.torch or "packages" in server.unavailable):
        return []
    # A torch that the person built need not have metadata.
    return [name for name in _NEEDED if name not in server.packages and not (name == "torch" and server.torch)]


def _torch(server: Server) -> tuple[Fix, ...]:
    return fitting_torch(server) or (install(server, "Install torch", "torch"),)


def _torch_again(server: Server) -> tuple[Fix, ...]:
    """Return the fix for a torch that is broken: without force its version would count as installed."""
    return fitting_torch(server) or (install(server, "Install torch anew", "--force-reinstall", "torch"),)


def _with_extras(names: list[str]) -> list[str]:
    """Return the requirements; the extras of TRL bring a transformers and a kernels that accept one another."""
    return ["trl[kernels,liger,peft]" if name == "trl" else name for name in names]


def broken(server: Server) -> list[Finding]:
    """A package that is installed and does not import is worse than none."""
    causes = [f"No module named '{name}'" for name in _missing(server)]
    found = []
    for name, package in server.packages.items():
        # What fails because another one is missing or broken is said once, of that one.
        if package.error is None or any(cause in package.error for cause in causes):
            continue
        module = name.replace("-", "_")
        causes += [package.error, f"'{module}'", f"'{module}."]
        found.append(
            Finding(
                id=f"packages.broken.{name}",
                severity="block" if name in _CORE else "warn",
                title=f"{name} {package.version} is installed and does not import".replace("  ", " "),
                why=f"Its import says: {package.error}",
                origin="observed",
                source=f"its import in {server.interpreter}",
                fixes=_torch_again(server) if name == "torch" else (_again(server, name),),
            )
        )
    return found + _broken_torch(server)


def _broken_torch(server: Server) -> list[Finding]:
    """Return the finding on a torch that is there, told no error by its own name, and could not be asked."""
    reason = server.unavailable.get("torch")
    package = server.packages.get("torch")
    told = server.torch is not None or (package and package.error) or "torch" in _missing(server)
    if reason is None or reason == PENDING or told:
        return []
    return [
        Finding(
            id="packages.broken.torch",
            severity="block",
            title="torch is installed and cannot be used",
            why=reason,
            origin="observed",
            source="the probe in the training interpreter",
            fixes=_torch_again(server),
        )
    ]


def _again(server: Server, name: str) -> Fix:
    """Return the fix that installs the same version of a package once more, or only what it needs and lacks."""
    package = server.packages[name]
    version = package.version.partition("+")[0]
    wanted = f"{name}=={version}" if version else name
    own = re.escape(name.replace("-", "_"))
    if re.search(rf"No module named '(?!{own}\b)", package.error or ""):
        return install(server, "Install what it lacks", wanted)
    return install(server, "Install it anew", "--force-reinstall", "--no-deps", wanted)


def ranges(server: Server) -> list[Finding]:
    """Each package says in its metadata which versions of the others it takes; installers do not always keep it."""
    found = []
    for name, package in server.packages.items():
        unmet = {other: wanted for other, wanted in package.requires.items() if not _accepts(server, other, wanted)}
        if not unmet:
            continue
        theirs = ", ".join(f"{other}{wanted}" for other, wanted in unmet.items())
        ours = ", ".join(f"{other} {server.packages[other].version}" for other in unmet)
        found.append(
            Finding(
                id=f"packages.range.{name}",
                severity="warn",
                title=f"{name} {package.version} asks for {theirs}; installed: {ours}",
                why="What is outside of that range was not tried with it, and may fail when it is imported or later.",
                origin="asked",
                source=f"{name} {package.version}: Requires-Dist",
                fixes=(
                    install(server, f"Install what {name} asks for", *(f"{it}{unmet[it]}" for it in unmet)),
                    install(server, f"Or another {name}", "--upgrade", name),
                ),
            )
        )
    return found


def _accepts(server: Server, name: str, wanted: str) -> bool:
    """Return whether the installed version is in a range; True where it is not installed or not told."""
    installed = server.packages.get(name)
    version = read_version(installed.version) if installed else None
    try:
        return version is None or SpecifierSet(wanted).contains(version, prereleases=True)
    except InvalidSpecifier:
        return True


def kernels_pair(server: Server) -> list[Finding]:
    """Kernels from the Hub load only with a kernels package in the range that transformers names."""
    if "transformers" not in server.packages or kernels_usable(server):
        return []
    return [
        Finding(
            id="packages.kernels",
            severity="warn",
            title=f"Kernels from the Hub cannot load: {pair_mismatch(server)}",
            why=pair_range(server),
            origin="asked",
            source=cite(server, "transformers", "utils.import_utils.is_kernels_available"),
            fixes=pair_fixes(server),
        )
    ]


def pair_mismatch(server: Server) -> str:
    """Return in words why transformers does not take the kernels package."""
    installed = server.packages.get("kernels")
    if installed is None:
        return "the package kernels is not installed"
    if installed.error:
        return f"kernels {installed.version} cannot be imported"
    transformers = server.packages.get("transformers")
    return f"transformers {transformers.version if transformers else None} does not accept kernels {installed.version}"


def pair_range(server: Server) -> str:
    """Return the range of kernels that the installed transformers accepts, and an import error where there is one."""
    installed = server.packages.get("kernels")
    error = f" Its import says: {installed.error}" if installed and installed.error else ""
    bounds = _bounds(server)
    return f"This transformers accepts kernels {bounds}.{error}" if bounds else error.strip()


def _bounds(server: Server) -> str:
    libraries = server.libraries
    low = libraries.kernels_minimum if libraries else None
    high = libraries.kernels_maximum if libraries else None
    return ",".join(part for part in (low and f">={low}", high and f"<{high}") if part)


def pair_fixes(server: Server) -> tuple[Fix, ...]:
    """Return the commands that make transformers and kernels fit."""
    # The extra first: transformers may ask for a kernels that is not published yet, and then only pip's resolver finds
    # the newest transformers that goes with a published one (seen with 5.24.0, which asks for 0.18.2).
    together = install(server, "Let pip choose a transformers and a kernels that fit", "transformers[kernels]")
    bounds = _bounds(server)
    return (together, *((install(server, "Or only change kernels", f"kernels{bounds}"),) if bounds else ()))


RULES: tuple[Callable[[Server], list[Finding]], ...] = (missing, broken, ranges, kernels_pair)

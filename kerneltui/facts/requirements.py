"""What installed packages ask of one another, from their metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name


def read_requirements(
    lines: Iterable[str], names: Iterable[str], *, version: str, implementation: str
) -> dict[str, str]:
    """Return what a package's requirements say of the packages `names`: PEP 440 specifiers, empty for any version.

    `version` and `implementation` are those of the interpreter that the package is installed in, which need not be
    ours. What only an extra asks for is left out, and so is a line that is no requirement (PEP 508).
    """
    known = {canonicalize_name(name): name for name in names}
    environment = _environment(version, implementation)
    found: dict[str, list[str]] = {}
    for line in lines:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        name = known.get(canonicalize_name(requirement.name))
        if name and (requirement.marker is None or requirement.marker.evaluate({**environment})):
            found.setdefault(name, []).append(str(requirement.specifier))
    return {name: ",".join(filter(None, specifiers)) for name, specifiers in found.items()}


def _environment(version: str, implementation: str) -> Mapping[str, Any]:
    """Return what markers compare with: this machine, and the other interpreter."""
    return {
        **default_environment(),
        "extra": "",
        "python_version": ".".join(version.split(".")[:2]),
        "python_full_version": version,
        "implementation_name": implementation,
    }

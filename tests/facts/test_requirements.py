"""What installed packages ask of one another."""

from __future__ import annotations

from kerneltui.facts.requirements import read_requirements

NAMES = ("torch", "transformers", "huggingface_hub", "kernels", "accelerate")


def read(*lines: str, version: str = "3.12.3", implementation: str = "cpython") -> dict[str, str]:
    return read_requirements(lines, NAMES, version=version, implementation=implementation)


def test_names_are_those_of_the_report() -> None:
    assert read("Huggingface-Hub>=1.10,<3", "numpy>=2", "torch") == {"huggingface_hub": "<3,>=1.10", "torch": ""}


def test_what_only_an_extra_asks_for_is_left_out() -> None:
    assert read("kernels>=0.17; extra == 'kernels'", "accelerate>=1.1; extra != 'x'") == {"accelerate": ">=1.1"}


def test_markers_are_those_of_the_other_interpreter() -> None:
    lines = ("torch>=2.4; python_version < '3.10'", "torch>=2.6; python_version >= '3.10'")
    assert read(*lines, version="3.9.1") == {"torch": ">=2.4"}
    assert read(*lines, version="3.12.3") == {"torch": ">=2.6"}
    assert read("torch>2; implementation_name == 'pypy'") == {}


def test_two_lines_on_one_package_both_count() -> None:
    assert read("torch>=2", "torch!=2.5; python_version > '3'") == {"torch": ">=2,!=2.5"}


def test_lines_that_are_no_requirement_and_addresses() -> None:
    assert read("torch =>= 2", "", "transformers @ https://example.org/t.whl") == {"transformers": ""}

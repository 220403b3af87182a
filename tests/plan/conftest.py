"""One asker for all that needs the training packages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kerneltui.interpreter import Asker, find_interpreter


@pytest.fixture(scope="package")
def asker() -> Iterator[Asker]:
    with Asker(find_interpreter()) as asker:
        yield asker

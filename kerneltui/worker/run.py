"""Start a worker: `python …/kerneltui/worker/run.py PROGRAM [ARGUMENT …]`.

Makes this folder importable as the package `kerneltui_worker` without touching the interpreter's path: what a worker
finds installed is what the interpreter has, and nobody's `model.py` or `ask.py` is shadowed by ours.
"""

import importlib
import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = "kerneltui_worker"


def main() -> None:
    """Run the program named by the first argument, with the rest as its `sys.argv`."""
    if sys.path and Path(sys.path[0] or ".").resolve() == HERE:
        del sys.path[0]
    spec = importlib.util.spec_from_file_location(PACKAGE, HERE / "__init__.py", submodule_search_locations=[str(HERE)])
    assert spec and spec.loader
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)
    program = sys.argv[1]
    sys.argv = [sys.argv[0], *sys.argv[2:]]
    importlib.import_module(f"{PACKAGE}.{program}").main()


if __name__ == "__main__":
    main()

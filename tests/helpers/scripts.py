"""Scripts that are in no package, imported from their files."""

import importlib.util
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def load(path):
    """The module of a script, by its path from the repository; what stands beside it can be imported, too."""
    file = REPOSITORY / path
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    if file.stem not in sys.modules:
        spec = importlib.util.spec_from_file_location(file.stem, file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[file.stem] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
    return sys.modules[file.stem]

"""Packages that come with an extra: a script without one of them ends with the line that installs it."""

import importlib
import sys
from pathlib import Path
from typing import Any


def needed(module: str, extra: str) -> Any:
    """The module, from a package of the extra ``tractile[extra]``; the script ends where it is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        script = Path(sys.argv[0]).name
        sys.exit(f'{script} needs the package {error.name}: pip install -e ".[{extra}]"')

"""Other packages on the same work. What they share with the conformance scripts is found from here."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "conformance"))

"""Build the wheel, install it with its extras in a fresh environment, and run the README there.

Its code must print what it shows.

python .ci/from_wheel.py FOLDER        FOLDER is made anew; torch is installed first, from $TORCH (default torch)
"""

import os
import re
import shlex
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LARGEST = 6e6
"""Bytes of the wheel."""


def main(folder: Path) -> None:
    """Build, install, run; raises where something fails."""
    venv.create(folder, clear=True, with_pip=True)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    pip = [programs / "python", "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--quiet", "--no-deps", "-w", folder / "dist", ROOT], check=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB")
    assert wheel.stat().st_size <= LARGEST
    subprocess.run([*pip, "install", "--quiet", os.environ.get("TORCH", "torch")], check=True)
    subprocess.run([*pip, "install", "--quiet", f"tractile[all] @ {wheel.as_uri()}"], check=True)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(python|output)\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    program = "".join(code for language, code in blocks if language == "python")
    shown = "".join(code for language, code in blocks if language == "output")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    options = {"cwd": folder, "env": clean, "check": True, "capture_output": True, "text": True}
    printed = subprocess.run([programs / "python", "-c", program], **options).stdout
    assert printed == shown, f"the README shows\n{shown}\nand its code prints\n{printed}"
    for command in re.findall(r"^tractile (.*)$", readme, re.MULTILINE):
        print(subprocess.run([programs / "tractile", *shlex.split(command)], **options).stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())

import subprocess
import sys
from importlib.resources import files

import tractile


def test_imports_from_any_directory(tmp_path):
    """The checkout's folder name does not matter: the root is `tractile` wherever Python is started."""
    code = "import tractile.layers, tractile.inference.smc; print(tractile.__name__)"
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "tractile"


def test_package_is_typed():
    assert files(tractile).joinpath("py.typed").is_file()

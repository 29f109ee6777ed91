"""The core of constraints, `tractile._core`, in C++; all else about the distribution is in pyproject.toml.

python setup.py build_ext --inplace    compile it for this checkout
"""

import os
from glob import glob

from pybind11.setup_helpers import Pybind11Extension, build_ext
from setuptools import setup

NO_COMPILER = (
    "tractile: no wheel fits this platform, so its core is compiled, and that failed as said above. Install a C++17 compiler "
    "(g++, clang++, or Visual Studio's Build Tools) and Python's headers, and install tractile again."
)


class BuildCore(build_ext):
    """Compiles the core, or says what that takes."""

    def run(self):
        try:
            super().run()
        except Exception as error:  # setuptools has several families of errors
            raise SystemExit(f"{error}\n{NO_COMPILER}") from error


setup(
    script_name="setup.py",  # which is thereby no module of the package
    cmdclass={"build_ext": BuildCore},
    ext_modules=[
        Pybind11Extension(
            "tractile._core",
            ["core/bind.cpp"],
            depends=sorted(glob("core/*.h")),
            cxx_std=17,
            extra_compile_args=[] if os.name == "nt" else ["-O2"],
        )
    ],
)

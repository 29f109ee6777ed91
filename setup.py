"""The compiled engine of constraints, `tractile._core`; all else about the distribution is in pyproject.toml.

Where there is no compiler the package is installed without it.

    python setup.py build_ext --inplace    compile it for this checkout
"""

import os
from glob import glob

from pybind11.setup_helpers import Pybind11Extension
from setuptools import setup

setup(
    script_name="setup.py",  # which is thereby no module of the package
    ext_modules=[
        Pybind11Extension(
            "tractile._core",
            ["core/bind.cpp"],
            depends=sorted(glob("core/*.h")),
            cxx_std=17,
            extra_compile_args=[] if os.name == "nt" else ["-O2"],
            optional=True,
        )
    ],
)

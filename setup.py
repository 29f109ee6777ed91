"""The core of constraints, `tractile._core`, in C++; all else about the distribution is in pyproject.toml.

python setup.py build_ext --inplace    compile it for this checkout
"""

import os
import sys
import sysconfig
from glob import glob

import nanobind
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

NO_COMPILER = (
    "tractile: no wheel fits this platform, so its core is compiled, and that failed as said above. Install a C++17 compiler "
    "(g++, clang++, or Visual Studio's Build Tools) and Python's headers, and install tractile again."
)
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
STABLE = sys.version_info >= (3, 12) and not FREE_THREADED  # one wheel for all later Pythons with a lock
VARIANT = [("Py_LIMITED_API", "0x030C0000")] * STABLE + [("NB_FREE_THREADED", None)] * FREE_THREADED
FLAGS = ["-std=c++17", "-O2", "-g0", "-fvisibility=hidden", "-fno-strict-aliasing"]
if sys.platform == "darwin" and "MACOSX_DEPLOYMENT_TARGET" not in os.environ:
    FLAGS.append("-mmacosx-version-min=10.14")  # the first that has all of C++17


class BuildCore(build_ext):
    """Compiles the core, or says what that takes."""

    def run(self):
        try:
            super().run()
        except Exception as error:  # setuptools has several families of errors
            raise SystemExit(f"{error}\n{NO_COMPILER}") from error


source = nanobind.source_dir()
setup(
    script_name="setup.py",  # which is thereby no module of the package
    cmdclass={"build_ext": BuildCore},
    options={"bdist_wheel": {"py_limited_api": "cp312"}} if STABLE else {},
    ext_modules=[
        Extension(
            "tractile._core",
            ["core/bind.cpp", "core/nanobind.cpp"],
            depends=sorted(glob("core/*.h")),
            include_dirs=[nanobind.include_dir(), source, f"{source}/../ext/robin_map/include"],
            define_macros=[("NB_COMPACT_ASSERTIONS", None), ("NB_DOMAIN", "tractile"), *VARIANT],
            extra_compile_args=["/std:c++17", "/EHsc", "/bigobj"] if os.name == "nt" else FLAGS,
            extra_link_args=["-Wl,-s"] if sys.platform == "linux" else [],
            py_limited_api=STABLE,
        )
    ],
)

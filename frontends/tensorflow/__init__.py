"""The TensorFlow frontend: tripont as the device type ``XPU``.

Nothing has to be imported for it: ``import tensorflow`` opens the library in ``site-packages/tensorflow-plugins``,
which registers the device. Here are the questions one may have about it, and what is needed to compile kernels for it.
docs/tensorflow.md has the whole picture.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from pathlib import Path

DEVICE_TYPE = "XPU"
_PLUGIN = "libtripont_plugin.so"
_ADAPTER = "libtripont_tensorflow.so"


def built_for() -> str:
    """The TensorFlow version that the adapter was built for, for example ``"2.21.0"``."""
    version = _plugin().tripont_plugin_tensorflow_version
    version.restype = ctypes.c_char_p
    return str(version().decode())


def problem() -> str:
    """Why TensorFlow has no XPU in this process; empty if it has."""
    reason = _plugin().tripont_plugin_problem
    reason.restype = ctypes.c_char_p
    return str(reason().decode())


def check() -> None:
    """Raise RuntimeError, saying what to do, if TensorFlow has no XPU in this process."""
    if reason := problem():
        raise RuntimeError(f"TensorFlow runs without the device XPU: {reason}")
    import tensorflow as tf

    if not tf.config.list_physical_devices(DEVICE_TYPE):
        raise RuntimeError(
            "TensorFlow lists no XPU: the message that `import tensorflow` or the first use of the device wrote to "
            "standard error says why"
        )


def ops_on_cpu() -> list[str]:
    """The kinds of ops that were asked for on XPU and ran on the CPU so far, because XPU has no kernel for them.

    In the order of their appearance. Each is also logged once, with severity INFO. Ops on strings are not listed.
    """
    names = _adapter().tripont_tensorflow_ops_on_cpu
    names.restype = ctypes.c_size_t
    size = names(None, ctypes.c_size_t(0)) + 4096  # other threads may add some meanwhile
    text = ctypes.create_string_buffer(size)
    names(text, ctypes.c_size_t(size))
    return text.value.decode().split()


def exchange_functions() -> tuple[int, ...]:
    """The addresses of the adapter's functions for :mod:`tripont.interop`: export, import and wrap.

    RuntimeError if TensorFlow has no XPU in this process.
    """
    functions = (
        _adapter().tripont_tensorflow_export,
        _adapter().tripont_tensorflow_import,
        _adapter().tripont_tensorflow_wrap,
    )
    return tuple(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions)


def compile_flags() -> list[str]:
    """Flags for a C++ compiler that compiles hand-written kernels (``tripont/tensorflow_kernel.h``)."""
    import tensorflow as tf

    include = [_package() / "include", Path(tf.sysconfig.get_include())]
    return ["-std=c++20", "-fPIC", *(f"-I{folder}" for folder in include)]


def link_flags() -> list[str]:
    """Flags for linking them into a shared library, for ``tf.load_op_library``."""
    import tensorflow as tf

    return [
        "-shared",
        f"-L{_package() / 'lib'}",
        f"-l:{_ADAPTER}",
        *tf.sysconfig.get_link_flags(),
    ]


def _package() -> Path:
    """The package's folder as it was installed, where CMake put libraries and headers."""
    import tripont

    return Path(tripont.library_path()).parent.parent


@functools.cache
def _plugin() -> ctypes.CDLL:
    """The library that TensorFlow opened."""
    try:
        import tensorflow  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise
        raise ImportError(
            "TensorFlow is not installed: run `pip install 'tripont[tensorflow]'`"
        ) from error
    for folder in [_package().parent, *map(Path, sys.path)]:
        library = folder / "tensorflow-plugins" / _PLUGIN
        if library.is_file():
            return ctypes.CDLL(str(library))
    raise ImportError(
        f"tensorflow-plugins/{_PLUGIN} is missing: this tripont was built without the TensorFlow adapter. "
        "Run `make frameworks` in a checkout, or install a wheel that was built with TRIPONT_TENSORFLOW=ON"
    )


@functools.cache
def _adapter() -> ctypes.CDLL:
    check()
    return ctypes.CDLL(str(_package() / "lib" / _ADAPTER))

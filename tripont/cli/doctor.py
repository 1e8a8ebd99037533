"""``tripont doctor``: what is found, what is missing, and how to mend it.

A check is a function that returns a :class:`Finding`; it never raises. Whatever might crash or hang (loading the
library, starting the device) runs in a process of its own. Here is what all frameworks need; the checks of each one are
in :mod:`.framework_checks`.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from tripont import __version__, library_path
from tripont.trust import distrust, is_shared

from .finding import ERROR, OK, WARNING, Finding, check_package, in_process
from .framework_checks import check_jax, check_jax_entry_point, check_tensorflow, check_torch_xla
from .terminal import make_console

# As pyproject.toml says, which an installed package does not have.
OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 15)


def check_python() -> Finding:
    version = platform.python_version()
    detail = f"{version} ({sys.executable})"
    if OLDEST_PYTHON <= sys.version_info[:2] <= NEWEST_PYTHON:
        return Finding("Python", OK, detail)
    oldest, newest = (".".join(map(str, v)) for v in (OLDEST_PYTHON, NEWEST_PYTHON))
    return Finding("Python", WARNING, detail, f"tripont is tested with Python {oldest} to {newest}")


def check_llvm() -> Finding:
    answer = in_process(
        "import llvmlite.binding as b; print('.'.join(map(str, b.llvm_version_info)))"
    )
    if answer[0]:
        return Finding("LLVM", OK, f"{answer[1]} (in llvmlite)")
    return Finding("LLVM", ERROR, answer[1], "pip install --force-reinstall llvmlite")


PJRT_VERSION = """
import ctypes
class Version(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("next", ctypes.c_void_p), ("major", ctypes.c_int), ("minor", ctypes.c_int)]
class Api(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("next", ctypes.c_void_p), ("version", Version)]
library = ctypes.CDLL({path!r})
library.GetPjrtApi.restype = ctypes.POINTER(Api)
version = library.GetPjrtApi().contents.version
print(f"{{version.major}}.{{version.minor}}")
"""


def check_plugin() -> Finding:
    try:
        path = library_path()
    except FileNotFoundError as error:
        return Finding("plugin", ERROR, "libtripont.so is missing", str(error).split(": run ")[-1])
    good, answer = in_process(PJRT_VERSION.format(path=path))
    if good:
        return Finding("plugin", OK, f"{path}, PJRT C API {answer}")
    return Finding(
        "plugin", ERROR, f"{path} does not load: {answer}", "pip install --force-reinstall tripont"
    )


def check_bindings() -> Finding:
    good, answer = in_process("import tripont.core._tripont as m; print(m.__file__)")
    if good:
        return Finding("Python bindings", OK, answer)
    fix = "build it for this Python: `pip install .`, or `make dev` in a checkout"
    return Finding(
        "Python bindings", WARNING, f"`tripont run` and `tripont devices` need them: {answer}", fix
    )


ONEDNN_VERSION = """
import ctypes
class Version(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int) for n in ("major", "minor", "patch")] + [("hash", ctypes.c_char_p)]
    _fields_ += [(n, ctypes.c_uint) for n in ("cpu_runtime", "gpu_runtime")]
for needed in {needed!r}:
    ctypes.CDLL(needed)
library = ctypes.CDLL({path!r})
library.dnnl_version.restype = ctypes.POINTER(Version)
v = library.dnnl_version().contents
runtimes = {{1: "sequential", 2: "OpenMP", 4: "TBB"}}
print(f"{{v.major}}.{{v.minor}}.{{v.patch}}", runtimes.get(v.cpu_runtime, f"runtime-{{v.cpu_runtime}}"))
"""


def find_shared_library(distribution: str, name: str) -> Path | None:
    """The file of a wheel that installs shared libraries into the environment's lib folder."""
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == name:
            path = Path(str(file.locate())).resolve()
            return path if path.exists() else None
    return None


def find_tbb() -> Path | None:
    """The library of the wheel ``tbb``; for CPUs that have no such wheel, the package's own."""
    if found := find_shared_library("tbb", "libtbb.so.12"):
        return found
    try:
        own = Path(library_path()).parent / "libtbb.so.12"
    except FileNotFoundError:
        return None
    return own if own.exists() else None


def check_onednn() -> Finding:
    fix = "pip install --force-reinstall tripont, or `make dev` in a checkout"
    try:
        path = Path(library_path()).parent / "libdnnl.so.3"
    except FileNotFoundError as error:
        return Finding("oneDNN", ERROR, "libtripont.so is missing", str(error).split(": run ")[-1])
    slower = "products and convolutions are computed by generated code"
    if platform.machine() != "x86_64":
        return Finding("oneDNN", OK, f"there is none for {platform.machine()}: {slower}")
    if not path.exists():
        return Finding("oneDNN", WARNING, f"{path} is missing: {slower}", fix)
    # What it links to. It has no RPATH, so they must be loaded before it.
    tbb = find_tbb()
    if tbb is None:
        fix = "pip install --force-reinstall tbb"
        return Finding("oneDNN", WARNING, f"libtbb.so.12 is missing: {slower}", fix)
    needed = [str(tbb), library_path()]
    good, answer = in_process(ONEDNN_VERSION.format(path=str(path), needed=needed))
    if not good:
        return Finding("oneDNN", WARNING, f"{path} does not load: {answer}; {slower}", fix)
    if not answer.endswith("TBB"):
        return Finding(
            "oneDNN",
            WARNING,
            f"{path} is built for {answer.split()[-1]}, not for TBB: {slower}",
            fix,
        )
    return Finding("oneDNN", OK, f"{answer}, {path}")


def check_lapack() -> Finding:
    path = find_shared_library("scipy-openblas32", "libscipy_openblas.so")
    if path is None:
        return Finding(
            "LAPACK",
            WARNING,
            "libscipy_openblas.so of scipy-openblas32 is missing: decompositions need SciPy's copy of it",
            "pip install --force-reinstall scipy-openblas32",
        )
    code = (
        f"import ctypes; f = ctypes.CDLL({str(path)!r}).scipy_openblas_get_config; "
        "f.restype = ctypes.c_char_p; print(f().decode())"
    )
    good, answer = in_process(code)
    if good:
        return Finding("LAPACK", OK, f"{answer}, {path}")
    return Finding("LAPACK", ERROR, answer, "pip install --force-reinstall scipy-openblas32")


def check_tbb() -> Finding:
    path = find_tbb()
    if path is None:
        return Finding(
            "oneTBB", ERROR, "libtbb.so.12 is missing", "pip install --force-reinstall tbb"
        )
    code = f"import ctypes; print(ctypes.CDLL({str(path)!r}).TBB_runtime_interface_version())"
    good, answer = in_process(code)
    if good:
        return Finding("oneTBB", OK, f"interface {answer}, {path}")
    return Finding("oneTBB", ERROR, answer, "pip install --force-reinstall tbb")


BACKENDS = """
import json, os, sys
import tripont.core._tripont as m
m.load_backends(os.environ.get("TRIPONT_BACKENDS", ""))
findings = []
for backend in m.backends():
    if not backend["lists_devices"]:
        continue
    try:
        devices, error = [text for text, _ in m.list_devices(backend["name"], sys.executable)], ""
    except m.StatusError as why:
        devices, error = [], str(why)
    findings.append([backend, devices, error])
print(json.dumps(findings))
"""


def check_backends() -> list[Finding]:
    """The devices of each kind that the runtime has besides the host."""
    good, answer = in_process(BACKENDS)
    if not good:  # another finding says why the bindings do not work
        return []
    findings = []
    for backend, devices, error in json.loads(answer):
        title = backend["title"]
        if devices:
            findings.append(Finding(title, OK, ", ".join(devices)))
            continue
        said = error or f"the {title} runtime has no device"
        fix = f"only for TRIPONT_DEVICE={backend['name']}: {backend['install']}"
        findings.append(Finding(title, WARNING, said, fix))
    return findings


FEATURES = (
    "sse4.2",
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512bf16",
    "avx512vnni",
    "avx512fp16",
    "amx-bf16",
)


def check_cpu() -> Finding:
    code = (
        "import llvmlite.binding as b; f = b.get_host_cpu_features(); "
        f"print(b.get_host_cpu_name(), *[n for n in {FEATURES!r} if f.get(n)])"
    )
    good, answer = in_process(code)
    if not good:
        return Finding(
            "CPU", WARNING, f"its features are unknown: {answer}", "pip install llvmlite"
        )
    name, *features = answer.split()
    threads = len(os.sched_getaffinity(0))
    detail = f"{name}, {threads} threads, {' '.join(features) or 'baseline x86-64'}"
    if platform.machine() == "x86_64" and "avx2" not in features:
        return Finding(
            "CPU", WARNING, detail, "works, but without AVX2 much slower than it could be"
        )
    return Finding("CPU", OK, detail)


def check_arithmetic() -> list[Finding]:
    """Results in every element type, and speeds beside what the machine reaches (:mod:`.arithmetic`)."""
    good, answer = in_process("from tripont.cli.arithmetic import main; main()")
    if not good:
        return [Finding("results", ERROR, answer, "see the other findings")]
    told = json.loads(answer)
    if told["wrong"]:
        fix = "results on this CPU cannot be trusted: please report it, with the output of this command"
        return [Finding("results", ERROR, f"WRONG: {', '.join(told['wrong'])}", fix)]
    speeds = told["speeds"]
    products = ", ".join(
        f"{name} {speed:.0f}" for name, speed in speeds.items() if name.endswith("product")
    )
    detail = (
        f"{products} GFLOP/s (f32 peak {speeds['f32 peak']:.0f}); sum of arrays "
        f"{speeds['sum of arrays']:.1f} GB/s (copies {speeds['copy peak']:.1f})"
    )
    exact = f"exact in {told['types']} element types, as {told['cpu']}, in {told['seconds']:.1f} s"
    if told["without"]:
        exact += f"; the device does not have {' and '.join(told['without'])}"
    findings = [Finding("results", OK, exact)]
    if told["kernels"]:  # those of a CPU
        findings.append(Finding("kernels", OK, "; ".join(told["kernels"])))
    return [*findings, Finding("speed", OK, detail)]


def check_environment() -> Finding:
    problems = []
    platforms = os.environ.get("JAX_PLATFORMS", "")
    if platforms and "xpu" not in platforms.split(","):
        problems.append(
            (f"JAX_PLATFORMS={platforms} leaves xpu out", "unset JAX_PLATFORMS, or add xpu to it")
        )
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        for name in ("libdnnl.so.3", "libtbb.so.12"):
            if folder and Path(folder, name).exists():
                problems.append(
                    (
                        f"LD_LIBRARY_PATH holds another {name} ({folder})",
                        "remove this folder from LD_LIBRARY_PATH",
                    )
                )
    ours = sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith("TRIPONT_"))
    if problems:
        return Finding(
            "environment",
            WARNING,
            "; ".join(p[0] for p in problems),
            "; ".join(p[1] for p in problems),
        )
    return Finding("environment", OK, " ".join(ours) or "no TRIPONT_ variables set")


def cache_folder() -> Path:
    """The folder of the on-disk cache, as core/runtime/options.h describes it."""
    given = os.environ.get("TRIPONT_CACHE_DIR")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the XDG specification has relative ones ignored
        base = os.path.expanduser("~/.cache")
    return Path(base, "tripont")


def _distrust(folder: Path) -> str:
    """Why the runtime does not use a cache folder; empty if it does."""
    status = folder.stat()
    if not os.environ.get("TRIPONT_CACHE_DIR") and status.st_uid == os.geteuid():
        return ""  # the runtime makes its own folder private
    return "" if is_shared() else distrust(status)


def check_cache() -> Finding:
    folder = cache_folder()
    if os.environ.get("TRIPONT_CACHE") in {"0", "false"}:
        return Finding("cache", WARNING, "turned off by TRIPONT_CACHE", "unset TRIPONT_CACHE")
    probe = folder
    while not probe.exists() and probe != probe.parent:
        probe = probe.parent
    if not os.access(probe, os.W_OK):
        fix = "make it writable, or set TRIPONT_CACHE_DIR to a folder that is"
        return Finding(
            "cache", WARNING, f"{folder} cannot be written, every program is compiled again", fix
        )
    if folder.exists() and (reason := _distrust(folder)):
        return Finding(
            "cache",
            WARNING,
            f"{folder} is not used, because {reason}: every program is compiled again",
            f"chmod go-w {folder}, or set TRIPONT_CACHE_DIR to a folder of yours (docs/troubleshooting.md)",
        )
    files = [f for f in folder.rglob("*") if f.is_file()] if folder.exists() else []
    size = sum(f.stat().st_size for f in files)
    return Finding("cache", OK, f"{folder}, {len(files)} files, {size / 2**20:.1f} MB")


CHECKS: list[Callable[[], Finding | list[Finding]]] = [
    check_python,
    lambda: Finding("tripont", OK, f"{__version__} ({', '.join(sys.modules['tripont'].__path__)})"),
    check_cpu,
    check_environment,
    lambda: check_package("numpy", "everything", "2.0"),
    lambda: check_package("ml_dtypes", "small floating-point types", "0.5"),
    lambda: check_package("llvmlite", "the compiler", "0.45"),
    check_llvm,
    check_tbb,
    check_onednn,
    check_lapack,
    check_plugin,
    check_bindings,
    check_backends,
    lambda: check_package("jaxlib", "the compiler reads programs with it", "0.10.2"),
    lambda: check_package("jax", "JAX programs", "0.10.2"),
    check_jax_entry_point,
    check_cache,
    check_jax,
    check_tensorflow,
    check_torch_xla,
]


def run(json_output: bool, hosts: bool = False) -> int:
    """Print the findings, with ``hosts`` those of several processes too.

    Returns 0 if nothing keeps the device, or the processes, from working, else 1.
    """
    console = make_console()
    with console.status("looking around", spinner="dots"), ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda check: check(), CHECKS))
    # Measured alone: the other checks keep all cores busy.
    with console.status("computing", spinner="dots"):
        found.append(check_arithmetic())
    if hosts:
        from .hosts import check

        with console.status("starting two processes", spinner="dots"):
            found.append(check())
    findings = [f for each in found for f in (each if isinstance(each, list) else [each])]
    failed = any(f.status == ERROR for f in findings)
    if json_output:
        print(json.dumps([dataclasses.asdict(f) for f in findings], indent=1))
        return int(failed)
    table = Table(show_header=False, box=None, pad_edge=False)
    colors = {OK: "green", WARNING: "yellow", ERROR: "red"}
    for finding in findings:
        detail = escape(finding.detail)
        if finding.fix and finding.status != OK:
            detail += f"\n[bold]-> {escape(finding.fix)}[/]"
        table.add_row(f"[{colors[finding.status]}]{finding.status}[/]", finding.name, detail)
    console.print(table)
    console.print("[red]xpu does not work[/]" if failed else "[green]xpu works[/]")
    return int(failed)

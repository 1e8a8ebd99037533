"""Build everything in C++ with a sanitizer, beside the ordinary build, and run tests with it.

``python cmake/sanitized.py thread [ARGS...]`` (``make test-tsan``; ``address`` is ``make test-asan``, ``undefined``
``make test-ubsan``) makes in ``build/thread``

* ``venv``: an environment whose packages are links to those of the running one, and whose tripont is the new build,
  so that child processes and TensorFlow's plugin use that build;
* ``cmake`` and ``dev``: the build and the package, as ``cmake/develop.py`` makes them;
* ``reports``: what the sanitizer found, a file for each process. The command fails if there is one, or if a test fails.

ARGS are pytest's; without any, the tests are those of ``TESTS``. Python and the packages are not instrumented: leaks
are not looked for (Python's own would be reported), and the thread sanitizer looks only at accesses that our code
makes. Needed: a compiler with the sanitizers' libraries, which GCC has (Debian: ``g++``; Fedora: ``libasan libubsan
libtsan``).
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUPPRESSIONS = ROOT / "cmake" / "sanitizers"
# Written into the environment by cmake/develop.py, so that each build has its own.
OURS = ("tripont.pth", "tripont-", "tensorflow-plugins")
# The first bounds the time of an execution, which checks around each access make more than 20 times as long. The second
# gives a worker two seconds to start, which are too few on a busy machine, with the ordinary build too.
TIMED_TESTS = (
    "--deselect=tests/core/runtime/test_execution.py::test_executing_is_cheap",
    "--deselect=tests/core/runtime/test_compile_worker_signals.py::test_time_limit",
)
# The sanitizers end the process where an allocation is too large, and the address sanitizer where one fails; and they
# keep what is freed.
TESTS_OF_MEMORY = (
    "--deselect=tests/core/runtime/test_compile_worker.py::test_a_size_beyond_the_memory_is_an_error",
    "--deselect=tests/core/runtime/test_compile_worker_signals.py::test_exhausted_memory_leaves_no_worker_busy",
    "--deselect=tests/core/runtime/test_object_pool.py::test_a_thread_that_ends_gives_its_memory_back",
    "--deselect=tests/pjrt/test_execute.py::test_nothing_leaks",
    "--deselect=tests/nextpluggable/test_many_operations.py::test_memory_does_not_grow",
)
RUNTIME_TESTS = (
    "tests/core/runtime",
    "tests/pjrt",
    "tests/fuzzers/test_c_api.py",
    "tests/interop/test_interop.py",
    "tests/interop/test_interpreter_lock.py",
    "tests/frontends/jax/test_callbacks.py",
    "tests/frontends/jax_devices",
    "tests/integration/test_buffers.py",
    # Intel's OpenCL runtime finds no device in a process that has a sanitizer's library before all others.
    "--ignore=tests/core/runtime/backends/sycl",
    "-k=not sycl",
    # It ends a process by reading outside of an array, which the address sanitizer reports as it should.
    "--deselect=tests/core/runtime/backends/checked/test_checked.py::test_a_kernel_that_goes_past_its_array",
    # It writes into the padding of blocks, as kernels may and instrumented code may not.
    "--deselect=tests/core/runtime/test_allocator.py::test_blocks_are_aligned_and_padded",
    # Compiles large products as each CPU, in processes of its own: hours.
    "--deselect=tests/core/runtime/library/test_integer_products.py::test_the_worst_values",
    # Frames are larger than what the runtime asks of a stack; a signal that a process sends to itself is a report.
    "--deselect=tests/core/runtime/test_stack.py::test_nested_deeper_than_the_callers_stack",
    "--deselect=tests/core/runtime/test_compile_worker_signals.py"
    "::test_a_crash_is_tried_once_more_and_the_error_says_what_to_run",
    "--deselect=tests/fuzzers/test_c_api.py::test_what_goes_wrong_is_told",
    *TESTS_OF_MEMORY,
    *TIMED_TESTS,
)
MEMORY_TESTS = (*RUNTIME_TESTS, "tests/nextpluggable")
# Whatever has threads. jaxlib's are left out (cmake/sanitizers/thread.txt says why).
THREAD_TESTS = (
    *(
        f"tests/core/runtime/test_{name}.py"
        for name in (
            "allocator",
            "artifact_cache",
            "borrowing",
            "compile_worker",
            "compile_worker_signals",
            "deferred_results",
            "donation",
            "events_and_streams",
            "execution",
            "fork",
            "object_pool",
            "profile",
            "sharing",
            "thread_limit",
        )
    ),
    # Linear algebra, which is shared out to threads.
    *(
        f"tests/core/runtime/library/test_{name}.py"
        for name in ("in_place", "lapack", "linear_algebra")
    ),
    "tests/core/runtime/ffi",
    "tests/core/runtime/hosts",
    *(
        f"tests/pjrt/test_{name}.py"
        for name in ("buffers", "client", "collectives", "compile", "events", "execute", "joining")
    ),
    *TIMED_TESTS,
    *TESTS_OF_MEMORY,
    # These measure time; run shell scripts, which Debian's shell cannot with the sanitizer's library (plain_python); or
    # end a process with a signal, of which the library makes a report.
    *(
        f"--deselect=tests/core/runtime/{test}"
        for test in (
            "test_allocator.py::test_small_blocks_are_cheap",
            "test_compile_worker_signals.py::test_a_crash_is_tried_once_more_and_the_error_says_what_to_run",
            "test_compile_worker_signals.py::test_a_worker_that_does_not_become_ready",
            "test_compile_worker_signals.py::test_every_worker_killed_before_it_is_python_is_an_error",
            "test_compile_worker.py::test_interpreter_without_tripont",
        )
    ),
)


@dataclasses.dataclass(frozen=True)
class Sanitizer:
    libraries: tuple[str, ...]  # that have to be loaded before all others
    # Options; the folder of reports and the suppressions are added to them.
    variables: dict[str, str]
    tests: tuple[str, ...]
    cmake: tuple[str, ...]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


STACK = 64 << 20  # bytes
UNDEFINED = "print_stacktrace=1"
# GCC 12's libraries end the process in their wrapper of process_vm_readv, which this transport of MPI's calls.
MPI = {"UCX_TLS": "^cma"}
SANITIZERS = {
    # Without undefined behaviour, whose checks double the time of the build and have a build of their own.
    "address": Sanitizer(
        # libstdc++ too, whose functions of exceptions the sanitizer looks up when it starts
        ("libasan.so", "libstdc++.so"),
        {
            # The frameworks mix the operators new and delete of several libraries.
            "ASAN_OPTIONS": "detect_leaks=0:alloc_dealloc_mismatch=0:new_delete_type_mismatch=0:"
            "quarantine_size_mb=64",
        },
        MEMORY_TESTS,
        ("-DTRIPONT_SANITIZE=address",),
        MPI,
    ),
    "undefined": Sanitizer(
        ("libubsan.so", "libstdc++.so"),
        {"UBSAN_OPTIONS": UNDEFINED},
        MEMORY_TESTS,
        ("-DTRIPONT_SANITIZE=undefined",),
    ),
    "thread": Sanitizer(
        ("libtsan.so",),
        {
            "TSAN_OPTIONS": "ignore_noninstrumented_modules=1:die_after_fork=0:exitcode=0:"
            # Where MPI never comes back from its start, the thread that answered it is left behind with it.
            "history_size=4:report_thread_leaks=0"
        },
        THREAD_TESTS,
        # TensorFlow, too, hands work from thread to thread unseen.
        ("-DTRIPONT_SANITIZE=thread", "-DTRIPONT_TENSORFLOW=OFF"),
        MPI,
    ),
}


def link(link_path: Path, target: Path) -> None:
    if link_path.is_symlink() and os.readlink(link_path) == str(target):
        return
    link_path.unlink(missing_ok=True)
    link_path.symlink_to(target)


def make_environment(folder: Path) -> Path:
    """An environment at `folder` whose packages are links to the running one's; the path of its Python."""
    environment = Path(sys.prefix)
    site = Path("lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")
    (folder / site).mkdir(parents=True, exist_ok=True)
    (folder / "bin").mkdir(exist_ok=True)
    shutil.copy(environment / "pyvenv.cfg", folder / "pyvenv.cfg")
    for name in ("python", "python3"):
        link(folder / "bin" / name, Path(sys.executable).resolve())
    entries = [*(environment / site).iterdir()]
    entries += [e for e in (environment / "lib").iterdir() if not e.name.startswith("python")]
    entries += [e for e in environment.iterdir() if e.name in ("share", "opt", "etc")]
    for entry in entries:
        if not entry.name.startswith(OURS):
            link(folder / entry.relative_to(environment), entry)
    for tool in ("cmake", "ninja", "pytest", "spirv-val", "spirv-dis"):
        if (environment / "bin" / tool).exists():
            link(folder / "bin" / tool, environment / "bin" / tool)
    return folder / "bin" / "python"


def compiler() -> str:
    """A GCC: Clang's libraries have other names, and are not shared ones by default."""
    return os.environ.get("CXX") or shutil.which("g++") or "c++"


def library(name: str) -> str:
    """The path of one of the compiler's libraries."""
    found = subprocess.run(
        [compiler(), f"-print-file-name={name}"], check=True, capture_output=True, text=True
    ).stdout.strip()
    if not Path(found).is_absolute():  # the name itself: there is none
        raise SystemExit(f"{compiler()} has no {name}: install the compiler's sanitizer libraries")
    return str(Path(found).resolve())


def variables(name: str, folder: Path) -> dict[str, str]:
    """The environment variables of a process that uses the build."""
    sanitizer = SANITIZERS[name]
    more = f"log_path={folder / 'reports' / 'report'}"
    suppressions = SUPPRESSIONS / f"{name}.txt"
    if suppressions.is_file():
        more += f":suppressions={suppressions}"
    return {
        **sanitizer.environment,
        **{variable: f"{options}:{more}" for variable, options in sanitizer.variables.items()},
        "LD_PRELOAD": " ".join(library(needed) for needed in sanitizer.libraries),
        "TRIPONT_PYTHON": str(plain_python(folder)),
    }


def plain_python(folder: Path) -> Path:
    """The running interpreter without the sanitizer: compile workers have none of our C++ in them."""
    # Not a shell's script: Debian's shell calls setjmp, which GCC 12's thread sanitizer has no address of in a program
    # that it did not compile.
    script = folder / "worker-python"
    script.write_text(
        f"#!{sys.executable} -IS\n"
        "import os, sys\n"
        "del os.environ['LD_PRELOAD']\n"
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n"
    )
    script.chmod(0o755)
    return script


def reports(folder: Path) -> list[Path]:
    return sorted((folder / "reports").glob("report.*"))


def launcher(variables: Mapping[str, str]) -> list[str]:
    """The beginning of a command that runs with ``variables``, and without random addresses where that is allowed:
    these may lie where the sanitizer wants its own memory.

    The variables are set behind setarch, which would otherwise start with the sanitizer before it has fixed the
    addresses.
    """
    fixed = ["setarch", "-R"]
    allowed = (
        shutil.which(fixed[0])
        and subprocess.run([*fixed, "true"], capture_output=True, check=False).returncode == 0
    )
    return [*(fixed if allowed else []), "env", *(f"{n}={v}" for n, v in variables.items())]


def main() -> int:
    parser = argparse.ArgumentParser(description="Run tests with a sanitizer.")
    parser.add_argument("sanitizer", choices=SANITIZERS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument(
        "--without-tensorflow",
        action="store_true",
        help="leave out TensorFlow's adapter and its tests: half of the build's time",
    )
    known, arguments = parser.parse_known_args()
    if sys.prefix == sys.base_prefix:
        raise SystemExit("run this with the Python of a virtual environment (`make dev` does)")
    name = known.sanitizer
    folder = ROOT / "build" / name
    python = make_environment(folder / "venv")
    options = [*SANITIZERS[name].cmake, f"-DCMAKE_CXX_COMPILER={compiler()}"]
    default_tests = SANITIZERS[name].tests
    if known.without_tensorflow:
        options.append("-DTRIPONT_TENSORFLOW=OFF")
        default_tests = tuple(t for t in default_tests if not t.startswith("tests/nextpluggable"))
    subprocess.run(
        [python, ROOT / "cmake" / "develop.py", f"--jobs={known.jobs}", "--", *options],
        check=True,
        env=os.environ | {"TRIPONT_BUILD_FOLDER": str(folder)},
    )
    # Frames are several times as large: thunks that are nested as deep as they may be need more than the usual 8 MB.
    _, most = resource.getrlimit(resource.RLIMIT_STACK)
    if most == resource.RLIM_INFINITY or most >= STACK:
        resource.setrlimit(resource.RLIMIT_STACK, (STACK, most))
    shutil.rmtree(folder / "reports", ignore_errors=True)
    (folder / "reports").mkdir()
    tests = arguments or ["-n", "0", "-q", "--timeout=1200", *default_tests]
    command = [*launcher(variables(name, folder)), str(python), "-m", "pytest", *tests]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    found = reports(folder)
    for report in found:
        print(f"\n==== {report}\n{report.read_text(errors='replace')[:4000]}")
    print(f"{len(found)} processes had a report of the {name} sanitizer", flush=True)
    return status or (1 if found else 0)


if __name__ == "__main__":
    sys.exit(main())

"""Helper processes: they find the code that this process finds, and nothing that lies in the working folder.

``python -m`` and ``python -c`` put the working folder first on the module path. A ``struct.py`` or a folder ``numpy``
there would be run by the helper although the program itself never imports it. A helper therefore starts with ``-P``,
with this process's own flags about paths, and with this process's module path in place of its own.

The compile workers are started by ``core/runtime/worker_process.cc`` in the same manner.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Final

from . import __path__ as _package_folders

# Takes its first two arguments, both of which may be empty: the module path to put before its own, its folders
# separated by colons, and a folder to put last.
SET_PATH: Final = (
    "import sys; given = [p for p in sys.argv.pop(1).split(':') if p]; last = sys.argv.pop(1); "
    "sys.path[:] = given + [p for p in sys.path if p not in given]; "
    "sys.path += [last] if last and last not in sys.path else []"
)


def interpreter_flags() -> list[str]:
    """The flags of this interpreter that say which code it finds and how it runs it, and ``-P``."""
    flags = sys.flags
    letters = "I" if flags.isolated else "E" * flags.ignore_environment + "s" * flags.no_user_site
    letters += "S" * flags.no_site + "B" * flags.dont_write_bytecode + "O" * flags.optimize + "P"
    return [f"-{letters}"]


def package_folder() -> str:
    """The folder that holds the package ``tripont`` which is running, absolute."""
    folders = [Path(folder).absolute() for folder in _package_folders]
    whole = [folder for folder in folders if (folder / "core").is_dir()]
    return str((whole or folders)[0].parent)


def package_path() -> str:
    """This process's module path for a helper, its folders separated by colons.

    Without the folders that Python itself put there because the program was started from them (the script's folder,
    the working folder): other files there are not meant to be imported by tripont. If tripont itself lies there, the
    helper finds it last (:func:`package_folder`). Relative folders, and those with a colon in their name, are left out.
    """
    started_from = set()
    if program := getattr(sys.modules.get("__main__"), "__file__", None):
        started_from.add(os.path.realpath(os.path.dirname(os.path.abspath(program))))
    with contextlib.suppress(OSError):  # the working folder may have been removed
        started_from.add(os.path.realpath(os.getcwd()))
    return ":".join(
        folder
        for folder in sys.path
        if isinstance(folder, str)
        and os.path.isabs(folder)
        and ":" not in folder
        and os.path.realpath(folder) not in started_from
    )


def command(code: str, *arguments: str) -> list[str]:
    """The command that runs ``code`` in a helper process; its ``sys.argv`` has the arguments after its name."""
    start = f"{SET_PATH}; exec(sys.argv.pop(1))"
    return [
        sys.executable,
        *interpreter_flags(),
        "-c",
        start,
        package_path(),
        package_folder(),
        code,
        *arguments,
    ]


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module as ``python -m`` does."""
    code = f"import runpy; runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    return command(code, *arguments)

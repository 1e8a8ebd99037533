"""The version of tripont: the one place where it is written (pyproject.toml and CMakeLists.txt read this file)."""

__version__ = "0.1.0"

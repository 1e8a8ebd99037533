"""What the compiler (Python) and the runtime (C++) must agree on, defined once.

``element_types`` and ``status_codes`` are tables. ``artifact`` and ``messages`` hold records, in the language of
``records``; ``layouts`` has their versions. The Python side reads these modules (records through ``codec``);
``generate``, which CMake runs, writes C++ headers of the same names (``#include "core/schema/element_types.h"``).
Nothing here imports anything but Python's own library, so that the build needs no packages.
"""

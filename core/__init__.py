"""The core: one compiler (Python) and one runtime (C++) for every framework."""

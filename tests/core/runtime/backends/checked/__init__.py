"""A third backend and its target, from outside: checked_target.py and backend.cc, registered by an entry point and by
TRIPONT_BACKENDS. Its devices check what kernels and the runtime rely on (backend.cc).
"""

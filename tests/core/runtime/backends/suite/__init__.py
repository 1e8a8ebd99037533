"""What every backend must do, whatever its devices are: the runtime's promises, checked through its Python module.

A module is a subject. Its functions that start with ``check_`` take a :class:`.context.Context` and raise if the
backend breaks a promise; ``test_backends.py`` runs each of them in a process of each backend of ``registered.py``.
"""

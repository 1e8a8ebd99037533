"""``python -m tripont``: the command line, where the command ``tripont`` is not on the path."""

from .cli.main import main

main()

"""Places in the user's program, as frameworks write them."""

from __future__ import annotations


def of_line(file: str, line: int) -> tuple[str, int]:
    """File and line of a place; ("", 0) if it says nothing."""
    if not file or file == "dummy_file_name":  # TensorFlow's placeholder
        return "", 0
    if file == "-":  # no file, so the line is one of the program's text
        return "<program>", line
    return file, line

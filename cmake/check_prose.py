"""Find the sentences that docs/style.md advises against: in error messages, other strings, docstrings, the comments of
C++, and pages of documentation.

``python cmake/check_prose.py FILE...`` prints each with its file, line and cure, and exits with 1 if there are any;
``--commits`` checks the subjects of commits, ``--message FILE`` that of one commit. `make lint` runs the first two, the
commit-msg hook that `pre-commit install` makes runs the third. A string that is not a sentence for a user can say so:
``# prose: not a message`` on its line.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SUBJECT = 72  # characters
SINCE = "de9e0cc"  # the last commit before the rule about subjects
IGNORED = "prose: not a message"

# (what to look for, the cure). Each is one of the five patterns of docs/style.md.
PATTERNS = tuple(
    (re.compile(pattern), cure)
    for pattern, cure in (
        (
            r"(?<!there )(?<!There )\b(?:is|are|was|were) no (?!longer|larger\b|more\b|less\b|other\b|later\b)[a-z]",
            "'is no X': write 'is not a X', or name the lack: 'X is missing'",
        ),
        (
            r"(?<!there )\b(?:is|are|was|were) none\b",
            "'is none (of)': write 'is not a ...', 'is not one of ...' or 'has no ...'",
        ),
        (
            r"\b(?:has|have|had) not (?:a|an|the|any|as|enough|that|this|\d|\{)",
            "'has not X': write 'has no X' or 'does not have X'",
        ),
        (
            r"\b(?:has|have|had) not(?=[.,;:)'\"]|$)",
            "'has not' at the end: write 'does not have X', and name the X",
        ),
        (
            r"\b(?:needs|knows|takes|gives|has|makes) (?:it|them|this) not\b",
            "the verb comes before 'not': write 'does not need it'",
        ),
        (r"(?:^|[.;] )Of [a-z]", "a fragment that starts with 'Of': write a sentence with a verb"),
        (r"\bthat there (?:is|are) not\b", "'that there are not': write 'that do not exist'"),
        (
            r", which (?:is|are) (?:not )?there\b|, as (?:it|there) is\b",
            "a relative clause left at the end: make it a sentence with a named subject",
        ),
        (
            r"(?:^|[.;:] )[Ww]hat\b[^.;:?,]*? (?:is|are) (?:no|not|a|an|the)\b[^?]*$",
            "a clause with 'what' as the subject: name the subject",
        ),
        (
            r"\b(?:of|for|with|by|to|in) (?:such )?(?:those|ones)(?=[.,;:)]|$)|\bsuch (?:a )?ones?\b",
            "a pronoun for a thing that has a name: repeat the name",
        ),
    )
)
# The same in pages, whose labels and headings have no full stop.
PAGE_PATTERNS = (
    (
        re.compile(r"(?:^|[.;:] )(?:What|Whatever|Whoever) [a-z][^.?;:]*[.;](?= |$)"),
        "a clause with 'what' as the subject: name the subject",
    ),
)


def faults(text: str, page: bool = False) -> Iterator[str]:
    """The cures of what is wrong with one text. ``page``: whether it is of a page of documentation."""
    flat = " ".join(text.split())
    for pattern, cure in (*PATTERNS, *(PAGE_PATTERNS if page else ())):
        if match := pattern.search(flat):
            yield f"{match.group().strip()!r}: {cure}"


def python_strings(source: str) -> Iterator[tuple[int, str]]:
    """The line and text of every string, paragraph by paragraph; ``{}`` stands for an expression of an f-string."""
    tree = ast.parse(source)
    skip: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skip.update(child for child in ast.walk(node) if child is not node)
            parts = (v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
            yield node.lineno, "".join(map(str, parts))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skip:
            for paragraph in node.value.split("\n\n"):
                yield node.lineno, paragraph


_LITERALS = re.compile(r'"(?:[^"\\\n]|\\.)*"(?:[\s,]*"(?:[^"\\\n]|\\.)*")*')
_KEPT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|^[ \t]*#[^\n]*', re.M)


def cpp_strings(source: str) -> Iterator[tuple[int, str]]:
    """The line and text of every string literal; literals side by side, also as arguments, are one text."""
    code = _KEPT.sub(lambda m: m.group() if m.group()[0] == '"' else " " * len(m.group()), source)
    for match in _LITERALS.finditer(code):
        pieces = re.findall(r'"((?:[^"\\\n]|\\.)*)"', match.group())
        yield code.count("\n", 0, match.start()) + 1, "".join(pieces)


def cpp_comments(source: str) -> Iterator[tuple[int, str]]:
    """The first line and text of every paragraph of ``//`` comments that stand on lines of their own."""
    start, words = 0, list[str]()
    for number, line in enumerate([*source.splitlines(), ""], 1):
        comment = re.match(r"\s*//\s?(.*\S)", line)
        if comment:
            start = start if words else number
            words.append(comment[1])
        elif words:
            yield start, " ".join(words)
            words = []


_NEW_PARAGRAPH = re.compile(r"\s*(?:[-*+|>#]|\d+\. )")


def markdown_paragraphs(source: str) -> Iterator[tuple[int, str]]:
    """The first line and text of every paragraph, item, heading and cell outside of blocks of code."""
    start, words, in_code = 0, list[str](), False
    for number, line in enumerate([*source.splitlines(), ""], 1):
        fence = line.lstrip().startswith("```")
        if words and (in_code or fence or not line.strip() or _NEW_PARAGRAPH.match(line)):
            yield start, " ".join(words)
            words = []
        in_code ^= fence
        if in_code or fence or not line.strip():
            continue
        if line.startswith("|"):
            yield from ((number, cell) for cell in line.strip("| ").split(" | "))
        else:
            start = start if words else number
            words.append(line.strip().lstrip("-*+>#0123456789. "))


def check_file(path: Path) -> list[str]:
    source = path.read_text()
    if path.suffix == ".py":
        strings = list(python_strings(source))
    elif path.suffix == ".md":
        strings = list(markdown_paragraphs(source))
    else:
        strings = [*cpp_strings(source), *cpp_comments(source)]
    lines = source.splitlines()
    return [
        f"{path}:{line}: {fault}"
        for line, text in strings
        if " " in text and IGNORED not in lines[line - 1]
        for fault in faults(text, path.suffix == ".md")
    ]


def check_subject(message: str) -> list[str]:
    """What is wrong with a commit's message."""
    subject = message.splitlines()[0] if message.strip() else ""
    if subject.startswith(("fixup! ", "squash! ", "Merge ", "Revert ")):
        return []
    found = []
    if len(subject) > SUBJECT:
        found.append(f"{len(subject)} characters in the subject, at most {SUBJECT}: {subject}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Check the prose of messages and of commits.")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--message", type=Path, help="a file with the message of a commit")
    parser.add_argument(
        "--commits",
        nargs="?",
        const=f"{SINCE}..",
        help="a range of commits, as git log takes it; all to which the rule applies if left out",
    )
    arguments = parser.parse_args()
    found = [fault for path in arguments.files for fault in check_file(path)]
    if arguments.message:
        found += check_subject(arguments.message.read_text())
    if arguments.commits:
        command = ["git", "log", "--format=%s", arguments.commits]
        log = subprocess.run(command, check=False, capture_output=True, text=True)
        if log.returncode:  # a shallow clone does not hold the first commit
            print(f"the subjects of commits are not checked: {log.stderr.strip()}", file=sys.stderr)
        for subject in log.stdout.splitlines():
            found += check_subject(subject)
    print("\n".join(found) if found else "", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

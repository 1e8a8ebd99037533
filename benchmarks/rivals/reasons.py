"""Why a program is slower than its best rival: what a profile of it showed. For the list on docs/performance.md."""

from typing import Final

REASONS: Final[dict[str, str]] = {}

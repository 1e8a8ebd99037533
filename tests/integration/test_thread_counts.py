"""The bits of a result do not depend on the number of threads that computed it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def test_results_do_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    from tests.integration import thread_counts  # makes large arrays when it is imported

    hashes = {}
    for threads in (1, 3):  # in turn: the second process has the first one's artifacts
        done = subprocess.run(
            [sys.executable, "-m", thread_counts.__name__],
            env={
                **os.environ,
                "JAX_PLATFORMS": "xpu",
                "TRIPONT_NUM_THREADS": str(threads),
                "TRIPONT_CACHE_DIR": str(tmp_path),
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        hashes[threads] = json.loads(done.stdout)
    one, three = hashes[1], hashes[3]
    assert set(one) == set(thread_counts.PROGRAMS)
    assert [name for name in one if one[name] != three[name]] == []

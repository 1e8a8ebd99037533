"""The bits of a result do not depend on the number of threads that computed it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.integration import thread_counts


def test_results_do_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    processes = {
        threads: subprocess.Popen(
            [sys.executable, "-m", thread_counts.__name__],
            env={
                **os.environ,
                "JAX_PLATFORMS": "xpu",
                "TRIPONT_NUM_THREADS": str(threads),
                "TRIPONT_CACHE_DIR": str(tmp_path),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for threads in (1, 3)
    }
    hashes = {}
    for threads, process in processes.items():
        output, errors = process.communicate()
        assert process.returncode == 0, errors
        hashes[threads] = json.loads(output)
    one, three = hashes[1], hashes[3]
    assert set(one) == set(thread_counts.PROGRAMS)
    assert [name for name in one if one[name] != three[name]] == []

"""The picture in the documentation: the page of the demo's training step, photographed in Chromium.

python -m tests.explain.screenshot [docs/explain.png]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.explain import browser as browsers
from tripont.explain import page, report
from tripont.explain.measure import measure
from tripont.explain.run import load

EXAMPLE = Path(__file__).parents[2] / "examples" / "jax_digits"
LARGEST = 400_000  # bytes


def program() -> str:
    """The demo's training step as StableHLO, with the lines it comes from."""
    sys.path.insert(0, str(EXAMPLE))
    import jax
    import train

    x, y, *_ = train.load_data()
    images, labels = x[: train.BATCH], y[: train.BATCH]
    parameters, state = train.init(jax.random.key(0), images)
    return train.train_step.lower(parameters, state, images, labels).as_text(debug_info=True)


def main() -> None:
    output = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/explain.png")
    if reason := browsers.missing():
        sys.exit(f"error: {reason}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train_step.mlir").write_text(program())
        (module,) = load(folder / "train_step.mlir", {}, "", folder / "dump")
        module.origin = "examples/jax_digits/train.py"
        timeline = measure(module.artifact_bytes(), "host")
        (folder / "page.html").write_text(page.write_page(report.build(module, timeline)))
        with browsers.Browser(1440, 900) as browser:
            browser.open(folder / "page.html")
            browser.run("document.documentElement.dataset.theme = 'light'")
            browser.run("document.activeElement.blur()")
            time.sleep(0.5)  # until colours have changed
            picture = browser.screenshot()
    if len(picture) > LARGEST:
        sys.exit(f"error: the picture has {len(picture)} bytes, more than {LARGEST}")
    output.write_bytes(picture)
    print(f"{output}: {len(picture)} bytes")


if __name__ == "__main__":
    main()

"""A real browser for tests: Chromium without a window, driven by the W3C WebDriver protocol.

Debian's packages are ``chromium`` and ``chromium-driver``. There is nothing to install from PyPI:
the protocol is JSON over HTTP.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--force-color-profile=srgb",
)
KEYS = {
    "Enter": "\ue007",
    "Escape": "\ue00c",
    "Backspace": "\ue003",
    "Tab": "\ue004",
    "Home": "\ue011",
    "End": "\ue010",
    "ArrowLeft": "\ue012",
    "ArrowUp": "\ue013",
    "ArrowRight": "\ue014",
    "ArrowDown": "\ue015",
}
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
_SECONDS = 30


def missing() -> str:
    """Why there is no browser to test with; empty if there is one."""
    if shutil.which("chromedriver") is None:
        return "there is no chromedriver (Debian: apt-get install chromium chromium-driver)"
    if _chromium() is None:
        return "there is no chromium (Debian: apt-get install chromium)"
    return ""


def _chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("google-chrome")


class Browser:
    """One window, as a context manager. Errors of the driver are RuntimeErrors with its message."""

    def __init__(self, width: int = 1440, height: int = 900) -> None:
        self.size = (width, height)

    def __enter__(self) -> Browser:
        self.profile = tempfile.TemporaryDirectory(prefix="tripont-browser-")
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            self.address = self._wait_for_driver()
            options = {
                "binary": _chromium(),
                "args": [*ARGUMENTS, f"--user-data-dir={self.profile.name}"],
            }
            answer = self._call(
                "POST",
                "/session",
                {
                    "capabilities": {
                        "alwaysMatch": {
                            "goog:chromeOptions": options,
                            "goog:loggingPrefs": {"browser": "ALL"},
                        }
                    }
                },
            )
            self.address += f"/session/{answer['sessionId']}"
            width, height = self.size
            self.cdp(
                "Emulation.setDeviceMetricsOverride",
                width=width,
                height=height,
                deviceScaleFactor=1,
                mobile=False,
            )
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            self._call("DELETE", "")
        self.close()

    def close(self) -> None:
        self.driver.terminate()
        self.driver.wait(10)
        if self.driver.stdout is not None:
            self.driver.stdout.close()
        self.profile.cleanup()

    def _wait_for_driver(self) -> str:
        assert self.driver.stdout is not None
        for line in self.driver.stdout:
            if match := re.search(r"started successfully on port (\d+)", line):
                return f"http://127.0.0.1:{match[1]}"
        raise RuntimeError("chromedriver did not start")

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = json.dumps(body if body is not None else {}).encode() if method == "POST" else None
        request = urllib.request.Request(
            self.address + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from error

    def cdp(self, command: str, **parameters: Any) -> Any:
        """A command of the Chrome DevTools protocol."""
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    # ---------------------------------------------------------------------------------------- pages
    def open(self, page: Path, fragment: str = "") -> None:
        """Open a page of `tripont explain` and wait until it says that it is ready."""
        self._call("POST", "/url", {"url": "about:blank"})
        self._call("POST", "/url", {"url": page.resolve().as_uri() + fragment})
        self.wait("return document.documentElement.dataset.ready")

    def run(self, script: str, *arguments: Any) -> Any:
        """The value that JavaScript returns."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script: str) -> Any:
        """The value of JavaScript once it is true."""
        end = time.monotonic() + _SECONDS
        while not (value := self.run(script)):
            if time.monotonic() > end:
                raise RuntimeError(f"waited {_SECONDS} s in vain for: {script}")
            time.sleep(0.02)
        return value

    def press(self, *keys: str) -> None:
        """Press and release keys one after the other, by their names or as characters."""
        actions = [
            {"type": kind, "value": KEYS.get(key, key)}
            for key in keys
            for kind in ("keyDown", "keyUp")
        ]
        body = {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}
        self._call("POST", "/actions", body)

    def type(self, text: str) -> None:
        self.press(*text)

    def click(self, selector: str) -> None:
        """Click in the middle of the element that a CSS selector finds."""
        found = self._call("POST", "/element", {"using": "css selector", "value": selector})
        self._call("POST", f"/element/{found[_ELEMENT]}/click")

    def screenshot(self) -> bytes:
        """PNG of the window."""
        return base64.b64decode(self._call("GET", "/screenshot"))

    def errors(self) -> Sequence[str]:
        """What the console says since the last call, and only if it is a warning or an error."""
        log = self._call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in log if entry["level"] in ("WARNING", "SEVERE")]

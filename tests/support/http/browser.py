"""A headless Chromium, driven over its DevTools protocol: https://chromedevtools.github.io/devtools-protocol/

The two talk through a pair of pipes (--remote-debugging-pipe), each message ended by a NUL: no port, no other library.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import subprocess
import tempfile
import time
from pathlib import Path
from shutil import which
from typing import Any, Self

CHROMIUM = os.environ.get("WAGGLE_CHROMIUM") or which("chromium") or which("chromium-browser") or which("google-chrome")
ABSENT = "Chromium is not installed (Debian package chromium)"
_PATIENCE = 60.0


class BrowserError(AssertionError):
    """The browser, or a script in it, failed."""


class Browser:
    """One browser with one page; a context manager that ends it. What the page logs as an error is in `complaints`."""

    def __init__(self, *, width: int = 1400, height: int = 900) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="waggle-chromium-", ignore_cleanup_errors=True)
        to_child, self._out = os.pipe()
        self._in, from_child = os.pipe()
        self._child = subprocess.Popen(
            ["/bin/bash", "-c", f'exec 3<&{to_child} 4>&{from_child}; exec "$@"', "-", *self._command(width, height)],
            pass_fds=(to_child, from_child),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_child)
        os.close(from_child)
        self._numbers = itertools.count(1)
        self._buffer = b""
        self._session = ""
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._attach()

    def _command(self, width: int, height: int) -> list[str]:
        assert CHROMIUM is not None, ABSENT
        return [
            CHROMIUM,
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-sandbox",  # tests run as root in containers
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-features=BackForwardCache",
            "--no-first-run",
            "--hide-scrollbars",
            "--force-device-scale-factor=1",
            f"--window-size={width},{height}",
            f"--user-data-dir={self._home.name}",
            "about:blank",
        ]

    def _attach(self) -> None:
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    # -- the protocol -----------------------------------------------------------------------------------------

    def call(self, method: str, **params: Any) -> Any:
        """One command and its result. Raises BrowserError."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + _PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            received = os.read(self._in, 1 << 20) if ready else b""
            if not received:
                raise BrowserError("Chromium says nothing")
            self._buffer += received
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.complaints.append(details.get("exception", {}).get("description") or details["text"])
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.complaints.append(f"{params['entry']['text']} ({params['entry'].get('url', '')})")
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])

    # -- what a person does -----------------------------------------------------------------------------------

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of an expression in the page, JSON-like; a promise is awaited."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise BrowserError(f"{script}: {details.get('exception', {}).get('description') or details['text']}")
        return result["result"].get("value")

    def wait(self, condition: str) -> Any:
        """Until the expression is true; its value. Raises BrowserError."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            value = self.run(f"(() => {{ try {{ return {condition} }} catch {{ return null }} }})()")
            if value:
                return value
            time.sleep(0.03)
        raise BrowserError(f"never true: {condition}; {self.complaints}; it shows {self.text('body')[:500]!r}")

    def text(self, selector: str) -> str:
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def dark(self, dark: bool = True) -> None:
        value = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def resize(self, width: int, height: int, scale: float = 1) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False
        )

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x: float, y: float) -> None:
        self.mouse("mouseMoved", x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def key(self, key: str, *, shift: bool = False) -> None:
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        codes = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        more = {"windowsVirtualKeyCode": codes[key]} if key in codes else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, modifiers=8 if shift else 0, **text, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **more)

    def screenshot(self, path: Path) -> None:
        shown = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shown["data"]))

    # -- its end ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        os.close(self._out)  # that ends it
        try:
            self._child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        os.close(self._in)
        self._home.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""A headless Chromium of this machine, driven over its DevTools protocol: no driver and no package beside it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import websocket

from tests.support.waiting import PATIENCE_SECONDS, until

NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = "no Chromium on the PATH: install Debian's package `chromium`"


def find_chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


@dataclass
class Tab:
    """`problems`: what the browser's console has said: errors of scripts, what the policy of the page has blocked."""

    socket: Any
    problems: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)
    """Addresses."""
    _number: int = 0

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                found: dict[str, Any] = message["result"]
                return found
            self._hear(message)

    def _hear(self, message: dict[str, Any]) -> None:
        said = message.get("params", {})
        if message.get("method") == "Log.entryAdded":
            self.problems.append(str(said["entry"].get("text")))
        elif message.get("method") == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(said["exceptionDetails"])[:500])
        elif message.get("method") == "Network.requestWillBeSent":
            self.requested.append(str(said["request"]["url"]))

    def open(self, url: str) -> None:
        """Until the document is complete."""
        self.ask("Page.navigate", url=url)
        until(f"{url} is loaded", lambda: self.run("document.readyState + location.protocol") == "completehttp:")

    def leave(self) -> None:
        """The page that is open, so that nothing of it goes on."""
        self.ask("Page.navigate", url="about:blank")
        until("the page is left", lambda: self.run("location.href + document.readyState") == "about:blankcomplete")

    def run(self, script: str) -> Any:
        """What an expression is worth."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:1_000])
        return answer["result"].get("value")

    def shape(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def press(self, key: str) -> None:
        codes = {"Tab": 9, "Enter": 13}
        for kind in ("keyDown", "keyUp"):
            text = "\r" if key == "Enter" and kind == "keyDown" else ""
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=codes[key], text=text)

    def picture(self, file: Path, *, whole: bool = True) -> None:
        answer = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(answer["data"]))


@contextmanager
def chromium(path: str) -> Iterator[Tab]:
    with tempfile.TemporaryDirectory(prefix="tj-chromium-", ignore_cleanup_errors=True) as folder:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        options += ["--remote-debugging-port=0", f"--user-data-dir={folder}", "--hide-scrollbars", "about:blank"]
        environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        process = subprocess.Popen(
            [path, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
        )
        try:
            port_file = Path(folder) / "DevToolsActivePort"
            until("Chromium listens", lambda: port_file.exists() and port_file.read_text().strip())
            port = port_file.read_text().split()[0]
            tabs = json.loads(_get(f"http://127.0.0.1:{port}/json"))
            address = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
            socket = websocket.create_connection(address, timeout=PATIENCE_SECONDS, suppress_origin=True)
            tab = Tab(socket)
            for domain in ("Page", "Runtime", "Log", "Network"):
                tab.ask(f"{domain}.enable")
            yield tab
            socket.close()
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)


def _get(url: str) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=PATIENCE_SECONDS) as answer:
        body: bytes = answer.read()
    return body

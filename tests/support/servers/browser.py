"""A real headless Chromium, driven by its own protocol over two pipes: no port, no further package.

Source: Chrome DevTools Protocol (stable 1.3), and `--remote-debugging-pipe`: JSON messages that end in a zero byte.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PATIENCE = 60.0
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
)

_LAUNCH = """
import os, sys
os.dup2(int(os.environ["COMMANDS"]), 3)
os.dup2(int(os.environ["ANSWERS"]), 4)
os.execv(sys.argv[1], sys.argv[1:])
"""  # the browser reads commands from 3 and writes answers to 4


@dataclass(slots=True)
class Page:
    """One tab: the commands sent to it, and its events since it was opened."""

    commands: int  # file descriptors
    answers: int
    session: str | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    _sent: int = 0
    _rest: bytes = b""

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command and return its result; events that come before it are kept in `events`."""
        self._sent += 1
        message: dict[str, Any] = {"id": self._sent, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        deadline = monotonic() + PATIENCE
        while True:
            answer = self._read(deadline)
            if answer.get("id") == self._sent:
                if "error" in answer:
                    raise AssertionError((method, answer["error"]))
                return dict(answer["result"])
            self.events.append(answer)

    def _read(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select.select([self.answers], [], [], max(deadline - monotonic(), 0))[0]:
                msg = "the browser did not answer"
                raise AssertionError(msg, self.events[-3:])
            part = os.read(self.answers, 1 << 20)
            if not part:
                msg = "the browser ended"
                raise AssertionError(msg)
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def open(self, file: Path, *, width: int = 1400, height: int = 900, dark: bool = False) -> None:
        """Load a page with the network off and wait until it is loaded."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=scheme)
        self.resize(width, height)
        self.events.clear()
        self.send("Page.navigate", url=file.as_uri())
        deadline = monotonic() + PATIENCE
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._read(deadline))

    def navigate(self, address: str) -> None:
        """Load a page of a server on this machine; what its scripts draw comes later: `wait_for`."""
        self.events.clear()
        self.send("Page.navigate", url=address)

    def wait_for(self, expression: str, *, within: float = PATIENCE) -> Any:
        """Evaluate an expression until it is true, and return its value."""
        deadline = monotonic() + within
        while not (value := self.run(expression)):
            if monotonic() > deadline:
                page_text = self.run("document.body?.innerText")
                msg = f"expected `{expression}` within {within:g} s, the page shows:\n{page_text}"
                raise AssertionError(msg)
            sleep(0.2)
        return value

    def wait_for_text(self, text: str) -> None:
        """Wait until the page shows a text."""
        self.wait_for(f"document.body?.innerText.includes({json.dumps(text)})")

    def click(self, selector: str) -> None:
        """Click the first element that a selector matches, once it exists and is enabled."""
        element = f"document.querySelector({json.dumps(selector)})"
        self.wait_for(f"{element} !== null && !{element}.disabled")
        self.run(f"{element}.click()")

    def click_button(self, name: str) -> None:
        """Click the last button of a name (a dialog comes after the page), once it exists and is enabled."""
        buttons = f"[...document.querySelectorAll('button')].filter(b => b.innerText.trim() === {json.dumps(name)})"
        self.wait_for(f"(b => b !== undefined && !b.disabled)({buttons}.at(-1))")
        self.run(f"{buttons}.at(-1).click()")

    def fill(self, selector: str, text: str) -> None:
        """Type a text into a field, in the place of what it holds."""
        element = f"document.querySelector({json.dumps(selector)})"
        self.wait_for(f"{element} !== null")
        self.run(f"{element}.focus(); {element}.select()")
        self.enter(text)

    def resize(self, width: int, height: int = 900) -> None:
        """Give the view another size, in CSS pixels."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def run(self, script: str) -> Any:
        """Evaluate an expression, wait for it if it is a promise, and return its value."""
        evaluation = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in evaluation, evaluation["exceptionDetails"]
        return evaluation["result"].get("value")

    def press(self, key: str, *, code: int = 0, text: str = "") -> None:
        """Press and release one key where the focus is."""
        shared = {"key": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **shared)
        self.send("Input.dispatchKeyEvent", type="keyUp", **shared)

    def enter(self, text: str) -> None:
        """Type a text where the focus is."""
        self.send("Input.insertText", text=text)

    def capture(self, file: Path, *, selector: str | None = None, whole: bool = False, scale: float = 1) -> None:
        """Save a picture: of the view; to scale, of the whole page or of the first element that a selector finds."""
        options: dict[str, Any] = {"captureBeyondViewport": True} if whole or selector else {}
        if whole or selector:
            box = self.run(
                f"(e => {{ const b = e.getBoundingClientRect();"
                " return [b.x + scrollX, b.y + scrollY, b.width, b.height] })"
                f"(document.querySelector({json.dumps(selector or 'html')}))"
            )
            options["clip"] = dict(zip(("x", "y", "width", "height"), box, strict=True)) | {"scale": scale}
        file.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", **options)["data"]))

    def errors(self) -> list[str]:
        """Return what went wrong since the page was opened: exceptions, error logs, refused resources."""
        bad = ("Runtime.exceptionThrown", "Log.entryAdded", "Audits.issueAdded")
        calls = [e for e in self.events if e.get("method") == "Runtime.consoleAPICalled"]
        wrong = [json.dumps(e["params"]) for e in self.events if e.get("method") in bad]
        return wrong + [json.dumps(e["params"]) for e in calls if e["params"]["type"] in {"error", "warning", "assert"}]

    def requests(self) -> list[str]:
        """Return the addresses requested since the page was opened."""
        sent_requests = (e for e in self.events if e.get("method") == "Network.requestWillBeSent")
        return [str(e["params"]["request"]["url"]) for e in sent_requests]


@contextmanager
def running_browser(*, online: bool = False) -> Iterator[Page]:
    """Start a browser with a new profile, and end it.

    Args:
        online: Whether it may reach servers; by address, since no name is resolved.
    """
    assert PROGRAM is not None
    (command_low, commands), (answers, answer_low) = os.pipe(), os.pipe()
    command_end, answer_end = (fcntl.fcntl(low, fcntl.F_DUPFD, 10) for low in (command_low, answer_low))
    os.close(command_low)
    os.close(answer_low)
    with TemporaryDirectory(prefix="cutover-browser-", ignore_cleanup_errors=True) as profile:
        command = [sys.executable, "-c", _LAUNCH, PROGRAM, *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
        environment = os.environ | {"COMMANDS": str(command_end), "ANSWERS": str(answer_end)}
        process = subprocess.Popen(
            command,
            pass_fds=(command_end, answer_end),
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(command_end)
        os.close(answer_end)
        try:
            page = Page(commands, answers)
            target = page.send("Target.createTarget", url="about:blank")["targetId"]
            page.session = page.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                page.send(f"{domain}.enable")
            page.send(
                "Network.emulateNetworkConditions",
                offline=not online,
                latency=0,
                downloadThroughput=-1 if online else 0,
                uploadThroughput=-1 if online else 0,
            )
            yield page
        finally:
            process.terminate()
            process.wait(timeout=20)
            os.close(commands)
            os.close(answers)

"""A headless Chromium, driven over its DevTools protocol through a pipe: no library, no port."""

import base64
import functools
import http.server
import json
import os
import select
import shutil
import subprocess
import tempfile
import threading
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Waits:
    """Waits in any browser that can run an expression in its page."""

    def wait(self, expression, seconds=30):
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            value = self.run(expression)
            if value:
                return value
            time.sleep(0.03)
        raise TimeoutError(f"not within {seconds} s: {expression}")


class Browser(Waits):
    """One page. `console` and `requests` collect what it wrote and what it asked for since they were last cleared."""

    def __init__(self, program):
        self.folder = tempfile.TemporaryDirectory(prefix="panpipe-page-", ignore_cleanup_errors=True)
        to_child, self.out = os.pipe()
        self.inward, from_child = os.pipe()

        options = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--mute-audio",
        ]
        options += [f"--user-data-dir={self.folder.name}", "--remote-debugging-pipe", "about:blank"]
        self.process = subprocess.Popen(  # Chromium reads from descriptor 3 and writes to 4
            ["bash", "-c", f'exec "$@" 3<&{to_child} 4>&{from_child}', "bash", program, *options],
            pass_fds=(to_child, from_child),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_child)
        os.close(from_child)
        self.buffer, self.last, self.console, self.requests = b"", 0, [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")

    session = None

    def receive(self, limit):
        while b"\0" not in self.buffer:
            if not select.select([self.inward], [], [], max(0, limit - time.monotonic()))[0]:
                raise TimeoutError("Chromium does not answer")
            part = os.read(self.inward, 1 << 20)
            if not part:
                raise RuntimeError("Chromium ended")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        self.note(message.get("method"), message.get("params", {}))
        return message

    def note(self, method, params):
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.console.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.console.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.console.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def call(self, method, seconds=60, **params):
        self.last += 1
        mine, limit = self.last, time.monotonic() + seconds
        message = {"id": mine, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive(limit)
            if answer.get("id") == mine:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def run(self, expression, seconds=60):
        answer = self.call("Runtime.evaluate", seconds, expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", expression))
        return answer["result"].get("value")

    narrowest = 0  # pixels of a window

    def open(self, address, width=1440, height=900, dark=False):
        self.size(width, height, dark)
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=address)

    def size(self, width, height=900, dark=False, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)
        self.scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.paper(False)

    def paper(self, on):
        """As on paper, whatever the screen."""
        self.call("Emulation.setEmulatedMedia", media="print" if on else "", features=self.scheme)

    def pdf(self):
        return self.call("Page.printToPDF", preferCSSPageSize=True)["data"]

    def give(self, selector, files):
        """Chooses files in an input."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=list(map(str, files)))

    def drop(self, files):
        data = {"items": [], "files": list(map(str, files)), "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.call("Input.dispatchDragEvent", type=kind, x=700, y=400, data=data)

    def forget(self):
        self.console.clear()
        self.requests.clear()

    def key(self, key, code=None, number=0, text="", modifiers=0):
        more = {"key": key, "code": code or key, "windowsVirtualKeyCode": number, "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown", **more, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **more)

    def shot(self, path, whole=False):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as out:
            out.write(base64.b64decode(data))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close", 5)
        except (RuntimeError, TimeoutError, OSError):
            pass
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()


def served(folder):
    """The address of a folder's index.html, served until this process ends."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/index.html"

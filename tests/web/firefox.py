"""A headless Firefox with the methods of browser.Browser, driven by Marionette, the protocol that it speaks itself: no library, no driver."""

import base64
import contextlib
import json
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

from browser import Waits

NAMES = ("firefox", "firefox-esr")
KEYS = {"Tab": "\ue004", "ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015"}
NARROWEST = 500  # pixels of a window
FAULTS = """Services.console.getMessageArray().filter(m => m instanceof Ci.nsIScriptError && !(m.flags & Ci.nsIScriptError.warningFlag)
  && /^(file|http|blob)/.test(m.sourceName)).map(m => m.errorMessage + ' ' + m.sourceName)"""


def find():
    return next((path for path in map(shutil.which, NAMES) if path), None)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Browser(Waits):
    """One page. What Firefox reports to no client, `requests`, is read from the page itself."""

    narrowest = NARROWEST

    def __init__(self, program):
        self.folder = tempfile.TemporaryDirectory(prefix="panpipe-page-", ignore_cleanup_errors=True)
        port = free_port()
        pathlib.Path(self.folder.name, "user.js").write_text(
            f'user_pref("marionette.port", {port});\nuser_pref("browser.shell.checkDefaultBrowser", false);\n'
            'user_pref("datareporting.policy.dataSubmissionEnabled", false);\nuser_pref("app.update.enabled", false);\n'
        )
        self.process = subprocess.Popen(
            [program, "--headless", "--marionette", "--remote-allow-system-access", "--no-remote", "--profile", self.folder.name],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.buffer, self.last, self.seen = b"", 0, 0
        self.connect(port)
        self.call("WebDriver:NewSession", capabilities={"alwaysMatch": {"acceptInsecureCerts": True}})
        self.call("WebDriver:SetTimeouts", script=600000, pageLoad=60000)

    def connect(self, port):
        limit = time.monotonic() + 60
        while True:
            try:
                self.socket = socket.create_connection(("127.0.0.1", port), 5)
                break
            except OSError:
                if time.monotonic() > limit or self.process.poll() is not None:
                    raise RuntimeError("Firefox does not listen") from None
                time.sleep(0.1)
        self.socket.settimeout(600)
        self.receive()  # its greeting

    def receive(self):
        while b":" not in self.buffer:
            self.more()
        size, self.buffer = self.buffer.split(b":", 1)
        while len(self.buffer) < int(size):
            self.more()
        text, self.buffer = self.buffer[: int(size)], self.buffer[int(size) :]
        return json.loads(text)

    def more(self):
        part = self.socket.recv(1 << 20)
        if not part:
            raise RuntimeError("Firefox ended")
        self.buffer += part

    def call(self, name, **params):
        self.last += 1
        text = json.dumps([0, self.last, name, params]).encode()
        self.socket.sendall(b"%d:%s" % (len(text), text))
        while True:
            answer = self.receive()
            if answer[0] == 1 and answer[1] == self.last:
                if answer[2]:
                    raise RuntimeError(f"{name}: {answer[2]['message']}")
                return answer[3]

    @contextlib.contextmanager
    def inside(self):
        """Scripts of the browser itself."""
        self.call("Marionette:SetContext", value="chrome")
        try:
            yield
        finally:
            self.call("Marionette:SetContext", value="content")

    def run(self, expression, seconds=60):
        # eval in the page's own world, as a console does: names of the page are seen, and statements are allowed.
        # The page writes its value as JSON itself: Marionette does not look into typed arrays.
        script = "const done = arguments[1], asked = JSON.stringify(arguments[0]);"
        script += "window.eval(`(async () => JSON.stringify({ value: await (0, eval)(${asked}) }))()`)"
        script += ".then(done, e => done(JSON.stringify({ error: String(e) })))"
        answer = json.loads(
            self.call("WebDriver:ExecuteAsyncScript", script=script, args=[expression], newSandbox=False)["value"]
        )
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer.get("value")

    def open(self, address, width=1440, height=900, dark=False):
        self.size(width, height, dark)
        self.call("WebDriver:Navigate", url="about:blank")
        self.call("WebDriver:Navigate", url=address)

    def size(self, width, height=900, dark=False):
        self.call("WebDriver:SetWindowRect", width=max(width, NARROWEST), height=height)
        with self.inside():
            self.inner(f"Services.prefs.setIntPref('layout.css.prefers-color-scheme.content-override', {0 if dark else 1})")

    def inner(self, script):
        return self.call("WebDriver:ExecuteScript", script="return " + script, args=[])["value"]

    def paper(self, on):
        with self.inside():
            self.inner(f"gBrowser.selectedBrowser.browsingContext.top.mediumOverride = '{'print' if on else ''}'")

    def key(self, key, code=None, number=0, text="", modifiers=0):
        value = KEYS.get(key, key)
        acts = [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
        self.call("WebDriver:PerformActions", actions=[{"type": "key", "id": "keys", "actions": acts}])

    def give(self, selector, files):
        element = self.call("WebDriver:FindElement", using="css selector", value=selector)["value"]
        self.call("WebDriver:ElementSendKeys", id=next(iter(element.values())), text="\n".join(map(str, files)))

    def drop(self, files):
        """Of files as a page makes them: Marionette drags none from outside."""
        texts = {pathlib.Path(file).name: pathlib.Path(file).read_text() for file in files}
        self.run(f"""(() => {{
          const dataTransfer = new DataTransfer();
          for (const [name, text] of Object.entries({json.dumps(texts)})) dataTransfer.items.add(new File([text], name));
          for (const kind of ['dragenter', 'dragover', 'drop'])
            document.body.dispatchEvent(new DragEvent(kind, {{ dataTransfer, bubbles: true, cancelable: true }}));
        }})()""")

    def pdf(self):
        return self.call("WebDriver:Print")["value"]

    def shot(self, path, whole=False):
        data = self.call("WebDriver:TakeScreenshot", full=whole, hash=False)["value"]
        with open(path, "wb") as out:
            out.write(base64.b64decode(data))

    def forget(self):
        with self.inside():
            self.inner("Services.console.reset()")

    @property
    def console(self):
        with self.inside():
            return self.inner(FAULTS)

    @property
    def requests(self):
        return self.run("performance.getEntriesByType('resource').map(e => e.name)")

    def close(self):
        try:
            self.call("Marionette:Quit", flags=["eForceQuit"])
            self.process.wait(10)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()

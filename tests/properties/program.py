"""Calls of panpipe with scenarios that are dicts, and their answers.

A scenario is written as JSON, which is YAML. Its entry FILES holds texts of files that it names, such as a calibration; they are
written next to it.
"""

import collections
import dataclasses
import json
import os
import pathlib
import shlex
import subprocess
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHIPPED = pathlib.Path(os.environ.get("PANPIPE_DATA") or ROOT / "scenarios")
FILES = "_files"
# The least model, where a cluster is asked for what it has.
TINY = {
    "panpipe": 1,
    "workload": {"model": "gpt", "layers": 1, "hidden": 64, "heads": 1},
    "batch": {"micro": 1, "microbatches": 1},
}
IN_WORDS = (0, 1, 2, 3)  # exit codes with a message; 70 is a fault of the program, a negative one a signal


@dataclasses.dataclass(frozen=True)
class Call:
    verb: str
    scenario: dict
    options: tuple = ()
    form: str = ""  # scenario.yaml, plan.yaml: the same call made once more from what `-o` wrote

    def key(self):
        return json.dumps([self.verb, self.scenario, self.options, self.form], sort_keys=True)

    def line(self, file="FILE"):
        """The command as a reader would type it."""
        line = " ".join(["panpipe", self.verb, file, *map(shlex.quote, self.options)])
        if self.form == "scenario.yaml":
            return f"{line} -o DIR; panpipe {self.verb} DIR/scenario.yaml"
        return f"{line} -o DIR; {line} --plan DIR/plan.yaml" if self.form == "plan.yaml" else line


@dataclasses.dataclass
class Answer:
    code: int
    text: str
    error: str

    @property
    def accepted(self):
        return self.code == 0

    @property
    def document(self):
        return json.loads(self.text)

    @property
    def metrics(self):
        return self.document["metrics"]

    @property
    def step(self):
        return self.metrics["step_time_s"]

    @property
    def peak(self):
        return self.metrics["peak_memory_bytes"]


class Broken(Exception):
    """A call that ended neither with an answer nor in words."""

    def __init__(self, call, answer):
        super().__init__(
            f"exit code {answer.code}: {answer.error.strip().splitlines()[-1] if answer.error.strip() else 'no message'}"
        )
        self.call = call


class Refused(Exception):
    """A call that the program answers with a reason why it cannot."""


class Program:
    def __init__(self, path, timeout=60):
        self.path = str(pathlib.Path(path).resolve())
        self.timeout = timeout
        self.calls = 0
        self.known = collections.OrderedDict()  # recent answers
        self.orders = {}
        self.stopped = False
        self.lock = threading.Lock()

    def start(self, *arguments):
        if self.stopped:
            return Answer(3, "", "stopped")
        environment = dict(os.environ, NO_COLOR="1", PANPIPE_DATA=str(SHIPPED))
        self.calls += 1
        try:  # in a session of its own: Ctrl-C ends this program, and no call half-way
            done = subprocess.run(
                [self.path, *arguments],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self.timeout,
                env=environment,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            return Answer(3, "", f"no answer within {self.timeout} s")
        return Answer(done.returncode, done.stdout, done.stderr)

    def ask(self, call):
        """The answer of a call, perhaps a refusal. Recent answers are kept: properties share one side."""
        key = call.key()
        with self.lock:
            if key in self.known:
                self.known.move_to_end(key)
                return self.known[key]
        answer = self._ask(call)
        if answer.code not in IN_WORDS:
            raise Broken(call, answer)
        with self.lock:
            self.known[key] = answer
            if len(self.known) > 500:
                self.known.popitem(last=False)
        return answer

    def _ask(self, call):
        with tempfile.TemporaryDirectory(prefix="panpipe-properties-") as folder:
            file = write(call.scenario, folder, "scenario.yaml")
            options = list(call.options)
            if call.verb in ("estimate", "simulate", "plan") and "--json" not in options:
                options.append("--json")
            options = [option.replace("FOLDER/", folder + "/") for option in options]
            if call.form:
                out = os.path.join(folder, "written")
                answer = self.start(call.verb, file, *[o for o in options if o != "--json"], "-o", out)
                if not answer.accepted:
                    return answer
                if call.form == "plan.yaml":
                    return self.start(call.verb, file, *options, "--plan", os.path.join(out, "plan.yaml"))
                return self.start(call.verb, os.path.join(out, "scenario.yaml"), *options)
            return self.start(call.verb, file, *options)

    def answer(self, call):
        """The answer of a call that must be accepted."""
        answer = self.ask(call)
        if not answer.accepted:
            raise Refused(answer.error.strip() or answer.text[:200])
        return answer

    def kept(self, key, make):
        """What does not depend on a scenario's costs is asked once."""
        key = json.dumps(key)
        if key not in self.orders:
            self.orders[key] = make()
        if isinstance(self.orders[key], Refused):
            raise self.orders[key]
        return self.orders[key]

    def schedule(self, family, ranks, microbatches, options, form):
        arguments = [part for name, value in options for part in ("--option", f"{name}={str(value).lower()}")]
        answer = self.start("schedule", family, "--ranks", str(ranks), "--microbatches", str(microbatches), *arguments, form)
        return answer if answer.accepted else Refused(answer.error.strip() or "an order that is not legal")

    def order(self, family, ranks, microbatches, options=()):
        """The document of `panpipe schedule` for an order."""

        def make():
            answer = self.schedule(family, ranks, microbatches, options, "--json")
            return answer if isinstance(answer, Refused) else answer.document

        return self.kept(["schedule", family, ranks, microbatches, sorted(options)], make)

    def order_csv(self, family, ranks, microbatches, options=()):
        answer = self.schedule(family, ranks, microbatches, options, "--csv")
        if isinstance(answer, Refused):
            raise answer
        return answer.text

    def families(self):
        """name -> (description, options with their defaults), of the families whose orders do not depend on costs."""

        def make():
            found, name = {}, None
            for line in self.start("schedule", "--list").text.splitlines():
                words = line.split()
                if line and not line.startswith(" ") and len(words) > 1:
                    name = words[0]
                    found[name] = (" ".join(words[1:]), {})
                elif name and len(words) > 1 and words[0] == "--option":
                    key, _, value = line.strip()[len("--option ") :].partition("=")
                    found[name][1][key] = value
            return {name: entry for name, entry in found.items() if "searched" not in entry[0]}

        return self.kept(["families"], make)

    def schema(self):
        return json.loads(self.start("schema").text)

    def resolved(self, scenario):
        """Dotted key -> value as `panpipe check` prints it, of a scenario with all its defaults and the files that it names."""
        text = self.answer(Call("check", scenario, ("--all",))).text
        values, path = {}, []
        for line in text.splitlines():
            body = line.lstrip()
            depth = (len(line) - len(body)) // 2
            body = body[2:] if body.startswith("# ") else body
            key, colon, rest = body.partition(":")
            if not colon or " " in key or key.startswith("-"):
                continue
            value = rest.split(" # ")[0].strip()
            path = path[:depth] + [key]
            if value:
                values[".".join(path)] = value
        return values


def write(scenario, folder, name, head=""):
    """Writes a scenario and the files that it brings; the path of the scenario. A calibration's path is stated whole, because the
    program looks for it in the working folder."""
    folder = pathlib.Path(folder)
    for file, text in scenario.get(FILES, {}).items():
        (folder / file).write_text(text, encoding="utf-8")
    body = {key: value for key, value in scenario.items() if key != FILES}
    if not head:
        text = json.dumps(body)
        for file in scenario.get(FILES, {}):
            text = text.replace(json.dumps(file), json.dumps(str(folder / file)))
    else:
        text = head + "\n".join(f"{key}: {json.dumps(value)}" for key, value in body.items()) + "\n"
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def get(scenario, path, default=None):
    for key in path.split("."):
        if not isinstance(scenario, dict) or key not in scenario:
            return default
        scenario = scenario[key]
    return scenario


def put(scenario, path, value):
    """A copy of the scenario with one key stated."""
    key, _, rest = path.partition(".")
    inner = scenario.get(key)
    copy = dict(scenario)
    copy[key] = put(inner if isinstance(inner, dict) else {}, rest, value) if rest else value
    return copy


def drop(scenario, path):
    """A copy of the scenario without one key."""
    key, _, rest = path.partition(".")
    if key not in scenario:
        return scenario
    copy = dict(scenario)
    if rest:
        copy[key] = drop(copy[key], rest) if isinstance(copy[key], dict) else copy[key]
        if copy[key] == {}:
            del copy[key]
    else:
        del copy[key]
    return copy

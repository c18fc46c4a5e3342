"""Draws cases with Hypothesis, judges them, counts, and writes what broke a property as small scenarios."""

import argparse
import json
import os
import pathlib
import signal
import sys
import textwrap
import time
import zlib

try:
    import hypothesis
except ImportError:
    print("properties need Hypothesis: tools/setup installs it")
    sys.exit(77)

import hardware, memory, network, engines, searches, drawn  # noqa: E401, F401 (their properties)
from base import PROPERTIES, NotApplicable
from program import FILES, ROOT, Broken, Program, Refused, write


class Violated(Exception):
    """A demand that is broken, for Hypothesis to make small."""


class Enough(BaseException):  # which Hypothesis lets through
    """No more cases are drawn: the time is over, Ctrl-C was pressed, or so many were refused and none judged."""


PATIENCE = 50  # cases


def compare(prop, program, seed, examples, until=None, stopped=lambda: False):
    """(comparisons, case, finding): the smallest case that breaks the property, or None, None."""
    judged, refused, last = [0], [0], [None, None]

    @hypothesis.seed(zlib.crc32(f"{seed}/{prop.name}".encode()))
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        print_blob=False,
        report_multiple_bugs=False,
        verbosity=hypothesis.Verbosity.quiet,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )
    @hypothesis.given(prop.cases(program))
    def holds(case):
        if stopped() or until and time.monotonic() >= until and not last[1]:
            raise Enough
        try:
            finding = case and prop.judge(program, **case)
        except (NotApplicable, Refused):
            case = None
        if case is None:
            refused[0] += 1
            if not judged[0] and refused[0] >= PATIENCE:
                raise Enough
            hypothesis.reject()
        judged[0] += 1
        if finding:
            last[:] = case, finding  # the smallest is judged last
            raise Violated(finding.figures)

    try:
        holds()
    except (Violated, Enough, hypothesis.errors.Unsatisfiable):  # the last: every case was refused
        pass
    return judged[0], *last


def compare_until(prop, program, seed, until, stopped):
    """The same until a time, in parts of ten cases, or fewer where a case takes long."""
    compared, part = 0, 0
    while time.monotonic() < until and not stopped():
        more, case, finding = compare(prop, program, f"{seed}/{part}", max(1, round(10 * min(1, prop.weight))), until, stopped)
        compared, part = compared + more, part + 1
        if finding:
            return compared, case, finding
    return compared, None, None


class Count:
    def __init__(self):
        self.comparisons = self.violations = 0


class Run:
    def __init__(self, program, properties, seed, output=None):
        self.program, self.seed = program, seed
        self.output = pathlib.Path(output) if output else None
        self.counts = {prop.name: Count() for prop in properties}
        self.broken = []
        self.started = time.monotonic()
        self.stopped, self.counted = False, None  # counted: how many comparisons were asked for

    def go(self, properties, comparisons=None, seconds=None):
        """One property after the other; each has its share of the comparisons or of the time."""
        self.counted = comparisons
        shares = sum(prop.weight if comparisons else 1 for prop in properties)
        before = signal.signal(signal.SIGINT, self.stop)
        try:
            for prop in properties:
                if not self.stopped:
                    self.one(prop, comparisons and max(1, round(comparisons * prop.weight / shares)), seconds / shares)
        finally:
            signal.signal(signal.SIGINT, before)
        if self.stopped:
            return 130
        return 1 if self.violations() or self.idle() else 0

    def stop(self, *_):
        """Ctrl-C: ends before the next case, because Hypothesis cannot be interrupted everywhere. The second one ends at once."""
        if self.stopped:
            raise KeyboardInterrupt
        self.stopped = True

    def one(self, prop, comparisons, seconds):
        def stopped():
            return self.stopped

        try:
            if comparisons:
                found = compare(prop, self.program, self.seed, comparisons, stopped=stopped)
            else:
                found = compare_until(prop, self.program, self.seed, time.monotonic() + seconds, stopped)
            self.counts[prop.name].comparisons, case, finding = found
        except Broken as broken:
            self.broken.append((prop, broken))
            self.save(
                f"no-answer-{len(self.broken)}",
                broken.call.scenario,
                [broken.call],
                f"The program ended neither with an answer nor in words: {broken}",
                "",
            )
        else:
            if finding:
                self.book(prop, case["scenario"], finding)

    def idle(self):
        """Properties that compared nothing, although the run was as long as it was asked to be."""
        if self.stopped or not self.counted and any(count.comparisons for count in self.counts.values()):
            return []
        return [name for name, count in self.counts.items() if not count.comparisons]

    def violations(self):
        return sum(count.violations for count in self.counts.values()) + len(self.broken)

    def book(self, prop, scenario, finding):
        self.counts[prop.name].violations += 1
        file = self.save(f"{prop.name}-1", scenario, finding.calls, f"{prop.name}: {prop.claim}.", finding.figures)
        at = time.monotonic() - self.started
        print(f"{at:6.1f} s  {prop.name}: {finding.figures}" + (f"\n          {file}" if file else ""), flush=True)

    def save(self, name, scenario, calls, claim, figures):
        """Writes FOLDER/NAME.yaml, the first side, and NAME-2.yaml where the second side is another scenario."""
        if not self.output:
            return None
        self.output.mkdir(parents=True, exist_ok=True)
        files, lines = [], []
        for call in calls:
            if call.scenario not in files:
                files.append(call.scenario)
            lines.append(
                call.line(f"{name}{'' if files.index(call.scenario) == 0 else '-' + str(files.index(call.scenario) + 1)}.yaml")
            )
        about = textwrap.wrap(claim, 130) + ([f"found: {figures}"] if figures else []) + [f"seed {self.seed}"] + lines
        head = "".join(f"# {line}\n" for line in about)
        for i, side in enumerate(files):
            side = renamed(side, name)
            write(
                side,
                self.output,
                f"{name}{'' if i == 0 else f'-{i + 1}'}.yaml",
                head if i == 0 else f"# the other side of {name}.yaml\n",
            )
        return self.output / f"{name}.yaml"

    def table(self):
        width = max([len("property"), *(len(name) for name in self.counts)])
        lines = [f"{'property':{width}}  comparisons  violations"]
        for name, count in self.counts.items():
            lines.append(f"{name:{width}}  {count.comparisons:11}  {count.violations:10}")
        total = sum(count.comparisons for count in self.counts.values())
        lines.append(f"{'all':{width}}  {total:11}  {self.violations():10}")
        for name in self.idle():
            lines.append(f"{name}: nothing was compared; the program refuses what is drawn for it")
        for prop, broken in self.broken:
            lines.append(f"no answer while comparing {prop.name}: {broken}")
        lines.append(f"{self.program.calls} calls of the program in {time.monotonic() - self.started:.0f} s, seed {self.seed}")
        return "\n".join(lines)


def renamed(scenario, name):
    """Files that a scenario brings, named after the violation."""
    text = json.dumps({key: value for key, value in scenario.items() if key != FILES})
    files = {}
    for file, content in scenario.get(FILES, {}).items():
        files[f"{name}-{file}"] = content
        text = text.replace(json.dumps(file), json.dumps(f"{name}-{file}"))
    return {**json.loads(text), **({FILES: files} if files else {})}


def default_program():
    for build in ("release", "dev"):
        file = ROOT / "build" / build / "bin" / "panpipe"
        if file.exists():
            return file
    return ROOT / "build/release/bin/panpipe"


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="tools/properties",
        description="Random comparisons of predictions: what must hold between two answers does, or a small scenario shows that it does not.",
    )
    parser.add_argument("--seconds", type=float, help="how long to compare (default 60, unless --comparisons is given)")
    parser.add_argument("--comparisons", type=int, help="how many to make instead; the same seed then draws the same")
    parser.add_argument("--seed", default="1", help="what is drawn depends on it alone (1)")
    parser.add_argument("--panpipe", default=None, help="the program (build/release/bin/panpipe)")
    parser.add_argument("--property", action="append", default=[], help="only this property; repeat for more")
    parser.add_argument("--output", help="folder for the scenarios that violate a property, made small")
    parser.add_argument("--list", action="store_true", help="print the properties with their tolerances and end")
    given = parser.parse_args(arguments)
    if given.list:
        for prop in PROPERTIES:
            print(textwrap.fill(f"{prop.name}: {prop.claim}.", 120, subsequent_indent="  "))
            print(textwrap.fill(f"  tolerance {prop.tolerance or 'none'}", 120, subsequent_indent="  "))
        return 0
    known = {prop.name: prop for prop in PROPERTIES}
    for name in given.property:
        if name not in known:
            parser.error(f"no property '{name}'; there are {', '.join(known)}")
    program = pathlib.Path(given.panpipe) if given.panpipe else default_program()
    if not os.access(program, os.X_OK) or program.is_dir():
        parser.error(f"'{program}' is no program; build it with 'make build', or name one with --panpipe")
    if given.seconds is not None and given.seconds <= 0 or given.comparisons is not None and given.comparisons < 1:
        parser.error("--seconds and --comparisons are above 0")
    chosen = [known[name] for name in given.property] or PROPERTIES
    run = Run(Program(program), chosen, given.seed, given.output)
    code = run.go(chosen, given.comparisons, given.seconds or 60)
    print(run.table())
    if code == 130:
        print("stopped; what was found so far stands above", file=sys.stderr)
    return 1 if run.violations() else code

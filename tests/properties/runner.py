"""Draws scenarios, judges them, counts, and writes what broke a property as small scenarios."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import sys
import textwrap
import time

from checks import PROPERTIES, NotApplicable
from generator import accepted
from minimise import minimise
from program import FILES, ROOT, Broken, Program, Refused, write


class Count:
    def __init__(self):
        self.comparisons = self.violations = self.refused = 0
        self.kept = []  # (scenario, parameters, finding), small


def comparison(prop, program, seed, index):
    """One comparison of a property: (scenario, parameters, finding or None), or None where nothing that it applies to was drawn."""
    rng = random.Random(f"{seed}/{prop.name}/{index}")
    for _ in range(12):
        scenario = accepted(rng, program, prop.hinted(rng))
        if scenario is None:
            return None
        try:
            parameters = prop.draw(rng, program, scenario)
            return scenario, parameters, prop.judge(program, scenario, parameters)
        except (NotApplicable, Refused):
            continue
    return None


def turns(properties):
    """Properties in turn, with a number each. A search takes as long as twenty other comparisons, and has every fourth turn."""
    number = 0
    while True:
        for prop in properties:
            if not prop.searches or number % 4 == 0 or all(p.searches for p in properties):
                for again in range(prop.turns):
                    yield prop, number * prop.turns + again
        number += 1


class Run:
    def __init__(self, program, properties, seed, seconds=None, comparisons=None, small=3, output=None, jobs=2):
        self.program, self.seed = program, seed
        self.until = time.monotonic() + seconds if seconds else None
        self.most, self.small, self.jobs = comparisons, small, jobs
        self.output = pathlib.Path(output) if output else None
        self.counts = {prop.name: Count() for prop in properties}
        self.broken = []
        self.started = time.monotonic()
        self.stopped = False

    def over(self, done):
        return self.stopped or (self.most is not None and done >= self.most) or (self.until is not None and time.monotonic() >= self.until)

    def one(self, prop, index):
        """A comparison, made small at once where it is one of the first violations."""
        if self.stopped or (self.until is not None and time.monotonic() >= self.until):
            return prop, None
        try:
            found = comparison(prop, self.program, self.seed, index)
        except Broken as broken:
            return prop, broken
        if found and found[2] and self.counts[prop.name].violations < self.small:
            scenario, finding = minimise(prop, self.program, found[0], found[1], found[2])
            found = scenario, found[1], finding
        return prop, found

    def go(self, properties):
        done, waiting, source = 0, set(), turns(properties)
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            try:
                while not self.over(done) or waiting:
                    while len(waiting) < 2 * self.jobs and not self.over(done):
                        waiting.add(pool.submit(self.one, *next(source)))
                        done += 1
                    ended, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
                    for future in ended:
                        self.book(*future.result())
            except KeyboardInterrupt:
                self.stopped = self.program.stopped = True
                for future in waiting:
                    future.cancel()
                return 130
        return 1 if self.violations() or self.idle() else 0

    def go_drawn(self, properties, comparisons=None, seconds=None):
        """Properties whose cases Hypothesis draws, one after the other; each has its share of the comparisons or of the time."""
        from drawn import run, run_until

        shares = sum(prop.weight if comparisons else 1 for prop in properties)
        for prop in properties:
            try:
                if comparisons:
                    compared, case, finding = run(prop, self.program, self.seed, max(2, round(comparisons * prop.weight / shares)))
                else:
                    compared, case, finding = run_until(prop, self.program, self.seed, time.monotonic() + seconds / shares)
            except Broken as broken:
                self.book(prop, broken)
            except KeyboardInterrupt:
                self.stopped = True
                return 130
            else:
                count = self.counts[prop.name]
                count.comparisons += compared
                if not compared:
                    count.refused += 1
                if finding:
                    count.comparisons -= 1  # booked with its finding
                    self.book(prop, (case["scenario"], case, finding))
        return 1 if self.violations() or self.idle() else 0

    def idle(self):
        """Properties that compared nothing, although the run was as long as it was asked to be."""
        if self.stopped or self.most is None and any(count.comparisons for count in self.counts.values()):
            return []
        return [name for name, count in self.counts.items() if not count.comparisons]

    def violations(self):
        return sum(count.violations for count in self.counts.values()) + len(self.broken)

    def book(self, prop, found):
        count = self.counts[prop.name]
        if found is None:
            count.refused += 1
            return
        if isinstance(found, Broken):
            self.broken.append((prop, found))
            self.save(f"no-answer-{len(self.broken)}", found.call.scenario, [found.call], f"The program ended neither with an answer nor in words: {found}", "")
            return
        scenario, parameters, finding = found
        count.comparisons += 1
        if not finding:
            return
        count.violations += 1
        if len(count.kept) < self.small and all((scenario, parameters) != kept[:2] for kept in count.kept):
            count.kept.append((scenario, parameters, finding))
            file = self.save(f"{prop.name}-{len(count.kept)}", scenario, finding.calls, f"{prop.name}: {prop.says}.", finding.figures)
            at = time.monotonic() - self.started
            print(f"{at:6.1f} s  {prop.name}: {finding.figures}" + (f"\n          {file}" if file else ""), flush=True)

    def save(self, name, scenario, calls, says, figures):
        """Writes FOLDER/NAME.yaml, the first side, and NAME-2.yaml where the second side is another scenario."""
        if not self.output:
            return None
        self.output.mkdir(parents=True, exist_ok=True)
        files, lines = [], []
        for call in calls:
            if call.scenario not in files:
                files.append(call.scenario)
            lines.append(call.line(f"{name}{'' if files.index(call.scenario) == 0 else '-' + str(files.index(call.scenario) + 1)}.yaml"))
        about = textwrap.wrap(says, 130) + ([f"found: {figures}"] if figures else []) + [f"seed {self.seed}"] + lines
        head = "".join(f"# {line}\n" for line in about)
        for i, side in enumerate(files):
            side = renamed(side, name)
            write(side, self.output, f"{name}{'' if i == 0 else f'-{i + 1}'}.yaml", head if i == 0 else f"# the other side of {name}.yaml\n")
        return self.output / f"{name}.yaml"

    def table(self):
        width = max([len("property"), *(len(name) for name in self.counts)])
        lines = [f"{'property':{width}}  comparisons  violations"]
        for name, count in self.counts.items():
            lines.append(f"{name:{width}}  {count.comparisons:11}  {count.violations:10}")
        total = sum(count.comparisons for count in self.counts.values())
        lines.append(f"{'all':{width}}  {total:11}  {self.violations():10}")
        for name in self.idle():
            lines.append(f"{name}: nothing was compared in {self.counts[name].refused} turns; the program refuses what is drawn for it")
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


def hypothesis_properties():
    """The properties of drawn.py, and why there are none."""
    try:
        import drawn
    except ImportError as error:
        if error.name != "hypothesis":
            raise
        return [], "the properties that Hypothesis draws are left out: tools/setup --ci installs it"
    return drawn.PROPERTIES, ""


def main(arguments):
    parser = argparse.ArgumentParser(prog="tools/properties", description="Random comparisons of predictions: what must hold between two answers does, or a small scenario shows that it does not.")
    parser.add_argument("--seconds", type=float, help="how long to compare (default 60, unless --comparisons is given)")
    parser.add_argument("--comparisons", type=int, help="how many turns to take instead; the same seed then draws the same")
    parser.add_argument("--seed", default="1", help="what is drawn depends on it alone (1)")
    parser.add_argument("--panpipe", default=None, help="the program (build/release/bin/panpipe)")
    parser.add_argument("--property", action="append", default=[], help="only this property; repeat for more")
    parser.add_argument("--output", help="folder for the scenarios that violate a property, made small")
    parser.add_argument("--small", type=int, default=3, help="violations of each property that are made small and written (3); the others are counted")
    parser.add_argument("--jobs", type=int, default=2, help="calls at the same time (2)")
    parser.add_argument("--list", action="store_true", help="print the properties with their tolerances and end")
    parser.add_argument("--drawn-by", choices=("own", "hypothesis"), help="only properties whose cases the own generator draws, or Hypothesis (exit code 77 where it is absent)")
    given = parser.parse_args(arguments)
    by_hypothesis, absent = hypothesis_properties()
    if given.drawn_by == "hypothesis" and absent:
        print(absent)
        return 77
    own, by_hypothesis = [] if given.drawn_by == "hypothesis" else PROPERTIES, [] if given.drawn_by == "own" else by_hypothesis
    if given.list:
        for prop in [*own, *by_hypothesis]:
            print(textwrap.fill(f"{prop.name}: {prop.says}.", 120, subsequent_indent="  "))
            print(textwrap.fill(f"  tolerance {prop.tolerance or 'none'}", 120, subsequent_indent="  "))
        return 0
    known = {prop.name: prop for prop in [*own, *by_hypothesis]}
    for name in given.property:
        if name not in known:
            parser.error(f"no property '{name}'; there are {', '.join(known)}")
    program = pathlib.Path(given.panpipe) if given.panpipe else default_program()
    if not os.access(program, os.X_OK) or program.is_dir():
        parser.error(f"'{program}' is no program; build it with 'make build', or name one with --panpipe")
    if given.seconds is not None and given.seconds <= 0 or given.comparisons is not None and given.comparisons < 1:
        parser.error("--seconds and --comparisons are above 0")
    seconds = given.seconds if given.seconds or given.comparisons else 60
    chosen = [known[name] for name in given.property] or [*own, *by_hypothesis]
    own = [prop for prop in chosen if prop in own]
    by_hypothesis = [prop for prop in chosen if prop not in own]

    def part(whole, properties):
        return whole and whole * len(properties) / len(chosen)
    turns_of_own = given.comparisons and max(1, round(part(given.comparisons, own)))
    run = Run(Program(program), chosen, given.seed, part(seconds, own), turns_of_own, given.small, given.output, given.jobs)
    code = run.go(own) if own else 0
    if by_hypothesis and code != 130:
        code = run.go_drawn(by_hypothesis, part(given.comparisons, by_hypothesis), part(seconds, by_hypothesis))
    if absent and not given.property and not given.drawn_by:
        print(absent, file=sys.stderr)
    print(run.table())
    if code == 130:
        print("stopped; what was found so far stands above", file=sys.stderr)
    return 1 if run.violations() else code


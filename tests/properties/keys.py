#!/usr/bin/env python3
"""Every numeric or yes-no key of scenario, cluster, device, framework and calibration acts on some figure, or is refused.

    keys.py PANPIPE [KEY...]

The keys are found, not listed: those that `panpipe schema` declares, what `panpipe check` prints of the scenarios below with all defaults,
what the shipped calibrations state, and what the tables of docs/ name of calibrations and examples of clusters. Each is changed in one
scenario after the other until an engine's answer changes. What the schema calls a key of training acts on no prediction.
"""

import json
import pathlib
import re
import sys

from program import ROOT, Call, Program, drop, get, put
from shipped import names, numbers, scaled, with_calibration, with_framework

# Legal values of documented keys of calibrations that no shipped file states and whose default is no number.
VALUES = {
    "calibration.launch_contention": 1,
    "calibration.gemm_fill": 96,
    "calibration.fp8_gemm_efficiency": 0.5,
    "calibration.fp4_gemm_efficiency": 0.4,
}
FACTORS = (1.5, 0.5, 8, 0.1, 0.01)


def scenarios():
    """Those of the file, each over its base; null: without that key. Together they use every part of the model: paths of every class,
    reductions inside and across nodes, fused and unfused attention, products outside the tensor cores, woven groups, copies to the host,
    split backwards, every kind of model."""
    file = pathlib.Path(__file__).with_name("key_scenarios.json")
    found = json.loads(file.read_text(encoding="utf-8").replace("<root>", str(ROOT)))
    for changes in found["scenarios"]:
        scenario = {key: value for key, value in {**found["base"], **changes}.items() if value is not None}
        if isinstance(scenario["workload"], str):
            scenario["workload"] = found["workloads"][scenario["workload"]]
        yield scenario


SCENARIOS = list(scenarios())


def declared(schema):
    """key -> (example or default of a number, a share, a quantity or a truth, "" if there is none, None for any other value; what it acts
    on), by the schema."""
    found = {}

    def walk(value, path, acts_on):
        acts_on = value.get("x-acts-on", acts_on)
        forms = value.get("anyOf", [value])
        quantity = "examples" in value and any("const" in form for form in forms)
        single = [
            form
            for form in forms
            if form.get("type") in ("integer", "number", "boolean") or "examples" in form and "anyOf" in form
        ]
        stated = value.get("examples", [value.get("default")])[-1]
        if path:
            found[path] = (("" if stated is None else stated) if single or quantity else None, acts_on)
        for form in forms:
            for name, inner in form.get("properties", {}).items():
                walk(inner, f"{path}.{name}".lstrip("."), acts_on)

    walk(schema, "", "predictions")
    return found


def documented():
    """key -> example or default, of the tables of calibrations and the example of a cluster in the documents."""
    found = {}
    for file, prefix, column in (
        ("docs/models/calibration.md", "calibration.", 2),
        ("docs/models/collectives.md", "calibration.", 2),
    ):
        inside = False
        for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if not cells:
                inside = False
            elif cells[0].startswith("key"):
                inside = True
            elif inside and not cells[0].startswith("---"):
                keys = [
                    re.sub(r"[`\s]|[a-z]$", lambda m: "" if m.group() in "` " else m.group(), key) for key in cells[0].split(",")
                ]
                defaults = cells[column].strip("`").split(", ")
                for i, key in enumerate(keys):
                    key = re.sub(r"collective_latencya$", "collective_latency", key)
                    found.setdefault(prefix + key, defaults[min(i, len(defaults) - 1)])
    text = (ROOT / "docs/models/topology.md").read_text(encoding="utf-8")
    block = re.search(r"```yaml\n(panpipe: 1\nkind: cluster.*?)```", text, re.S).group(1)
    above = ""
    for line in block.splitlines():
        depth, key = len(line) - len(line.lstrip()), line.strip().split(":")[0]
        if key in ("sources", "panpipe", "kind") or line.strip().startswith("-"):
            continue
        above = key if depth == 0 else above
        path = key if depth == 0 else f"{above}.{key}"
        for name, value in re.findall(r"(\w+): ([0-9][0-9.]*(?: [A-Za-z%/]+)?)(?=[,}\s]|$)", line[line.index(":") :]):
            found.setdefault(f"cluster.{path}.{name}", value)
        if re.fullmatch(r"\s*\w+: [0-9]+(\s+#.*)?", line):
            found.setdefault(f"cluster.{path}", line.split(":")[1].split("#")[0].strip())
    return found


def other_values(value):
    """Other legal values, those that are most likely to act first."""
    value = str(value)
    if value in ("true", "false"):
        return [value == "false"]
    if scaled(value, 1) is None:
        return []
    whole = re.fullmatch(r"\d+", value)
    if whole:
        n = int(value)
        return [
            m for m in dict.fromkeys((2 * n, n + n // 2 + n % 2, n + 1, n // 2, 1, 0.5, 0, n - 1, 8 * n)) if m != n and m >= 0
        ]
    if float(value.split()[0]) == 0:
        unit = value.partition(" ")[2]
        return [f"5 {unit}", f"500 {unit}"] if unit else [0.1, 0.5, 1]
    return [scaled(value, factor) for factor in FACTORS]


class Keys:
    def __init__(self, program):
        self.program = program
        self.resolved = [program.resolved(scenario) for scenario in SCENARIOS]
        self.declared = declared(program.schema())

    def all(self):
        """key -> its value where nothing else states one."""
        found = {}
        for values in self.resolved:
            for path, value in values.items():
                if ".sources" in path or path.endswith("panpipe") or "[" in path or path == "warning":
                    continue
                if other_values(value):
                    found.setdefault(path, None)
        for name in names("calibrations"):
            for number, value in numbers("calibrations", name).items():
                found.setdefault(f"calibration.{number}", value)
        for key, (value, _) in self.declared.items():
            if value is not None and not any(key in values for values in self.resolved):
                found.setdefault(key, value)
        for key, value in documented().items():
            if key not in found and not any(key in values for values in self.resolved):
                found[key] = VALUES.get(key, value)
        return found

    def figures(self, call):
        answer = self.program.ask(call)
        if answer.code == 1:  # the plan is read, and has no answer: a limit is passed
            return "none", ""
        if not answer.accepted:
            return None, answer.error
        document = answer.document
        return (document["metrics"], document["memory"]), ""

    def changed(self, i, key, stated):
        """Pairs of scenarios that differ in this key alone."""
        scenario, values = SCENARIOS[i], self.resolved[i]
        kind, _, name = key.partition(".")
        if kind in ("calibration", "framework") and name:
            file = values.get("cluster.device.calibration" if kind == "calibration" else "framework")
            folder = f"{kind}s"
            if not file or file not in names(folder):
                return
            own = numbers(folder, file).get(name)
            value = own if own is not None else stated
            if value is None:
                return
            for other in ([] if own is not None else [value]) + other_values(value):
                yield scenario, (with_calibration if kind == "calibration" else with_framework)(
                    scenario, file, name, str(other).lower() if isinstance(other, bool) else other
                )
            return
        value = values.get(key, stated)
        if value is None or key not in values and key.startswith("cluster.") and get(scenario, "cluster.file") is None:
            return
        for other in ([value] if key not in values else []) + other_values(value):
            if key == "batch.global":  # stands in the place of the other count
                yield scenario, put(drop(scenario, "batch.microbatches"), key, other)
            elif kind == "optimizer":
                named = {**scenario, "optimizer": {"name": "momentum" if name == "momentum" else "adamw"}}
                yield named, put(named, key, other)
            else:
                yield scenario, put(scenario, key, other)

    def fate(self, key, stated):
        """acts, refused or dead; and why it was refused."""
        accepted, reason = False, "no scenario of the set has it"
        ignored = self.declared.get(key, (None, "predictions"))[1] != "predictions"  # a sample is enough
        for verb in (("estimate",),) if ignored else (("estimate",), ("simulate", "--backend", "flow")):
            for i in range(0, len(SCENARIOS), 5 if ignored else 1):
                for scenario, other in self.changed(i, key, stated):
                    after, error = self.figures(Call(verb[0], other, verb[1:]))
                    if after is None:
                        reason = error.strip().splitlines()[0] if error.strip() else reason
                        continue
                    before, _ = self.figures(Call(verb[0], scenario, verb[1:]))
                    accepted = accepted or before is not None
                    if before is not None and after != before:
                        return "acts", ""
        return ("dead", "") if accepted else ("refused", reason)


def main(path, wanted=()):
    program = Program(path)
    keys = Keys(program)
    found = keys.all()
    unknown = [key for key in wanted if key not in found]
    if unknown:
        print(f"no key {', '.join(unknown)}; there are {', '.join(sorted(found))}")
        return 2
    fates = {"acts": 0, "refused": 0, "dead": 0, "by design": 0}
    wrong = []
    for key, stated in found.items():
        if wanted and key not in wanted:
            continue
        if stated is not None and not other_values(stated):
            wrong.append(
                f"{key}: no shipped file states it and '{stated}' is no number: give its row an example, or a calibration's key a value in VALUES of {pathname()}"
            )
            continue
        fate, reason = keys.fate(key, stated)
        acts_on = keys.declared.get(key, (None, "predictions"))[1]
        if acts_on != "predictions" and fate == "dead":
            fate = "by design"
        elif acts_on != "predictions" and fate == "acts":
            wrong.append(f"{key} acts, although its row says that it acts on {acts_on}")
        elif fate == "dead":
            wrong.append(
                f"{key} changes no figure of any of {len(SCENARIOS)} scenarios in either engine: let it act, refuse it, or say in its row what it acts on"
            )
        fates[fate] += 1
        if wanted or fate == "refused":
            print(f"{key}: {fate}{': ' + reason if reason else ''}")
    print("\n".join(wrong))
    print(
        f"{sum(fates.values())} keys: "
        + ", ".join(f"{number} {fate}" for fate, number in fates.items())
        + f"; {program.calls} calls"
    )
    return 1 if wrong or not fates["acts"] else 0


def pathname():
    return "tests/properties/keys.py"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

"""The schema of scenarios against the reader: the keys of the documents, and the scenarios and clusters that are shipped.

    schema_test.py PANPIPE      exit code 77 (skipped) without python3-jsonschema and python3-yaml"""
import json
import re
import subprocess
import sys

try:
    import jsonschema
    import yaml
except ImportError as error:
    print(f"skipped: {error}; apt-get install python3-jsonschema python3-yaml")
    sys.exit(77)

from keys import NOT_NUMBERS, SCENARIOS, documented
from program import ROOT


class Loader(yaml.SafeLoader):
    """YAML 1.2's numbers: 1e-8 is one."""


Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?$"), list("-+0123456789."))
Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"[-+]?\d+$"), list("-+0123456789"))


def maps_of(schema):
    return [form for form in schema.get("anyOf", [schema]) if form.get("type") == "object"]


def keys_of(schema, path=""):
    """Every path of the schema, but of items of lists."""
    for form in maps_of(schema):
        for name, value in form["properties"].items():
            yield path + name
            yield from keys_of(value, f"{path}{name}.")


def refused(program, path):
    """Does the reader refuse this key as unknown?"""
    # A schedule has a name or a file.
    change = "schedule={csv: x}" if path == "schedule.csv" else f"{path}=1"
    said = subprocess.run([program, "check", str(ROOT / "scenarios/examples/gpt2-large-rtx3090x8.yaml"), "--set", change], capture_output=True, text=True)
    return "unknown key" in said.stderr


def main(program):
    schema = json.loads(subprocess.run([program, "schema"], check=True, capture_output=True, text=True).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    faults, known = [], set(keys_of(schema))

    files = sorted([*(ROOT / "scenarios/examples").glob("*.yaml"), *(ROOT / "scenarios/runs").glob("*.yaml"), *(ROOT / "validation").rglob("*.yaml")])
    documents = [(str(file.relative_to(ROOT)), yaml.load(file.read_text(encoding="utf-8"), Loader)) for file in files]
    scenarios = [(name, value) for name, value in documents if isinstance(value, dict) and {"panpipe", "workload", "batch"} <= set(value) and "kind" not in value]
    scenarios += [(f"scenario {i} of keys.py", value) for i, value in enumerate(SCENARIOS)]
    for name, value in scenarios:
        for error in validator.iter_errors(value):
            best = jsonschema.exceptions.best_match([error])
            faults.append(f"{name}: {best.json_path}: {best.message[:200]}")
    wrong = {"a key that is none": {**SCENARIOS[0], "shedule": "1f1b"}, "no batch": {k: v for k, v in SCENARIOS[0].items() if k != "batch"},
             "an unknown precision": {**SCENARIOS[0], "precision": "fp12"}, "a degree of 0": {**SCENARIOS[0], "parallel": {"data": 0}}}
    faults += [f"{what} passes" for what, value in wrong.items() if validator.is_valid(value)]

    documents_name = {*documented(), *NOT_NUMBERS} - {"auto"}  # `auto` is a value
    for key in sorted(documents_name):
        if key.split(".")[0] not in ("calibration", "framework") and key not in known:
            faults.append(f"the documents name the key {key}, the schema does not")
    faults += [f"the schema names {key}, which the reader refuses" for key in sorted(known) if not key.startswith(("cluster.", "workload.")) and refused(program, key)]
    print("\n".join(faults))
    print(f"{len(known)} keys, {len(scenarios)} scenarios, {len(documents_name)} keys of documents, {len(faults)} faults")
    return 1 if faults or len(scenarios) < 30 or len(known) < 150 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

"""The schema of scenarios against the reader: every key that it declares, and the scenarios and clusters that are shipped.

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

from keys import SCENARIOS
from program import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from keys_page import keys_of


class Loader(yaml.SafeLoader):
    """YAML 1.2's numbers: 1e-8 is one."""


Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?$"), list("-+0123456789.")
)
Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"[-+]?\d+$"), list("-+0123456789"))


# Scenarios in which each key is looked for, until one has it: what stands in place of the others decides which keys a map has.
GPT = str(ROOT / "scenarios/examples/gpt2-large-rtx3090x8.yaml")
FORMS = {
    "batch": ["batch.lengths={samples: [512], tokens: 512}"],
    "cluster": ["cluster={devices: 8, memory: 24 GiB, link: {}}", "cluster={device: {file: a100-80g-sxm}, devices_per_node: 8}"],
    "workload": [
        "workload={model: vit}",
        "workload={model: mllm}",
        "workload={model: llama}",
        "workload={layers: x}",
        "workload={pt2: x}",
        "workload={config: {}}",
    ],
    "schedule": [
        f"schedule.name={name}"
        for name in ("interleaved-1f1b", "pfeife", "slimpipe", "zb-auto", "auto-memory", "roundpipe", "pipedream-2bw")
    ]
    + ["schedule={csv: x}"],
    "optimizer": ["optimizer={name: adamw}", "optimizer={name: momentum}"],
}


def refused(program, path):
    """Does the reader refuse this key as unknown in every form of its map?"""
    top = path.split(".")[0]
    for form in [[], *(["--set", each] for each in FORMS.get(top, []))]:
        said = subprocess.run([program, "check", GPT, *form, "--set", f"{path}=1"], capture_output=True, text=True)
        last = path.split(".")[-1]
        if said.returncode not in (0, 1, 2):
            return True
        if (
            f"unknown key '{last}'" not in said.stderr
            and f"has no '{last}'" not in said.stderr
            and f"has no option '{last}'" not in said.stderr
        ):
            return False
    return True


def main(program):
    schema = json.loads(subprocess.run([program, "schema"], check=True, capture_output=True, text=True).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    faults, known = [], {path for path, _, _ in keys_of(schema)}

    files = sorted(
        [
            *(ROOT / "scenarios/examples").glob("*.yaml"),
            *(ROOT / "scenarios/runs").glob("*.yaml"),
            *(ROOT / "validation").rglob("*.yaml"),
        ]
    )
    documents = [(str(file.relative_to(ROOT)), yaml.load(file.read_text(encoding="utf-8"), Loader)) for file in files]
    scenarios = [
        (name, value)
        for name, value in documents
        if isinstance(value, dict) and {"panpipe", "workload", "batch"} <= set(value) and "kind" not in value
    ]
    scenarios += [(f"scenario {i} of keys.py", value) for i, value in enumerate(SCENARIOS)]
    for name, value in scenarios:
        for error in validator.iter_errors(value):
            best = jsonschema.exceptions.best_match([error])
            faults.append(f"{name}: {best.json_path}: {best.message[:200]}")
    wrong = {
        "a key that is none": {**SCENARIOS[0], "shedule": "1f1b"},
        "no batch": {k: v for k, v in SCENARIOS[0].items() if k != "batch"},
        "an unknown precision": {**SCENARIOS[0], "precision": "fp12"},
        "a degree of 0": {**SCENARIOS[0], "parallel": {"data": 0}},
    }
    faults += [f"{what} passes" for what, value in wrong.items() if validator.is_valid(value)]

    asked = sorted(key for key in known if "[" not in key)
    faults += [f"the schema names {key}, which the reader refuses" for key in asked if refused(program, key)]
    print("\n".join(faults))
    print(f"{len(known)} keys, {len(scenarios)} scenarios, {len(faults)} faults")
    return 1 if faults or len(scenarios) < 30 or len(known) < 150 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

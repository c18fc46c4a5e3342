#!/usr/bin/env python3
"""Checks what the verbs print with --json against the schemas that `panpipe schema NAME` prints: every document has one, and a field
that its schema does not know is a fault."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
program = str(pathlib.Path(sys.argv[1]).resolve())
EXAMPLES = "scenarios/examples"
GPT, LLAMA = f"{EXAMPLES}/gpt2-large-rtx3090x8.yaml", f"{EXAMPLES}/llama-3-8b-h100.yaml"
# {folder}: a temporary one.
PREPARED = [
    f"estimate {GPT} -o {{folder}}/a",
    f"estimate {GPT} --set schedule=1f1b -o {{folder}}/b",
    "import log tests/jobs/data/megatron.log --cluster dgx-a100-80g -o {folder}/job.yaml",
    f"estimate {GPT} --memory-snapshot {{folder}}/step.pickle",
    f"import piper {EXAMPLES}/piper-input.json --devices 4 --memory 4GB --bandwidth 25GB/s --microbatches 16 -o {{folder}}/piper.yaml",
]
PRINTED = {
    "result": [
        f"estimate {GPT} --timeline",
        f"simulate {GPT} --timeline",
        f"estimate {EXAMPLES}/gpt3-175b-a100x64.yaml",
        f"estimate {EXAMPLES}/mixtral-8x7b-h100x64.yaml",
        f"estimate {LLAMA} --set trainer=deepspeed --set parallel.tensor=2 --set run.tokens=10B",
        f"estimate {LLAMA} --set trainer=nemo --set trainer.release=1.2 --set parallel.context=2 --set parallel.data=4",
        f"estimate {GPT} --set schedule.offload=full",
        f"estimate {GPT} --set batch.micro=4",
        f'estimate {LLAMA} --set cluster.slow=[{{"device":3,"factor":0.9}}] --set cluster.degraded=[{{"link":"node0.nic3","factor":0.5}}]',
        "estimate {folder}/job.yaml --evidence tests/jobs/data/megatron.log",
    ],
    "plan": [
        f"plan {GPT} --set schedule=auto --set recompute=auto",
        f"plan {GPT} --set schedule=auto --set parallel={{}} --for megatron",
        f"plan {LLAMA} --set parallel.data=auto --set run.tokens=1B",
        f"plan {GPT} --method pfeife",
        "plan {folder}/piper.yaml --method piper",
        f"plan {GPT} --set usable=1%",
    ],
    "sizes": [
        f"plan {LLAMA} --set parallel.data=auto --deadline 7d --tokens 10B",
        f"plan {LLAMA} --set parallel.data=auto --gpus 8,16 --tokens 1B",
    ],
    "largest": [
        f"estimate {GPT} --largest micro --device rtx-3090,a100-40g-sxm",
        f"estimate {GPT} --largest sequence",
        f"plan {GPT} --set schedule=auto --largest micro",
    ],
    "sweep": [f"sweep {GPT} --over schedule=1f1b,zb-h1 --over batch.micro=1,2,64"],
    "arena": [
        "arena",
        "arena pipedream-2bw roundpipe stp --alone --clusters h100x8 --cost-ratios 8k:head=0.3,8k:lengths=2/1",
    ],
    "schedule": [
        "schedule 1f1b --ranks 4 --microbatches 8",
        "schedule zb-auto --ranks 4 --microbatches 8 --costs F=10,I=12,W=8,comm=1",
    ],
    "memory-sweep": ["schedule v-auto --ranks 4 --microbatches 8 --memory-sweep"],
    "evidence-next": [f"evidence next {GPT}"],
    "support": [f"support {GPT}", f"support {EXAMPLES}/mixtral-8x7b-h100x64.yaml"],
    "validation": ["validate validation/published/fp8.csv"],
    "comparison": ["compare {folder}/a {folder}/a", "compare {folder}/a {folder}/b --metrics-only"],
    "doctor": ["doctor"],
    "forecast": [
        "forecast tests/jobs/data/megatron.log --cluster dgx-a100-80g --steps 20000",
        f"forecast tests/jobs/data/megatron.log --scenario {LLAMA}",
    ],
    "device": ["measure-device --device cpu --minutes 0.05 -o {folder}/device.yaml"],
    "selftest": ["selftest --quick --device cpu -o {folder}/selftest"],
    "links": ["check scenarios/clusters/rtx3090x8.yaml --links", "check scenarios/clusters/dgx-a100-80g.yaml --links"],
    "units": [f"check {GPT} --units"],
    "costs": [f"check {GPT} --costs", f"check {EXAMPLES}/mixtral-8x7b-h100x64.yaml --costs"],
    "log": ["import log tests/jobs/data/megatron.log", "import log tests/jobs/data/megatron.log --cluster dgx-a100-80g"],
    "kernels": ["import kineto tests/jobs/data/kineto-2-steps.json"],
    "memory": ["import memory {folder}/step.pickle", f"import memory {{folder}}/step.pickle --scenario {GPT}"],
    "import": [
        f"import megatron {EXAMPLES}/jobs/megatron-llama-3-70b.sh",
        f"import megatron {EXAMPLES}/jobs/megatron-slurm.sh",
    ],
    "list": ["list"]
    + [
        f"list {kind}"
        for kind in ("models", "clusters", "devices", "schedules", "trainers", "frameworks", "calibrations", "prices")
    ],
}
# Documents that go into a file.
WRITTEN = {
    "order-certificate": (
        "arena auto-memory,ways=both --alone --clusters none --by me --certificate {folder}/order.json",
        "order.json",
    )
}


def printed(arguments):
    return subprocess.run([program, *arguments.split(" ")], cwd=root, capture_output=True, text=True, check=False)


def named_in_the_sources():
    """The documents that the program's sources write: "panpipe-result/1"."""
    found = set()
    for folder in ("app", "cli", "costmodel", "jobs", "planner", "present", "schedule", "study", "validation"):
        for file in (root / folder).rglob("*.cpp"):
            found |= set(re.findall(r'"schema", "panpipe-([a-z-]+)/1"', file.read_text(encoding="utf-8")))
    return found


def faults_of(name, schema, arguments, jsonschema):
    run = printed(arguments + " --json")
    try:
        document = json.loads(run.stdout)
    except json.JSONDecodeError:
        return [f"{name}: panpipe {arguments} --json prints no document: {run.stderr.strip() or run.stdout[:200]}"]
    return differences(name, schema, arguments + " --json", document, jsonschema)


def differences(name, schema, arguments, document, jsonschema):
    validator = jsonschema.Draft202012Validator(schema)
    return [
        f"{name}: panpipe {arguments}: {'/'.join(map(str, fault.absolute_path))}: {fault.message[:300]}"
        for fault in validator.iter_errors(document)
    ]


def main():
    try:
        import jsonschema
    except ImportError:
        print("skipped: the package jsonschema is not installed: make setup")
        return 77
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        for command in PREPARED:
            printed(command.format(folder=folder))
        for name, commands in PRINTED.items():
            schema = json.loads(printed(f"schema {name}").stdout)
            jsonschema.Draft202012Validator.check_schema(schema)
            for command in commands:
                problems += faults_of(name, schema, command.replace("{folder}", folder), jsonschema)
        for name, (command, file) in WRITTEN.items():
            printed(command.format(folder=folder))
            document = json.loads(pathlib.Path(folder, file).read_text())
            problems += differences(name, json.loads(printed(f"schema {name}").stdout), command, document, jsonschema)
    shipped = {file.stem for file in (root / "scenarios/schemas").glob("*.json")}
    problems += [
        f"panpipe-{name}/1 is written and has no schema in scenarios/schemas/"
        for name in sorted(named_in_the_sources() - shipped - {"sweep-grid"})
    ]
    problems += [
        f"scenarios/schemas/{name}.json: no command prints it here" for name in sorted(shipped - PRINTED.keys() - WRITTEN.keys())
    ]
    print("\n".join(problems) or f"{sum(map(len, PRINTED.values()))} documents as {len(shipped)} schemas state them")
    return 1 if problems else 0


sys.exit(main())

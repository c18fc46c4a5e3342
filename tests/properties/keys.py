#!/usr/bin/env python3
"""Every numeric or yes-no key of scenario, cluster, device, framework and calibration acts on some figure, or is refused.

    keys.py PANPIPE [KEY...]

The keys are found, not listed: those that `panpipe schema` declares, what `panpipe check` prints of the scenarios below with all defaults,
what the shipped calibrations state, and what the tables of docs/ name of calibrations and examples of clusters. Each is changed in one
scenario after the other until an engine's answer changes. What the schema calls a key of training acts on no prediction.
"""

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


def made(cluster, degrees, **more):
    base = {
        "panpipe": 1,
        "cluster": cluster,
        "workload": {"model": "gpt", "layers": 4, "hidden": 1024, "heads": 16, "sequence": 512, "vocabulary": 8192},
        "batch": {"micro": 2, "microbatches": 8},
        "precision": "fp16",
        "parallel": degrees,
        "framework": "eager",
    }
    return {**base, **more}


def one_node(name, nodes=None, **more):
    return {"file": f"clusters/{name}.yaml", **({"nodes": nodes} if nodes else {}), **more}


LLAMA = {
    "model": "llama",
    "layers": 4,
    "hidden": 1024,
    "heads": 16,
    "kv_heads": 4,
    "ffn": 2816,
    "sequence": 2048,
    "vocabulary": 32000,
}
MIXTRAL = {
    "config": {
        "model_type": "mixtral",
        "hidden_size": 1024,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "intermediate_size": 2048,
        "num_local_experts": 16,
        "vocab_size": 8192,
    },
    "sequence": 512,
}
MLLM = {
    "model": "mllm",
    "layers": 2,
    "hidden": 512,
    "heads": 8,
    "ffn": 1024,
    "vision_layers": 2,
    "vision_hidden": 256,
    "vision_heads": 4,
    "image": 224,
    "patch": 14,
    "sequence": 512,
}
# Together they use every part of the model: paths of every class, reductions inside and across nodes, fused and unfused attention, products
# outside the tensor cores, woven groups, copies to the host, split backwards, every kind of model.
SCENARIOS = [
    made(one_node("dgx-a100-80g", 2), {"pipeline": 2, "tensor": 2, "data": 4}),
    made(one_node("rtx3090x8"), {"pipeline": 4, "tensor": 2}),
    made(one_node("rtx4090x8-switches"), {"pipeline": 4, "tensor": 2}),
    made(one_node("rtx3090x8", 2), {"pipeline": 2, "data": 8}, framework="megatron"),
    made(
        one_node("h100x8", 2),
        {"pipeline": 1, "tensor": 8, "data": 2, "sequence_parallel": True},
        workload=LLAMA,
        framework="flash-attn",
        precision="bf16",
    ),
    made(one_node("a100-80g-pcie-x4"), {"pipeline": 2, "data": 2}, framework="stp"),
    made(one_node("a100-80g-pcie-x4-nobridge"), {"tensor": 4, "pipeline": 1}, precision="bf16", framework="megatron-deepspeed"),
    made(
        one_node("dgx-a100-80g"),
        {"pipeline": 4, "tensor": 2},
        schedule="stp",
        batch={"micro": 1, "microbatches": 16},
        framework="stp",
    ),
    made(one_node("dgx-a100-80g"), {"pipeline": 4, "tensor": 2}, schedule="zb-h1", framework="megatron-zb", precision="bf16"),
    made(one_node("dgx-a100-80g"), {"pipeline": 4}, schedule={"name": "zb-h2", "offload": "full"}),
    made(one_node("rtx3090x8"), {"pipeline": 4}, schedule={"name": "1f1b", "vocabulary": "stages", "vocabulary_barriers": 2}),
    made(
        one_node("rtx3090x8-nobridge"),
        {"pipeline": 8},
        schedule={"name": "1f1b", "offload": "full"},
        framework="pfeife-huggingface",
    ),
    made(one_node("dgx-a100-40g", 2), {"pipeline": 1, "data": 16, "zero": 3}, framework="llm-foundry", precision="bf16"),
    made(
        one_node("dgx-a100-80g"),
        {"pipeline": 1, "data": 8, "zero": 1},
        workload={"model": "gpt", "layers": 2, "hidden": 1000, "heads": 10, "sequence": 128, "dropout": 0.1},
    ),
    made(one_node("dgx-a100-80g"), {"pipeline": 2, "virtual_stages": 2}, schedule={"name": "interleaved-1f1b", "group": 2}),
    made(
        one_node("rtx3090x8"),
        {"pipeline": 2},
        schedule={"name": "pfeife", "stages_per_rank": 2, "loop_batch": 4, "prefetch": 1},
        workload={"model": "bert", "layers": 8, "hidden": 512, "heads": 8, "sequence": 128},
    ),
    made(
        one_node("rtx4090x8"),
        {"pipeline": 4},
        schedule={"name": "roundpipe", "forward_slots": 2, "backward_slots": 6, "round": 2},
        workload=LLAMA,
        offload={"optimizer": "cpu", "parameters": "cpu"},
    ),
    made(
        one_node("dgx-a100-80g"),
        {"pipeline": 2},
        schedule={"name": "slimpipe", "sequence_splits": 4, "exchange": "on"},
        workload=LLAMA,
        framework="torch-compile",
    ),
    made(
        one_node("h200x8"),
        {"pipeline": 4, "data": 2},
        workload={"model": "vit", "layers": 4, "hidden": 512, "heads": 8, "image": 224, "patch": 16, "classes": 1000},
        framework="pfeife-timm",
    ),
    made(
        one_node("dgx-a100-80g"),
        {"pipeline": 2},
        workload={"model": "unet", "layers": 2, "hidden": 64, "heads": 2, "image": 32, "sequence": 77},
        recompute="full",
    ),
    made(one_node("dgx-a100-80g"), {"pipeline": 2, "tensor": 2}, workload=MLLM, framework="flash-attn"),
    made(
        one_node("h20x8-x2"),
        {"pipeline": 2, "tensor": 4, "data": 2},
        transfers={"semantics": "batched"},
        framework="stp",
        precision="bf16",
    ),
    made(
        one_node("a800x8", 2),
        {"pipeline": 4, "data": 4, "zero": 2},
        transfers={"semantics": "blocking"},
        framework="sagemaker",
        recompute="selective",
    ),
    made(one_node("rtx3090ti-x2"), {"pipeline": 2}, precision="tf32", framework="llm.c"),
    made(one_node("epyc-7742-x2"), {"pipeline": 2}, precision="fp32", framework="eager-sdpa"),
    made(
        one_node("dgx-a100-80g", 8, network={"oversubscription": 4, "spine": "50 GB/s"}),
        {"pipeline": 1, "data": 64},
        framework="eager-sdpa-chunked-loss",
    ),
    made(
        one_node("dgx-a100-80g", 8),
        {"pipeline": 1, "data": 64},
        framework="megatron",
        overlap_gradients=True,
        workload={"model": "gpt", "layers": 8, "hidden": 4096, "heads": 32, "sequence": 512},
    ),
    made(
        {
            "device": {"file": "devices/a100-80g-sxm.yaml"},
            "wiring": {"topology": str(ROOT / "tests/costmodel/cluster/data/topo-dgx-a100.txt")},
        },
        {"pipeline": 4, "tensor": 2},
    ),
    made(
        {"devices": 4, "memory": "24 GiB", "link": {"latency": "0.26 ms", "bandwidth": "10 GB/s"}},
        {"data": 2},
        workload={"layers": str(ROOT / "scenarios/workloads/six-layers-with-skip.yaml")},
    ),
    *(
        made(
            one_node("h100x8"),
            {"pipeline": 1, "tensor": 2, "sequence_parallel": True},
            workload=LLAMA,
            precision="bf16",
            framework=framework,
        )
        for framework in ("nanotron", "megatron-core", {"name": "nanotron", "attention": "flash-3"})
    ),
    *(
        made(
            one_node("h100x8"),
            {"pipeline": 1, "tensor": 2, "data": 4, "expert": 2, "sequence_parallel": True},
            workload=MIXTRAL,
            precision="bf16",
            framework="megatron-core",
            **more,
        )
        for more in (
            {},
            {"experts": {"imbalance": 1.2}},
            {"experts": {"capacity": 1.1}},
            {"experts": {"zipf": 0.5, "placement": "balanced"}},
        )
    ),
    made(one_node("h100x8"), {"pipeline": 1, "tensor": 2}, workload=LLAMA, precision="fp8", framework="flash-attn"),
    *(
        made(one_node("b200x8"), {"pipeline": 1, "tensor": 2}, workload=LLAMA, precision=precision, framework="flash-attn")
        for precision in ("mxfp8", "nvfp4", "mxfp4")
    ),
    made(
        one_node("h100x8"),
        {"pipeline": 1, "data": 4},
        workload=LLAMA,
        batch={"micro": 2, "microbatches": 8, "packed": {"lengths": [256, 1024], "shares": ["50 %", "50 %"]}},
        precision="bf16",
        framework="flash-attn",
        rollout={"tokens": 100000, "tokens_per_second": 1000, "gpus": 4, "staleness": 1, "update": "50 ms"},
    ),
    *(
        made(
            one_node("h100x8"),
            {"pipeline": 2},
            workload=LLAMA,
            batch={"micro": 1, **batch},
            precision="bf16",
            framework="flash-attn",
        )
        for batch in (
            {"microbatches": 8, "lengths": {"lengths": [256, 1024], "shares": ["50 %", "50 %"]}},
            {"lengths": {"samples": {"lengths": [256, 1024], "shares": ["50 %", "50 %"], "count": 24}, "tokens": 2048}},
            {"lengths": [1024, 256, 1024, 256], "order": "searched"},
        )
    ),
    made(
        one_node("h100x8"),
        {"pipeline": 1, "data": 4},
        workload=LLAMA,
        precision="bf16",
        framework="flash-attn",
        rollout={"time": "2 s"},
    ),
    *(
        made(
            one_node("h100x8", 2),
            {"pipeline": 1, "tensor": 2, "data": 8},
            workload=LLAMA,
            precision="bf16",
            run={"tokens": 300000000000, "price": "2.5 USD", "carbon": "400 g/kWh", **run},
        )
        for run in (
            {
                "checkpoint": {"bandwidth": "20 GB/s", "size": "60 GB"},
                "failures": {"mtbf": "5000 h", "restart": "10 min"},
                "power": {"share": "80 %", "node": "100 W", "pue": 1.2},
            },
            {"checkpoint": {"time": "30 s", "interval": "30 min"}, "power": {"gpu": "700 W"}},
        )
    ),
    made(
        one_node("dgx-a100-80g"),
        {"pipeline": 2, "data": 4, "zero": 1},
        workload={"model": "gpt3-6.7b"},
        framework="deepspeed",
        offload={"optimizer": "cpu"},
    ),
    *(
        made(
            one_node("h100x8"),
            {"pipeline": 1, "tensor": 2, "data": 4, "zero": 1},
            workload=LLAMA,
            precision="bf16",
            framework="megatron-core",
            optimizer=optimizer,
        )
        for optimizer in ({"name": "muon"}, {"name": "soap", "block": 1024})
    ),
    {
        "panpipe": 1,
        "cluster": one_node("rtx3090x8", 2),
        "workload": {"model": "gpt2-large"},
        "batch": {"micro": 1, "microbatches": 16},
        "parallel": {"tensor": 2, "data": 2, "zero": 1},
    },
]
for scenario in SCENARIOS:
    if "layers" in scenario["workload"] and "model" not in scenario["workload"]:
        scenario.pop("framework"), scenario.pop("precision")


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

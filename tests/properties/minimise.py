"""Makes a scenario that breaks a property small: keys are dropped, numbers shrink, model, cluster and family become plainer, as long as
the same property is still broken with the same change."""
import json

from checks import NotApplicable, family, options
from generator import units_of
from program import Broken, Refused, drop, get, put
from shipped import names

PLAIN_MODEL = {"model": "gpt", "hidden": 1024, "heads": 16}
PLAIN_CLUSTERS = ("dgx-a100-80g", "rtx3090x8")
PLAIN_FAMILIES = ("1f1b", "gpipe", "zb-h1", "interleaved-1f1b", "zb-v")
KEYS = ("transfers", "transfers.semantics", "transfers.braid_inputs", "transfers.braid_outputs", "transfers.full_backward_sends", "trailing_collectives",
        "overlap_gradients", "optimizer", "recompute", "precision", "framework", "usable", "placement", "partition", "workload.dropout", "workload.kv_heads", "workload.ffn",
        "workload.vocabulary", "workload.sequence", "parallel.zero", "parallel.sequence_parallel")
NUMBERS = ("workload.layers", "batch.microbatches", "batch.micro", "parallel.pipeline", "parallel.data", "parallel.tensor", "cluster.nodes", "workload.sequence",
           "workload.hidden", "workload.heads", "workload.vocabulary", "workload.ffn", "workload.image", "workload.vision_layers", "workload.vision_hidden")


def judged(prop, program, scenario, parameters):
    try:
        return prop.judge(program, scenario, parameters)
    except (NotApplicable, Refused, Broken, KeyError, ZeroDivisionError, IndexError, StopIteration):
        return None


def shared_out(program, scenario):
    """The scenario with its cuts evenly over as many stages as its family now has."""
    if "partition" not in scenario:
        return scenario
    try:
        order = program.order(family(scenario), get(scenario, "parallel.pipeline"), get(scenario, "batch.microbatches"), options(scenario))
        units, stages = units_of(program, scenario), len(order["chains"][0])
    except (Refused, Broken):
        return scenario
    if stages == 1 or len(units) < stages:
        return drop(scenario, "partition")
    starts = [b["index"] for a, b in zip(units, units[1:]) if not b["block"] or b["block"] != a["block"]]
    places = starts if len(starts) >= stages - 1 else [u["index"] for u in units[1:]]
    return {**scenario, "partition": [places[(i + 1) * len(places) // stages - (len(places) % stages == 0)] for i in range(stages - 1)]}


# Sizes of nothing would hide what a violation is about.
LEAST = {"workload.hidden": 64, "workload.vision_hidden": 64, "workload.vocabulary": 1024, "workload.ffn": 64, "workload.image": 32}


def smaller(value, least=1):
    """Smaller whole numbers, least first."""
    found = [least, 2 * least, value // 4, value // 2, value - least]
    return sorted({n for n in found if least <= n < value})


def steps(program, scenario):
    """Plainer scenarios, most telling first."""
    if get(scenario, "workload.model") != "gpt":
        yield shared_out(program, {**scenario, "workload": {**PLAIN_MODEL, "layers": get(scenario, "workload.layers", 2)}})
    for name in PLAIN_CLUSTERS:
        file = f"clusters/{name}.yaml"
        if get(scenario, "cluster.file") != file and get(scenario, "cluster.file") != f"clusters/{PLAIN_CLUSTERS[0]}.yaml":
            yield put(scenario, "cluster", {"file": file, **({"nodes": get(scenario, "cluster.nodes")} if get(scenario, "cluster.nodes") else {})})
    plainer = PLAIN_FAMILIES[:PLAIN_FAMILIES.index(family(scenario))] if family(scenario) in PLAIN_FAMILIES else PLAIN_FAMILIES
    for name in plainer:
        yield shared_out(program, {**scenario, "schedule": name})
    if isinstance(scenario.get("schedule"), dict):
        for key, _ in options(scenario):
            fewer = drop(scenario, f"schedule.{key}")
            yield shared_out(program, fewer if len(fewer["schedule"]) > 1 else {**fewer, "schedule": family(scenario)})
    for key in KEYS:
        if get(scenario, key) is not None:
            yield drop(scenario, key)
    for key in NUMBERS:
        value = get(scenario, key)
        if isinstance(value, int) and value > 1:
            for less in smaller(value, LEAST.get(key, 1)):
                yield shared_out(program, put(scenario, key, less))
    for i, group in enumerate(get(scenario, "cluster.groups", [])):
        for key in ("nodes", "devices_per_node"):
            for less in smaller(group.get(key, 1)):
                groups = list(scenario["cluster"]["groups"])
                groups[i] = {**group, key: less}
                yield put(scenario, "cluster.groups", groups)
    if scenario.get("framework") not in (None, *("eager", "megatron")):
        for name in ("eager", "megatron"):
            if name in names("frameworks"):
                yield {**scenario, "framework": name}
    if scenario.get("precision") not in (None, "fp16"):
        yield {**scenario, "precision": "fp16"}


def minimise(prop, program, scenario, parameters, finding, tries=200):
    """The smallest scenario that was found to break the property at least half as much, and what it shows."""
    most, failed = finding.size, set()
    progress = True
    while progress and len(failed) < tries:
        progress = False
        for candidate in steps(program, scenario):
            key = json.dumps(candidate, sort_keys=True)
            if candidate == scenario or key in failed:
                continue
            found = judged(prop, program, candidate, parameters)
            if found and found.size >= most / 2:
                scenario, finding, progress = candidate, found, True
                break
            failed.add(key)
            if len(failed) >= tries:
                break
    return scenario, finding

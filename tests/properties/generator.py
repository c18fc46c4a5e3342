"""Random scenarios. Most are valid; those that are not are refused by the program and drawn again. Where a choice is small, its first
value is taken: the plainest.

Hints narrow what is drawn: {"model": [...], "family": [...], "cluster": [...], "nodes": (least, most), "kinds": True (unlike
devices), "data": [...], "tensor": [...], "pipeline": [...], "framework": [...], "sequence": [...], "micro": [...], "microbatches": [...],
"plain": True (default order of devices, no rare keys)}.
"""

from program import TINY, Call, Refused
from shipped import names

MODELS = ("gpt", "gpt", "gpt", "llama", "bert", "vit", "unet", "mllm")
PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp16", "bf16-pure", "fp16-pure")
FABRICS = (  # a device type with a wiring that its shipped cluster states
    ("a100-80g-sxm", {"switch": {"bandwidth": "300 GB/s", "latency": "2 us"}}),
    ("h100-sxm", {"switch": {"bandwidth": "450 GB/s", "latency": "2 us"}}),
    ("h20", {"switch": {"bandwidth": "450 GB/s", "latency": "2 us"}}),
    ("a100-80g-pcie", {"pcie": {"bandwidth": "24 GB/s"}, "peer": {"latency": "2.5 us"}}),
    (
        "rtx-3090",
        {
            "pcie": {"bandwidth": "25 GB/s"},
            "host": {"copy": "11.2 GB/s", "both_ways": "16.6 GB/s", "memory": "204.8 GB/s", "latency": "15.2 us"},
        },
    ),
)
OPTIONS = {
    "stages_per_rank": (2, 2, 3, 4),
    "group": (2, 3, 4),
    "sequence_splits": (2, 2, 4),
    "exchange": ("on", "off"),
    "combined": (True,),
    "loop_batch": (2, 4, 8),
    "prefetch": (0, 1, 2),
    "execution": ("loop", "breadth-first", "pipeless"),
    "forward_slots": (1, 2),
    "backward_slots": (2, 3, 6),
    "round": (2, 4, 8),
}


def chance(rng, share):
    """True in this share of the draws, and False where Hypothesis makes a case small."""
    return rng.random() >= 1 - share


def some(rng, hints, key, values):
    return rng.choice(hints.get(key, values))


def workload(rng, hints):
    model = some(rng, hints, "model", MODELS)
    head = rng.choice((32, 64, 64, 128))
    hidden = rng.choice((256, 512, 1024, 1024, 2048, 4096))
    drawn = {"model": model, "layers": rng.choice((1, 2, 4, 4, 6, 8, 12, 16)), "hidden": hidden, "heads": max(1, hidden // head)}
    if model == "unet":
        return {
            "model": model,
            "layers": rng.choice((1, 2, 5)),
            "hidden": rng.choice((64, 128, 320)),
            "image": rng.choice((16, 32, 64)),
        }
    if model in ("gpt", "bert", "llama"):
        drawn["sequence"] = some(rng, hints, "sequence", (16, 64, 128, 256, 512, 1024, 1024, 2048))
        drawn["vocabulary"] = rng.choice((1024, 8192, 32000, 51200))
    if model == "vit":
        drawn["image"] = rng.choice((64, 224))
        drawn["patch"] = 16
    if model in ("llama", "mllm"):
        drawn["ffn"] = rng.choice((2, 3, 4)) * hidden
        if chance(rng, 0.3):
            drawn["kv_heads"] = max(1, drawn["heads"] // rng.choice((2, 4)))
    if model == "mllm":
        drawn.update(
            vision_layers=rng.choice((1, 2, 4)),
            vision_hidden=rng.choice((256, 512)),
            vision_heads=8,
            image=224,
            patch=14,
            vocabulary=rng.choice((8192, 32000)),
            sequence=rng.choice((512, 1024)),
        )
    if model != "llama" and chance(rng, 0.15):
        drawn["dropout"] = 0.1
    return drawn


def unlike(rng, hints):
    """Two groups of nodes with a device type each; and how many devices a node has, how many there are."""
    width, nodes = rng.choice((2, 4, 4, 8)), rng.choice((1, 1, 2))
    groups = [
        {"device": f"devices/{name}.yaml", "nodes": nodes, "devices_per_node": width, "wiring": wiring}
        for name, wiring in rng.sample(FABRICS, 2)
    ]
    network = {"nics_per_node": rng.choice((1, width)), "bandwidth": "12.5 GB/s", "latency": "5 us"}
    return {"groups": groups, "network": network}, width, 2 * nodes * width


def cluster(rng, hints, program):
    if hints.get("kinds", chance(rng, 0.1)):
        return unlike(rng, hints)
    name = some(rng, hints, "cluster", sorted(names("clusters"), key=lambda name: name != "dgx-a100-80g"))
    file = f"clusters/{name}.yaml"
    values = shipped_cluster(program, file)
    width, nodes = int(values["cluster.devices_per_node"]), int(values["cluster.nodes"])
    if "cluster.network.bandwidth" in values and ("nodes" in hints or chance(rng, 0.5)):
        least, most = hints.get("nodes", (1, 64))
        nodes = rng.choice([n for n in (1, 2, 2, 3, 4, 4, 8, 16, 64) if least <= n <= most])
    elif nodes < hints.get("nodes", (1, 64))[0]:
        raise Refused("a cluster without a network has one node")
    return {"file": file, "nodes": nodes}, width, width * nodes


def shipped_cluster(program, file):
    return program.kept(["cluster", file], lambda: program.resolved({**TINY, "cluster": file, "parallel": {"pipeline": 1}}))


def schedule(rng, hints, program, pipeline):
    """(name, options, microbatches, stages of a forward path)"""
    families = program.families()
    name = some(rng, hints, "family", sorted(families))
    options = {}
    for key in families[name][1]:
        if key in OPTIONS and chance(rng, 0.6):
            options[key] = rng.choice(OPTIONS[key])
    microbatches = some(rng, hints, "microbatches", (1, 2, 4, 4, 6, 8, 8, 12, 16, 3 * pipeline, 4 * pipeline))
    order = program.order(name, pipeline, microbatches, tuple(sorted(options.items())))
    if not order["legal"]:
        raise Refused("an order that cannot finish")
    return name, options, microbatches, len(order["chains"][0])


def cuts(rng, units, stages):
    """Units that start a stage after the first: between layers where there are enough, else anywhere."""
    starts = [
        unit["index"] for previous, unit in zip(units, units[1:]) if not unit["block"] or unit["block"] != previous["block"]
    ]
    places = starts if len(starts) >= stages - 1 and chance(rng, 0.8) else [unit["index"] for unit in units[1:]]
    if len(places) < stages - 1:
        raise Refused("fewer units than stages")
    if chance(rng, 0.5):
        return sorted(rng.sample(places, stages - 1))
    return [places[(i + 1) * len(places) // stages - (1 if len(places) % stages == 0 else 0)] for i in range(stages - 1)]


def degrees(rng, hints, width, devices, sized):
    def fitting(key, values, room, divides=0):
        values = [n for n in hints.get(key, values) if n <= room and (not divides or divides % n == 0)]
        if not values:
            raise Refused(f"no degree of {key} fits")
        return rng.choice(values)

    tensor = fitting("tensor", (1, 1, 1, 2, 2, 4, 8) if sized["model"] != "unet" else (1,), width, sized.get("heads", 0))
    pipeline = fitting("pipeline", (1, 1, 2, 2, 3, 4, 4, 6, 8), devices // tensor)
    data = fitting("data", (1, 1, 1, 2, 2, 3, 4, 8, 16, 64), devices // tensor // pipeline)
    parallel = {"pipeline": pipeline, "tensor": tensor, "data": data}
    if tensor > 1 and chance(rng, 0.3):
        parallel["sequence_parallel"] = True
    if data > 1:
        parallel["zero"] = rng.choice((0, 0, 1, 2, 3))
    return parallel


def rare_keys(rng, scenario):
    """Rules of transfers and overlap; most scenarios have none or one of them."""
    for path, values in (
        ("transfers.semantics", ("asynchronous", "blocking", "batched")),
        ("transfers.braid_inputs", ("unit",)),
        ("transfers.braid_outputs", ("unit",)),
        ("transfers.full_backward_sends", ("input_gradient",)),
        ("trailing_collectives", ("overlapped",)),
        ("overlap_gradients", (True,)),
        ("optimizer", ("none", "sgd", "momentum", "adamw")),
    ):
        if chance(rng, 0.12):
            key, _, inner = path.partition(".")
            if inner:
                scenario.setdefault(key, {})[inner] = rng.choice(values)
            else:
                scenario[key] = rng.choice(values)


def units_of(program, scenario):
    """The movable units of the scenario's workload."""
    alone = {
        "panpipe": 1,
        "workload": scenario["workload"],
        "batch": {"micro": 1, "microbatches": 1},
        "cluster": "clusters/dgx-a100-80g.yaml",
        "parallel": {"pipeline": 1},
    }

    def make():
        units = program.answer(Call("check", alone, ("--units", "--json"))).document["units"]
        return [{key: unit[key] for key in ("index", "name", "block")} for unit in units]

    return program.kept(["units", scenario["workload"]], make)


def draw(rng, program, hints):
    """A scenario; raises Refused where what was drawn does not go together."""
    sized = workload(rng, hints)
    where, width, devices = cluster(rng, hints, program)
    parallel = degrees(rng, hints, width, devices, sized)
    family, options, microbatches, stages = schedule(rng, hints, program, parallel["pipeline"])
    scenario = {
        "panpipe": 1,
        "cluster": where,
        "workload": sized,
        "batch": {"micro": some(rng, hints, "micro", (1, 1, 2, 4, 8)), "microbatches": microbatches},
        "precision": rng.choice(PRECISIONS),
        "parallel": parallel,
        "schedule": {"name": family, **options} if options else family,
    }
    if chance(rng, 0.85):
        scenario["framework"] = some(rng, hints, "framework", names("frameworks"))
    if chance(rng, 0.4):
        scenario["recompute"] = rng.choice(("selective", "full"))
    if stages > 1:
        scenario["partition"] = cuts(rng, units_of(program, scenario), stages)
    if not hints.get("plain"):
        rare_keys(rng, scenario)
        if chance(rng, 0.1):
            scenario["placement"] = rng.sample(range(devices), parallel["pipeline"] * parallel["tensor"] * parallel["data"])
    return scenario

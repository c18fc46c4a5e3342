"""More properties, each with a strategy of its own. A case is a plain dict; `judge` gives a Finding where its demand is broken."""

import json

from hypothesis import strategies as st

from base import BYTES, ROUNDED, SAME, Finding, Property, equal, estimate, in_sums, milliseconds, not_above
from program import FILES, SHIPPED, Call, get, put
from searches import judged_by
from shipped import edited, scaled, with_file


def drawn(function):
    """The cases of a property: the scenario, and what its change needs."""
    strategy = st.composite(function)()
    return lambda self, program: strategy


# ---- what is drawn ------------------------------------------------------------------------------------------------------------


def config(name, **changes):
    return {**json.loads((SHIPPED / "workloads" / f"{name}.json").read_text(encoding="utf-8")), **changes}


EXPERTS = {"mixtral-8x7b": "num_local_experts", "qwen3-30b-a3b": "num_experts", "gpt-oss-20b": "num_local_experts"}


@st.composite
def expert_scenarios(draw, precisions=("bf16", "fp8")):
    """A small model with experts on nodes of eight devices; `experts` of them, a power of two."""
    name = draw(st.sampled_from(sorted(EXPERTS)))
    experts = draw(st.sampled_from((8, 16, 32)))
    changes = {
        EXPERTS[name]: experts,
        "hidden_size": draw(st.sampled_from((512, 1024, 2880))),
        "num_hidden_layers": draw(st.integers(1, 3)),
    }
    if name == "qwen3-30b-a3b":
        changes["moe_intermediate_size"] = draw(st.sampled_from((256, 768)))
    else:
        changes["intermediate_size"] = draw(st.sampled_from((256, 1024, 2880)))
    precision = draw(st.sampled_from(precisions))
    nodes = draw(st.sampled_from((1, 2)))
    return {
        "panpipe": 1,
        "cluster": {"file": f"clusters/{draw(st.sampled_from(('h100x8', 'aws-p5')))}.yaml", "nodes": nodes},
        "workload": {"config": config(name, **changes), "sequence": draw(st.sampled_from((256, 1024, 4096)))},
        "batch": {"micro": 1, "microbatches": draw(st.integers(1, 4))},
        "precision": precision,
        "parallel": {
            "pipeline": 1,
            "data": 8 * nodes,
            "expert": draw(st.sampled_from((1, 2, 4, 8))),
            "zero": draw(st.integers(0, 1)),
        },
        "schedule": "1f1b",
        "framework": draw(st.sampled_from(("megatron-core", "torchtitan"))),
    }


@st.composite
def dense_scenarios(draw, precisions=("bf16", "fp16")):
    """A Llama on one node of eight devices, or part of it."""
    hidden = draw(st.sampled_from((1024, 2048, 4096)))
    return {
        "panpipe": 1,
        "cluster": {"file": "clusters/h100x8.yaml"},
        "workload": {
            "model": "llama",
            "layers": draw(st.integers(1, 4)),
            "hidden": hidden,
            "heads": hidden // 128,
            "ffn": 3 * hidden,
            "sequence": draw(st.sampled_from((256, 1024, 2048))),
            "vocabulary": draw(st.sampled_from((1024, 32000))),
        },
        "batch": {"micro": draw(st.integers(1, 2)), "microbatches": draw(st.integers(1, 8))},
        "precision": draw(st.sampled_from(precisions)),
        "parallel": {"pipeline": 1, "tensor": draw(st.sampled_from((1, 2, 4, 8)))},
        "schedule": "1f1b",
        "framework": draw(st.sampled_from(("megatron-core", "torchtitan", "torch-compile", "torch-compile-2.0"))),
    }


# ---- experts ------------------------------------------------------------------------------------------------------------------

CAPACITIES = st.sampled_from((0.5, 1.0, 1.25, 2.0, 2.6, 4.0))


class CapacityRulesRows(Property):
    name = "capacity-rules-rows"
    claim = (
        "with a capacity every expert takes as many rows, so that stating an imbalance, the default or another, changes nothing"
    )
    tolerance = f"{SAME}"

    @drawn
    def cases(draw):
        scenario = draw(expert_scenarios())
        return {
            "scenario": scenario,
            "capacity": draw(CAPACITIES),
            "imbalance": draw(st.sampled_from([i for i in (1, 1.5, 2, 4) if i <= scenario["parallel"]["expert"]])),
        }

    def judge(self, program, scenario, capacity, imbalance):
        plain = put(scenario, "experts", {"capacity": capacity})
        return equal(program, plain, put(plain, "experts.imbalance", imbalance), f"imbalance {imbalance} stated")


class LessCapacity(Property):
    name = "less-capacity"
    claim = "a smaller capacity never makes a step longer or a device's memory larger, whatever the imbalance is"
    tolerance = f"{ROUNDED}; {BYTES} bytes"

    @drawn
    def cases(draw):
        scenario = draw(expert_scenarios())
        imbalance = draw(st.sampled_from([i for i in (None, 1, 1.5, 2, 4) if i is None or i <= scenario["parallel"]["expert"]]))
        less, more = sorted((draw(CAPACITIES), draw(CAPACITIES)))
        return {"scenario": scenario, "imbalance": imbalance, "less": less, "more": more}

    def judge(self, program, scenario, imbalance, less, more):
        both = {"imbalance": imbalance} if imbalance else {}
        given = [put(in_sums(scenario), "experts", {**both, "capacity": capacity}) for capacity in (less, more)]
        why = f"capacity {less} and {more}"
        return not_above(program, *given, why) or not_above(program, *given, why, key="peak_memory_bytes")


class ExpertsShareBytes(Property):
    name = "experts-share-bytes"
    claim = "weights of a rank are a sum of what it holds anyway and of 1/E of the experts, in 16, 8 and 4 bits, on any number E of ranks"
    tolerance = "64 bytes of each degree: weights in parts of a byte are rounded once a tensor"

    @drawn
    def cases(draw):
        scenario = put(draw(expert_scenarios()), "parallel.zero", 0)
        if scenario["precision"] == "bf16" and draw(st.booleans()):
            scenario = put(scenario, "workload.lora", {"rank": 8, "targets": ["q_proj"], "base": "nf4"})
        return {"scenario": scenario}

    def judge(self, program, scenario):
        calls = [estimate(put(scenario, "parallel.expert", ranks)) for ranks in (1, 2, 4, 8)]
        one, two, four, eight = (program.answer(call).document["memory"][0]["parts"]["parameters"] for call in calls)
        # a + b / E: the first half of the experts is twice the next quarter, and that twice the next eighth.
        for whole, half, quarter in ((one, two, four), (two, four, eight)):
            off = (whole - half) - 2 * (half - quarter)
            if abs(off) > 64 * 4:
                shown = ", ".join(f"{b / 2**20:.1f}" for b in (one, two, four, eight))
                return Finding(calls, f"parameters with 1, 2, 4, 8 expert ranks: {shown} MiB")
        return None


# ---- ZeRO, recompute, launches ------------------------------------------------------------------------------------------------


class ZeroAtOneReplica(Property):
    name = "zero-one-replica"
    claim = "where one rank holds a weight, no stage of ZeRO and no shard group of one changes step or memory"
    tolerance = f"{SAME}; {BYTES} bytes"

    @drawn
    def cases(draw):
        return {
            "scenario": draw(dense_scenarios(("bf16", "fp8", "mxfp8", "fp32"))),
            "zero": draw(st.integers(1, 3)),
            "shard": draw(st.booleans()),
        }

    def judge(self, program, scenario, zero, shard):
        divided = put(scenario, "parallel.zero", zero)
        if shard:
            divided = put(divided, "parallel.shard", 1)
        return equal(program, scenario, divided, f"zero {zero} on one replica")


class FasterHost(Property):
    name = "faster-host"
    claim = "where the framework states what a launch takes, a calibration whose launches are faster never makes a step longer"
    tolerance = f"{ROUNDED}"

    @drawn
    def cases(draw):
        scenario = draw(dense_scenarios())
        scenario["framework"] = draw(st.sampled_from(("torchtitan", "torch-compile", "torch-compile-2.0")))
        slow, fast = draw(st.sampled_from(((65.8, 32.9), (32.9, 16.45), (32.9, 8.2), (65.8, 8.2))))
        return {"scenario": scenario, "slow": slow, "fast": fast}

    def judge(self, program, scenario, fast, slow):
        def with_launch(us):
            file = f"launch-{us}.yaml"
            text = edited("calibrations", "h100-sxm", "launch", f"{us} us")
            return with_file(put(scenario, "cluster.device", {"calibration": file}), file, text)

        return not_above(program, with_launch(fast), with_launch(slow), f"a launch of {fast} and of {slow} us")


MODULES = {"llama": ("core_attn", "layernorm", "mlp"), "gpt": ("core_attn", "layernorm", "mlp")}


class RecomputeInsideBlocks(Property):
    name = "recompute-cut-blocks"
    claim = "no module that runs again makes a device need more, wherever blocks are cut"
    tolerance = f"{BYTES} bytes"

    @drawn
    def cases(draw):
        scenario = draw(dense_scenarios(("bf16",)))
        model = draw(st.sampled_from(sorted(MODULES)))
        layers = scenario["workload"]["layers"]
        units = 2 * layers + 2
        cuts = draw(st.lists(st.integers(1, units - 1), min_size=1, max_size=3, unique=True))
        if model == "gpt":
            scenario["workload"].pop("ffn")
        scenario["workload"]["model"] = model
        scenario["parallel"] = {"pipeline": len(cuts) + 1}
        scenario["partition"] = sorted(cuts)
        return {"scenario": scenario, "modules": sorted(draw(st.sets(st.sampled_from(MODULES[model]), min_size=1)))}

    def judge(self, program, scenario, modules):
        calls = [estimate(put(scenario, "recompute", {"modules": modules})), estimate(scenario)]
        again, plain = ([device["peak_bytes"] for device in program.answer(call).document["memory"]] for call in calls)
        worst = max(zip(again, plain), key=lambda pair: pair[0] - pair[1])
        if worst[0] > worst[1] + BYTES:
            return Finding(calls, f"a device needs {worst[0]} bytes, and {worst[1]} without recompute")
        return None


# ---- measured collectives -----------------------------------------------------------------------------------------------------

NETWORKS = st.sampled_from(
    (
        {"nics_per_node": 8, "bandwidth": "50 GB/s", "latency": "75 us"},
        {"nics_per_node": 32, "bandwidth": "12.5 GB/s", "latency": "75 us"},
        {"nics_per_node": 16, "bandwidth": "25 GB/s", "latency": "5 us"},
        {"nics_per_node": 4, "bandwidth": "25 GB/s", "latency": "20 us"},
        {"nics_per_node": 8, "bandwidth": "25 GB/s", "latency": "5 us", "oversubscription": 4},
    )
)
WIRING = {"switch": {"bandwidth": "450 GB/s", "latency": "2 us"}}
BETTER = (
    ("network.nics_per_node", 2),
    ("network.bandwidth", 2),
    ("network.bandwidth", 4),
    ("network.latency", 0.1),
    ("network.latency", 0),
    ("wiring.switch.bandwidth", 2),
)


def cluster_file(network, tables):
    """FILES of a cluster with measured collectives."""
    cluster = {
        "panpipe": 1,
        "kind": "cluster",
        "device": "devices/h100-sxm.yaml",
        "nodes": 1,
        "devices_per_node": 8,
        "wiring": WIRING,
        "network": network,
        "collectives": "measured.yaml",
    }
    return {"own.yaml": json.dumps(cluster), "measured.yaml": json.dumps({"panpipe": 1, "kind": "collectives", "tables": tables})}


def on_nodes(draw):
    """A scenario on several nodes of a cluster of its own; the cluster's network."""
    scenario = draw(dense_scenarios(("bf16",)))
    scenario["cluster"] = {"file": "own.yaml", "nodes": draw(st.sampled_from((2, 4)))}
    return scenario, draw(NETWORKS)


class BetterNetworkMeasured(Property):
    name = "better-network-measured"
    claim = (
        "on a cluster with measured collectives more or faster adapters, less latency or a faster switch never make a step longer"
    )
    tolerance = f"{ROUNDED}"

    @drawn
    def cases(draw):
        scenario, network = on_nodes(draw)
        nodes, tensor = scenario["cluster"]["nodes"], scenario["parallel"]["tensor"]
        scenario["parallel"] = {"pipeline": 1, "tensor": tensor, "data": 8 * nodes // tensor, "zero": draw(st.integers(0, 3))}
        if draw(st.booleans()):
            scenario["cluster"]["file"] = "clusters/aws-p5.yaml"
            network = {"nics_per_node": 8, "bandwidth": "50 GB/s", "latency": "75 us"}
        else:
            sizes = sorted(draw(st.sets(st.sampled_from((20, 24, 28, 31)), min_size=1)))
            fast = draw(st.sampled_from((40e9, 150e9, 400e9)))
            rows = [[f"{2**size} B", f"{2**size / fast * 1e6 + 200:.6g} us"] for size in sizes]
            scenario[FILES] = cluster_file(network, [{"kind": "all_reduce", "ranks": 8 * nodes, "nodes": nodes, "table": rows}])
        return {"scenario": scenario, "network": network, "better": draw(st.sampled_from(BETTER))}

    def judge(self, program, scenario, better, network):
        key, factor = better
        own = get({"network": network, "wiring": WIRING}, key)
        value = scaled(str(own), factor)
        return not_above(program, put(scenario, f"cluster.{key}", value), scenario, f"{key} {value} instead of {own}")


class TableIsMet(Property):
    name = "table-is-met"
    claim = "a collective of a measured kind, size and group takes the measured time, on every network"
    tolerance = f"{SAME}"

    @drawn
    def cases(draw):
        scenario, network = on_nodes(draw)
        scenario["workload"].update(hidden=4096, heads=32, ffn=16384)
        scenario["parallel"] = {"pipeline": 1, "tensor": 8 * scenario["cluster"]["nodes"]}
        return {"scenario": scenario, "network": network, "ms": draw(st.sampled_from((0.5, 3, 20)))}

    def judge(self, program, scenario, network, ms):
        ranks, nodes = scenario["parallel"]["tensor"], scenario["cluster"]["nodes"]

        def costs(size):
            table = {"kind": "all_reduce", "ranks": ranks, "nodes": nodes, "table": [[f"{size} B", f"{ms} ms"]]}
            call = Call("check", {**scenario, FILES: cluster_file(network, [table])}, ("--costs", "--json"))
            sums = [
                c for d in program.answer(call).document["devices"] for c in d.get("collectives", []) if c["kind"] == "all-reduce"
            ]
            return call, max(sums, key=lambda c: c["bytes"])

        size = costs(2**20)[1]["bytes"]
        call, found = costs(size)
        if abs(found["time_s"] - 1e-3 * ms) > SAME * found["time_s"]:
            return Finding([call], f"{size} bytes take {milliseconds(found['time_s'])}, measured {ms} ms")
        return None


# ---- searches -----------------------------------------------------------------------------------------------------------------


class PlanForIsNotBetter(Property):
    name = "plan-for-not-better"
    claim = "`plan --for X`, which searches what X can run, is never better than the search over everything"
    tolerance = "1e-3, of the simulated step where links are shared; 2e-2 where plans that were not simulated may be faster"
    weight = 0.2

    @drawn
    def cases(draw):
        scenario = draw(dense_scenarios(("bf16",)))
        scenario["cluster"] = {
            "file": f"clusters/{draw(st.sampled_from(('rtx4090x8', 'rtx3090x8', 'dgx-a100-80g', 'a100-80g-pcie-x4')))}.yaml"
        }
        scenario["workload"]["layers"] = draw(st.sampled_from((4, 8, 16)))
        scenario["workload"]["sequence"] = draw(st.sampled_from((1024, 2048, 4096)))
        scenario["batch"] = {"micro": "auto", "microbatches": draw(st.sampled_from((4, 8, 16, 32)))}
        scenario.update(
            parallel=draw(st.sampled_from(({"pipeline": "auto"}, {"context": "auto"}))),
            schedule="auto",
            recompute=draw(st.sampled_from(("none", "auto"))),
            usable=draw(st.sampled_from(("50 %", "90 %"))),
            framework=draw(st.sampled_from(("megatron-core", "torchtitan"))),
        )
        return {"scenario": scenario, "trainer": draw(st.sampled_from(("torch", "deepspeed", "megatron", "torchtitan")))}

    def judge(self, program, scenario, trainer):
        calls = [Call("plan", scenario, ("--for", trainer)), Call("plan", scenario)]

        documents = [program.answer(call).document for call in calls]
        less, whole = (judged_by(document["best"])["step_time_s"] for document in documents)
        is_open = any("more have a bound below the least simulated step" in note for note in documents[1]["notes"])
        if less < whole * (1 - (2e-2 if is_open else 1e-3)):
            return Finding(calls, f"--for {trainer} finds {milliseconds(less)}, the free search {milliseconds(whole)}")
        return None

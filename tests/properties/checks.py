"""What must hold between predictions. Each property states what it demands, with which tolerance and why, draws a change of a scenario
that it applies to, and judges the answers.

A property that does not apply to a scenario raises NotApplicable; a change that the program refuses in words raises Refused. Neither
counts as a comparison. Hypothesis draws the cases and makes small what breaks a property.
"""

import dataclasses
import random

from hypothesis import strategies as st

import generator
from generator import chance, units_of
from program import Call, Refused, get, put, drop
from shipped import numbers, scaled, with_calibration, with_file, with_framework

# Every task's time is rounded once to a whole picosecond: a step of 1 ms over a path of 1,000 tasks may differ by 1 ns.
ROUNDED = 1e-6
# The same tasks with the same times, added in another order by another engine.
SAME = 1e-9
# The pieces of a woven group are put in order one by one, the least advanced member first: another ratio of their times may give
# another order, which is this much longer at most.
WOVEN = 1e-3
# A pass bound by its host ends later where its last collective runs behind what the host launched than where both are in one norm.
TRAILING = 5e-3
# Gradients that fill one bucket more start to travel earlier: a step may be this much shorter for a larger model.
BUCKETS = 1e-2
# Bytes: each part of a device's memory is rounded once.
BYTES = 16
TRIES = 6  # of a case, until its scenario is one that the program accepts


class NotApplicable(Exception):
    pass


def need(condition):
    if not condition:
        raise NotApplicable


@dataclasses.dataclass
class Finding:
    calls: list
    figures: str
    size: float = 0.0  # how far off, as a share


class Property:
    """One demand. `draw` gives the parameters of a change (a dict), `judge` a Finding when the demand is broken."""

    name = says = tolerance = ""
    hints = {}
    weight = 1.0  # its share of the cases

    def hinted(self, rng):
        return self.hints

    def draw(self, rng, program, scenario):
        return {}

    def cases(self, program):
        """What Hypothesis draws: a dict with the scenario and all that `holds` needs besides."""
        return drawn_cases(self, program)

    def holds(self, program, case):
        return self.judge(program, case["scenario"], case["parameters"])

    def judge(self, program, scenario, parameters):
        raise NotImplementedError


@st.composite
def drawn_cases(draw, prop, program):
    """A scenario that the program prices, and a change of it. What does not go together is drawn again, a few times; then None."""
    for _ in range(TRIES):
        rng = draw(st.randoms(use_true_random=False))
        try:
            scenario = generator.draw(rng, program, prop.hinted(rng))
            program.answer(Call("estimate", scenario))
            return {"scenario": scenario, "parameters": prop.draw(rng, program, scenario)}
        except (NotApplicable, Refused):
            continue
    return None


PROPERTIES = []


def add(kind):
    PROPERTIES.append(kind())
    return kind


def cut(scenario):
    """Stated cuts, or none to make: else `partition: auto` may move with the costs, and orders of tasks with it."""
    return "partition" in scenario or (
        get(scenario, "parallel.pipeline") == 1 and family(scenario) in ("gpipe", "1f1b", "kfkb", "zb-h1", "zb-h2")
    )


def family(scenario):
    stated = scenario.get("schedule", "1f1b")
    return stated["name"] if isinstance(stated, dict) else stated


def options(scenario):
    stated = scenario.get("schedule")
    return tuple(sorted((k, v) for k, v in stated.items() if k != "name")) if isinstance(stated, dict) else ()


def estimate(scenario, *more):
    return Call("estimate", scenario, more)


def simulate(scenario, *more):
    return Call("simulate", scenario, ("--backend", "flow", *more))


def milliseconds(seconds):
    return f"{1e3 * seconds:.6g} ms"


def not_above(program, less, more, tolerance, key, why):
    """A finding when the first call's figure is above the second's."""
    a, b = (program.answer(call).metrics[key] for call in (less, more))
    unit = milliseconds if key == "step_time_s" else lambda x: f"{x / 2**20:.2f} MiB"
    if a > b + (BYTES if key == "peak_memory_bytes" else tolerance * b):
        return Finding([less, more], f"{why}: {unit(a)} above {unit(b)}", a / b - 1)
    return None


def ranks(scenario):
    p = scenario.get("parallel", {})
    return p.get("pipeline", 1), p.get("data", 1), p.get("tensor", 1)


def short(rng, hints, *families):
    """The hints, half of the time narrowed to passes that the host's launches and memory bound: few tokens, one sample."""
    if chance(rng, 0.5):
        return hints
    some = {"family": families} if families and chance(rng, 0.5) else {}
    return {
        **hints,
        **some,
        "kinds": False,
        "model": ("gpt", "gpt", "llama", "bert", "vit"),
        "sequence": (1, 16, 64, 128),
        "micro": (1,),
        "cluster": ("dgx-a100-80g", "dgx-a100-80g", "a100-80g-pcie-x4", "rtx3090x8", "h100x8"),
    }


APART = ("zb-h1", "zb-h2", "zb-v", "interleaved-zero-bubble", "stp", "dualpipe-v")

# ---- faster, more -------------------------------------------------------------------------------------------------------------

# Calibration numbers: towards a faster device. Efficiencies go half of the way to 1, the others are halved.
EFFICIENCIES = (
    "gemm_efficiency",
    "attention_efficiency",
    "memory_efficiency",
    "unaligned_gemm_efficiency",
    "fabric_efficiency",
    "network_efficiency",
    "transfer_efficiency",
    "bridge_efficiency",
)
COSTS = (
    "wave_quantisation",
    "gemm_fill",
    "attention_ramp",
    "elementwise_scale",
    "score_bytes",
    "launch",
    "launch_contention",
    "collective_host",
    "kernel_gap",
    "step",
    "transfer_latency",
    "collective_latency",
    "stage_jitter",
    "optimizer_traffic",
    "overlap_loss",
)
FRAMEWORK_COSTS = (
    "elementwise_factor",
    "replicated_factor",
    "score_factor",
    "forward_operators",
    "backward_operators",
    "optimizer_factor",
)


@add
class Faster(Property):
    name, weight = "faster-hardware", 3
    says = "a device, link, network, calibration or framework number that is better never makes the estimate longer; cuts are stated, so that orders stay"
    tolerance = (
        f"{ROUNDED}: rounding of tasks to picoseconds; {WOVEN} where groups are woven: another order of their pieces. The estimate alone: on shared links one "
        "flow's gain may be another's loss"
    )

    def hinted(self, rng):
        return short(rng, self.hints, *APART)

    def knobs(self, program, scenario):
        values, found = program.resolved(scenario), []
        for path, value in values.items():
            unit = value.split(" ")[-1]
            if (
                not path.startswith("cluster.")
                or ".sources" in path
                or scaled(value, 1) is None
                or "[" in path
                or "nvlink" in path
            ):
                continue
            if ".peak." in path:
                path = "cluster.device.peak"
            if (unit.endswith("/s") or unit in ("us", "ms", "ns") or path.endswith("nics_per_node")) and path not in found:
                found.append(path)
        calibration = values.get("cluster.device.calibration")
        if calibration:
            found += [f"calibration.{key}" for key in numbers("calibrations", calibration) if key in EFFICIENCIES + COSTS]
        found += (
            [f"framework.{key}" for key in numbers("frameworks", values["framework"]) if key in FRAMEWORK_COSTS]
            if "framework" in values
            else []
        )
        return found

    def draw(self, rng, program, scenario):
        need(cut(scenario))
        return {"knob": rng.choice(self.knobs(program, scenario)), "factor": rng.choice((1.5, 2, 8))}

    def better(self, program, scenario, knob, factor):
        values = program.resolved(scenario)
        kind, _, key = knob.partition(".")
        if kind == "cluster":
            if key == "device.peak":
                for path, value in values.items():
                    if path.startswith("cluster.device.peak."):
                        scenario = put(scenario, path, scaled(value, factor))
                return scenario
            need(knob in values)
            value = values[knob]
            down = value.split(" ")[-1] in ("us", "ms", "ns")
            return put(scenario, knob, scaled(value, 1 / factor if down else factor))
        name = values.get("cluster.device.calibration" if kind == "calibration" else "framework")
        need(name is not None)
        stated = numbers("calibrations" if kind == "calibration" else "frameworks", name)
        need(key in stated)
        value = stated[key]
        if key in EFFICIENCIES:
            need(float(value) < 1)
            value = round((1 + float(value)) / 2, 6)
        else:
            value = scaled(value, 0.5)
        if key.endswith("_operators"):
            value = max(1, int(float(value)))
        return (with_calibration if kind == "calibration" else with_framework)(scenario, name, key, value)

    def judge(self, program, scenario, parameters):
        need(cut(scenario))
        better = self.better(program, scenario, parameters["knob"], parameters["factor"])
        tolerance = WOVEN if family(scenario) in ("stp", "dualpipe", "dualpipe-v") else ROUNDED
        return not_above(program, estimate(better), estimate(scenario), tolerance, "step_time_s", f"better {parameters['knob']}")


@add
class MoreWork(Property):
    name, weight = "more-work", 2
    says = "more layers, microbatches, hidden, ffn, sequence, samples, vocabulary or pixels never make the estimate shorter; cuts are stated"
    tolerance = f"{ROUNDED}: rounding of tasks to picoseconds; {BUCKETS} where gradients travel in buckets beside the backward: one more of them may start earlier"
    KNOBS = (
        "workload.layers",
        "batch.microbatches",
        "workload.hidden",
        "workload.ffn",
        "workload.sequence",
        "batch.micro",
        "workload.vocabulary",
        "workload.image",
    )

    def hinted(self, rng):
        return short(rng, self.hints)

    def draw(self, rng, program, scenario):
        need(cut(scenario))
        return {"knob": rng.choice(self.KNOBS), "factor": rng.choice((2, 2, 3, 4))}

    def judge(self, program, scenario, parameters):
        need(cut(scenario))
        knob, model = parameters["knob"], get(scenario, "workload.model")
        # In a U-Net added layers stand in the middle, so that stated cuts would move; a larger image of an mllm takes the text's place.
        need(not (knob == "workload.layers" and model == "unet") and not (knob == "workload.image" and model == "mllm"))
        value = int(program.resolved(scenario).get(knob, 0))
        need(value > 0)
        more = put(scenario, knob, value * parameters["factor"])
        in_buckets = ranks(scenario)[1] > 1 and (
            get(scenario, "overlap_gradients", False) or get(scenario, "parallel.zero", 0) >= 2
        )
        return not_above(
            program,
            estimate(scenario),
            estimate(more),
            BUCKETS if in_buckets else ROUNDED,
            "step_time_s",
            f"{knob} {value} against {value * parameters['factor']}",
        )


@add
class MoreMemory(Property):
    name = "more-memory"
    says = "devices with more memory take the same step, and what fitted still fits"
    tolerance = "none"

    def draw(self, rng, program, scenario):
        return {"engine": rng.choice(("estimate", "simulate")), "memory": rng.choice(("100 GiB", "1000 GiB"))}

    def judge(self, program, scenario, parameters):
        more = scenario
        if get(scenario, "cluster.file"):
            more = put(scenario, "cluster.device.memory", parameters["memory"])
        else:
            groups = [
                {**g, "device": {"file": g["device"], "memory": parameters["memory"]}} for g in get(scenario, "cluster.groups")
            ]
            more = put(scenario, "cluster.groups", groups)
        calls = [(estimate if parameters["engine"] == "estimate" else simulate)(s) for s in (scenario, more)]
        a, b = (program.answer(call).metrics for call in calls)
        if (
            a["step_time_s"] != b["step_time_s"]
            or a["peak_memory_bytes"] != b["peak_memory_bytes"]
            or (a["fits"] and not b["fits"])
        ):
            return Finding(
                calls,
                f"{milliseconds(a['step_time_s'])}, fits {a['fits']} against {milliseconds(b['step_time_s'])}, fits {b['fits']}",
            )
        return None


# ---- recompute, ZeRO, who waits ---------------------------------------------------------------------------------------------------


@add
class RecomputeTime(Property):
    name = "recompute-time"
    says = "recompute none is never slower than selective, selective never slower than full; cuts are stated"
    tolerance = f"{ROUNDED}: rounding of tasks to picoseconds"
    key = "step_time_s"

    def draw(self, rng, program, scenario):
        return {"pair": rng.choice((("none", "selective"), ("selective", "full"), ("none", "full")))}

    def judge(self, program, scenario, parameters):
        need(cut(scenario))
        less, more = (estimate({**scenario, "recompute": mode}) for mode in parameters["pair"])
        if self.key == "peak_memory_bytes":
            less, more = more, less
        return not_above(
            program, less, more, ROUNDED, self.key, f"recompute {less.scenario['recompute']} against {more.scenario['recompute']}"
        )


@add
class RecomputeMemory(RecomputeTime):
    name = "recompute-memory"
    says = "recompute full never needs more memory than selective, selective never more than none"
    tolerance = f"{BYTES} bytes: rounding of a device's parts"
    key = "peak_memory_bytes"


@add
class RecomputeKeeps(Property):
    name = "recompute-keeps-inputs"
    says = "under full recompute every device keeps what its stages received, because the recompute starts there; a rank that has the model's first stage alone receives nothing"
    tolerance = "none: more than 0 bytes"

    def judge(self, program, scenario, parameters):
        call = estimate({**scenario, "recompute": "full"})
        order = program.order(family(scenario), ranks(scenario)[0], get(scenario, "batch.microbatches"), options(scenario))
        receives = {order["stage_to_rank"][stage] for chain in order["chains"] for stage in chain[1:]}
        document = program.answer(call).document
        rank = {row["device"]: row["rank"] for row in document["metrics"]["per_device"]}
        for row in document["memory"]:
            if row["parts"].get("activations", 0) <= 0 and rank[row["device"]] in receives:
                return Finding([call], f"device {row['device']} keeps no activations: {row['parts']}", 1)
        return None


@add
class ZeroMemory(Property):
    name = "zero-memory"
    says = (
        "a higher ZeRO stage never needs more memory on any device; stage 3 may need more than 2 by what its gathered blocks exceed the weights that it "
        "gives up: allocator factor x (the two blocks with most parameters, twice where a rank has several stages, - weights x (1 - 1/data)). Two blocks are gathered at a time: "
        "neighbours, or the last of a pass and the first of the next"
    )
    tolerance = f"{BYTES} bytes: rounding of a device's parts"
    hints = {"data": (2, 3, 4, 8), "plain": True, "kinds": False}

    def draw(self, rng, program, scenario):
        need(ranks(scenario)[1] > 1)
        return {"stage": rng.choice((1, 2, 3, 3))}

    def gathered(self, program, scenario):
        """Bytes of the two blocks with most parameters: from each unit alone on a rank of a large cluster."""
        units = units_of(program, scenario)
        tensor = ranks(scenario)[2]
        apart = {key: scenario[key] for key in ("panpipe", "workload", "precision", "framework", "optimizer") if key in scenario}
        apart.update(
            cluster={"file": "clusters/dgx-a100-80g.yaml", "nodes": (len(units) * 8 + 7) // 8},
            batch={"micro": 1, "microbatches": 1},
            parallel={"pipeline": len(units), "tensor": tensor, "data": 1},
            partition=[unit["index"] for unit in units[1:]],
        )
        rows = {row["device"]: row for row in program.answer(estimate(apart)).document["memory"]}
        blocks, last = [], None
        for i, unit in enumerate(units):
            size = rows[i * tensor]["parts"].get("parameters", 0)
            if unit["block"] and unit["block"] == last:
                blocks[-1] += size
            else:
                blocks.append(size)
            last = unit["block"]
        return sum(sorted(blocks)[-2:])

    def judge(self, program, scenario, parameters):
        stage, data = parameters["stage"], ranks(scenario)[1]
        need(data > 1)
        calls = [estimate(put(scenario, "parallel.zero", z)) for z in (stage - 1, stage)]
        before, after = ({row["device"]: row for row in program.answer(call).document["memory"]} for call in calls)
        for device in sorted(before.keys() & after.keys()):
            allowed, parts = 0.0, before[device]["parts"]
            if stage == 3:
                counted = sum(v for k, v in parts.items() if k not in ("context", "fragmentation"))
                factor = 1 + parts.get("fragmentation", 0) / counted
                chains = program.order(
                    family(scenario), ranks(scenario)[0], get(scenario, "batch.microbatches"), options(scenario)
                )
                several = max(1, len(chains["stage_to_rank"]) // ranks(scenario)[0])
                allowed = max(
                    0.0,
                    factor * (min(several, 2) * self.gathered(program, scenario) - parts.get("parameters", 0) * (1 - 1 / data)),
                )
            a, b = before[device]["peak_bytes"], after[device]["peak_bytes"]
            if b > a + allowed + BYTES:
                return Finding(
                    calls,
                    f"device {device}: ZeRO {stage - 1} {a / 2**20:.2f} MiB, ZeRO {stage} {b / 2**20:.2f} MiB, of which "
                    f"{allowed / 2**20:.2f} MiB more are explained",
                    b / a - 1,
                )
        return None


@add
class ZeroGathers(ZeroMemory):
    name = "zero-gathers"
    says = (
        "under ZeRO 3 a rank of one stage holds at most two gathered blocks beside its own parts: its peak is at most that of ZeRO 2 less the weights given up "
        "plus allocator factor x these two blocks"
    )
    hints = {
        "data": (2, 4, 8),
        "plain": True,
        "kinds": False,
        "model": ("gpt", "llama", "bert"),
        "family": ("gpipe", "1f1b", "zb-h1"),
    }

    def draw(self, rng, program, scenario):
        return {}

    def judge(self, program, scenario, parameters):
        data = ranks(scenario)[1]
        need(data > 1 and family(scenario) in ("gpipe", "1f1b", "kfkb", "zb-h1", "zb-h2"))
        calls = [estimate(put(scenario, "parallel.zero", z)) for z in (2, 3)]
        before, after = ({row["device"]: row for row in program.answer(call).document["memory"]} for call in calls)
        two = self.gathered(program, scenario)
        for device in sorted(before.keys() & after.keys()):
            parts = before[device]["parts"]
            counted = sum(v for k, v in parts.items() if k not in ("context", "fragmentation"))
            factor = 1 + parts.get("fragmentation", 0) / counted
            most = before[device]["peak_bytes"] + factor * (two - parts.get("parameters", 0) * (1 - 1 / data))
            if after[device]["peak_bytes"] > most + BYTES:
                return Finding(
                    calls,
                    f"device {device}: ZeRO 3 {after[device]['peak_bytes'] / 2**20:.2f} MiB, at most {most / 2**20:.2f} MiB with two blocks of together "
                    f"{two / 2**20:.2f} MiB gathered",
                    after[device]["peak_bytes"] / most - 1,
                )
        return None


@add
class Waiting(Property):
    name = "less-waiting"
    says = (
        "asynchronous transfers are never slower than blocking or batched ones; overlapped trailing collectives, overlapped gradients, inputs and outputs of a group "
        "unit by unit never slower than awaited ones; cuts are stated"
    )
    tolerance = f"{ROUNDED}: rounding of tasks to picoseconds; {TRAILING} for trailing collectives: the last one of a pass is outside the norm of host and device"
    PAIRS = (
        ("transfers.semantics", "asynchronous", "blocking"),
        ("transfers.semantics", "asynchronous", "batched"),
        ("trailing_collectives", "overlapped", "awaited"),
        ("overlap_gradients", True, False),
    )

    def draw(self, rng, program, scenario):
        return {"pair": rng.choice(self.PAIRS)}

    def judge(self, program, scenario, parameters):
        need(cut(scenario))
        key, less, more = parameters["pair"]
        tolerance = TRAILING if key == "trailing_collectives" else ROUNDED
        return not_above(
            program,
            estimate(put(scenario, key, less)),
            estimate(put(scenario, key, more)),
            tolerance,
            "step_time_s",
            f"{key} {less} against {more}",
        )


@add
class OverlapActs(Property):
    name = "overlap-acts"
    says = (
        "overlap_gradients shortens a step of which the gradients' reduction is a fifth or more, in buckets of 64 MiB, where the blocks fill three of them and have "
        "more parameters than the vocabulary, whose gradient comes last"
    )
    tolerance = "a hundred-thousandth of the step at least: a block of several can be reduced while another's backward runs"
    hints = {
        "pipeline": (1,),
        "tensor": (1,),
        "data": (2, 4, 8),
        "kinds": False,
        "plain": True,
        "family": ("gpipe", "1f1b"),
        "model": ("gpt", "llama", "bert", "vit"),
        "framework": ("eager", "eager-sdpa", "flash-attn", "llm.c", "torch-compile", "stp"),
    }

    def draw(self, rng, program, scenario):
        return {"zero": rng.choice((0, 1))}

    def judge(self, program, scenario, parameters):
        p, d, t = ranks(scenario)
        need(p == 1 and t == 1 and d > 1 and get(scenario, "workload.layers", 1) > 1)
        hidden, layers = get(scenario, "workload.hidden", 0), get(scenario, "workload.layers", 1)
        buckets = 12 * hidden * hidden * layers * 2 / 2**26  # two bytes an element at least
        need(buckets > 3 and 12 * hidden * layers >= get(scenario, "workload.vocabulary", 51200))
        scenario = put(put(scenario, "parallel.zero", parameters["zero"]), "gradient_bucket", "64 MiB")
        off, on = (estimate({**scenario, "overlap_gradients": value}) for value in (False, True))
        metrics = program.answer(off).metrics
        # Each bucket starts anew, in 0.1 ms, and a ring fills anew, which costs 64 MiB 3 % and more: where that is more than the backward hides, the whole is reduced.
        need(
            metrics["exposed_communication_s"] >= 0.2 * metrics["step_time_s"]
            and metrics["compute_s"] > 2 * buckets * 1e-4 + 0.2 * metrics["exposed_communication_s"]
        )
        a, b = program.answer(on).step, metrics["step_time_s"]
        if a > b * (1 - 1e-5):
            return Finding(
                [on, off],
                f"overlapped {milliseconds(a)}, awaited {milliseconds(b)} of which {milliseconds(metrics['exposed_communication_s'])} are communication",
                metrics["exposed_communication_s"] / b,
            )
        return None


# ---- network ---------------------------------------------------------------------------------------------------------------------


@add
class NarrowerUplinks(Property):
    name = "narrower-uplinks"
    says = "a higher oversubscription or a narrower spine never makes an estimate shorter; cuts are stated"
    tolerance = (
        f"{ROUNDED}: rounding of tasks to picoseconds. The estimate alone: on shared links one flow's loss may be another's gain"
    )
    hints = {"nodes": (2, 16), "kinds": False}

    def draw(self, rng, program, scenario):
        return {"key": rng.choice(("oversubscription", "spine")), "factor": rng.choice((2, 8, 64))}

    def sides(self, program, scenario, parameters):
        values = program.resolved(scenario)
        need("cluster.network.bandwidth" in values and int(values.get("cluster.nodes", 1)) > 1)
        if parameters["key"] == "oversubscription":
            return [put(scenario, "cluster.network.oversubscription", k) for k in (1, parameters["factor"])]
        return [
            put(scenario, "cluster.network.spine", scaled(values["cluster.network.bandwidth"], f))
            for f in (1, 1 / parameters["factor"])
        ]

    def judge(self, program, scenario, parameters):
        need(cut(scenario))
        wide, narrow = (estimate(s) for s in self.sides(program, scenario, parameters))
        return not_above(program, wide, narrow, ROUNDED, "step_time_s", f"wider {parameters['key']}")


@add
class UplinkFloor(NarrowerUplinks):
    name = "uplink-floor"
    says = (
        "a step that reduces gradients over N nodes is never shorter than what the network has to carry: (N - 1)/N of the weights' bytes out of every node, over "
        "its uplink, or from all nodes over the spine. Any reduction must carry that much; both engines"
    )
    tolerance = (
        "none: the bound is below what every algorithm takes (gradients are at least as large as weights in every precision)"
    )
    hints = {
        "nodes": (2, 16),
        "kinds": False,
        "plain": True,
        "pipeline": (1,),
        "data": (8, 16, 64),
        "tensor": (1, 1, 2, 8),
        "cluster": ("dgx-a100-80g", "h100x8", "rtx3090x8", "a800x8"),
        "family": ("1f1b", "gpipe"),
    }

    def draw(self, rng, program, scenario):
        return {**super().draw(rng, program, scenario), "engine": rng.choice(("estimate", "simulate"))}

    def judge(self, program, scenario, parameters):
        p, d, t = ranks(scenario)
        values = program.resolved(scenario)
        width = int(values.get("cluster.devices_per_node", 0))
        need(
            p == 1
            and d > 1
            and width
            and "placement" not in scenario
            and (d * t) % width == 0
            and d * t // width > 1
            and get(scenario, "parallel.zero", 0) == 0
        )
        nodes = d * t // width
        narrow = self.sides(program, scenario, parameters)[1]
        call = (estimate if parameters["engine"] == "estimate" else simulate)(narrow)
        document = program.answer(call).document
        # Each tensor-parallel rank has a part of the weights, and its own reduction; all of them leave the node.
        weights = sum(row["parts"]["parameters"] * len([row["device"], *row.get("copies", [])]) for row in document["memory"]) / d
        out = (nodes - 1) / nodes * weights
        per_second = 1e9 * float(values["cluster.network.bandwidth"].split()[0])
        if parameters["key"] == "oversubscription":
            floor = out / (per_second * int(values["cluster.network.nics_per_node"]) / parameters["factor"])
        else:
            floor = nodes * out / (per_second / parameters["factor"])
        if document["metrics"]["step_time_s"] < floor:
            return Finding(
                [call],
                f"step {milliseconds(document['metrics']['step_time_s'])}, the network alone takes {milliseconds(floor)}",
                floor / document["metrics"]["step_time_s"] - 1,
            )
        return None


@add
class GroupAcrossNodes(Property):
    name = "group-across-nodes"
    says = "a step takes longer when the last rank's tensor-parallel group lies across two nodes instead of inside one behind a switch"
    tolerance = (
        f"longer by more than {ROUNDED}: every microbatch's last forward waits for these collectives; on one rank, which hands nothing over, they take a tenth as long "
        "again at least"
    )
    hints = {
        "nodes": (2, 2),
        "kinds": False,
        "plain": True,
        "pipeline": (1, 2, 3),
        "tensor": (2, 4),
        "data": (1,),
        "cluster": ("dgx-a100-80g", "h100x8", "a800x8"),
        "family": ("gpipe", "1f1b"),
        "model": ("gpt", "llama", "bert"),
    }

    def judge(self, program, scenario, parameters):
        p, d, t = ranks(scenario)
        values = program.resolved(scenario)
        width = int(values.get("cluster.devices_per_node", 0))
        need(
            d == 1
            and t > 1
            and p * t + t <= width
            and int(values.get("cluster.nodes", 1)) > 1
            and cut(scenario)
            and "cluster.wiring.switch.bandwidth" in values
        )
        inside = {**scenario, "placement": list(range(p * t))}
        # The second half of the group moves to the same places of the other node; what hands over to its first device stays.
        across = {**scenario, "placement": [*range(p * t - t // 2), *range(width + p * t - t // 2, width + p * t)]}
        calls = [estimate(inside), estimate(across)]
        if p == 1:  # what is exposed is these collectives alone: the network's latency, and a NIC in place of a switch's port
            a, b = (program.answer(call).metrics["exposed_communication_s"] for call in calls)
            need(a > 0)
            if b < 1.1 * a:
                return Finding(calls, f"collectives inside a node {milliseconds(a)}, across two {milliseconds(b)}", 1.1 - b / a)
            return None
        a, b = (program.answer(call).step for call in calls)
        if b <= a * (1 + ROUNDED):
            return Finding(calls, f"inside a node {milliseconds(a)}, across two {milliseconds(b)}", a / b - 1 + 1e-9)
        return None


@add
class CopiesApart(Property):
    name = "copies-apart"
    says = "a copy on nodes of its own hands over to the next stage as fast as if it were the only one"
    tolerance = f"{SAME}"
    hints = {
        "nodes": (4, 4),
        "kinds": False,
        "plain": True,
        "pipeline": (4, 8, 16),
        "tensor": (1, 2),
        "data": (2,),
        "family": ("gpipe", "1f1b"),
        "model": ("gpt",),
        "cluster": ("rtx3090x8", "dgx-a100-80g", "h100x8", "rtx3090x8-nobridge"),
    }

    def judge(self, program, scenario, parameters):
        p, d, t = ranks(scenario)
        values = program.resolved(scenario)
        width, nodes = int(values.get("cluster.devices_per_node", 0)), int(values.get("cluster.nodes", 1))
        each = p * t // 2  # devices of a copy on each of its two nodes
        need(d == 2 and p > 1 and nodes >= 4 and p % 2 == 0 and each <= width)
        place = lambda copy, r, k: (2 * copy + (r * t + k) // each) * width + (r * t + k) % each
        both = {**scenario, "placement": [place(c, r, k) for r in range(p) for c in range(2) for k in range(t)]}
        alone = put({**scenario, "placement": [place(0, r, k) for r in range(p) for k in range(t)]}, "parallel.data", 1)
        alone, both = put(alone, "parallel.zero", 0), put(both, "parallel.zero", 0)
        calls = [estimate(s, "--json", "--timeline") for s in (both, alone)]
        seen = []
        for call in calls:
            spans = [s for s in program.answer(call).document["timeline"] if s["lane"] == "send" and s["microbatch"] == 0]
            seen.append({(s["device"], s["action"]): s["end_s"] - s["start_s"] for s in spans})
        for span in sorted(seen[0].keys() & seen[1].keys()):
            a, b = seen[0][span], seen[1][span]
            if abs(a - b) > SAME * b + 2e-12:
                return Finding(
                    calls,
                    f"device {span[0]} {span[1]}: {milliseconds(a)} with a copy elsewhere, {milliseconds(b)} alone",
                    abs(a / b - 1),
                )
        return None


# ---- the two engines -----------------------------------------------------------------------------------------------------------------


@add
class SimulateEqual(Property):
    name = "simulate-equal"
    says = "where the simulation reports no link with two flows at once it gives the estimate's step"
    tolerance = f"{SAME}"
    shared = False

    def judge(self, program, scenario, parameters):
        calls = [simulate(scenario), estimate(scenario)]
        document = program.answer(calls[0]).document
        a, b = document["metrics"]["step_time_s"], program.answer(calls[1]).step
        shared = any(row["shared_s"] > 0 for row in document.get("contention", []))
        need(shared == self.shared)
        if (a < b if self.shared else True) and abs(a - b) > SAME * b + 1e-12:
            return Finding(
                calls,
                f"simulated {milliseconds(a)}, estimated {milliseconds(b)}, {'a' if shared else 'no'} link is shared",
                abs(a / b - 1),
            )
        return None


@add
class SimulateLonger(SimulateEqual):
    name = "simulate-not-shorter"
    says = "where links are shared the simulation is never shorter than the estimate"
    hints = {
        "cluster": ("rtx3090x8", "rtx3090x8-nobridge", "a100-80g-pcie-x4", "a100-80g-pcie-x4-nobridge", "dgx-a100-80g"),
        "kinds": False,
    }
    shared = True


@add
class EnginesAgree(Property):
    name = "engines-agree"
    says = "SimGrid, the own solver, --no-fold, --no-merge and both give the same step, memory and figures of every device"
    tolerance = f"{SAME} of the step: both backends round the end of a flow to a picosecond"
    FORMS = (
        ("--backend", "simgrid"),
        ("--backend", "flow", "--no-fold"),
        ("--backend", "flow", "--no-merge"),
        ("--backend", "flow", "--no-fold", "--no-merge"),
    )

    def draw(self, rng, program, scenario):
        return {"form": rng.choice(self.FORMS)}

    def judge(self, program, scenario, parameters):
        calls = [simulate(scenario), Call("simulate", scenario, tuple(parameters["form"]))]
        return same_metrics(program, calls, SAME)


def same_metrics(program, calls, tolerance, leave=("contention_s",)):
    a, b = (program.answer(call).metrics for call in calls)
    step = b["step_time_s"]
    for key in (key for key in a if key in b):
        if key == "per_device" or key in leave:
            continue
        x, y = a[key], b[key]
        scale = step if key.endswith("_s") else max(abs(x), abs(y))
        if (abs(x - y) > tolerance * scale + 1e-12) if not isinstance(x, bool) else x != y:
            return Finding(calls, f"{key} {x} against {y}", abs(x - y) / scale if scale else 1)
    x, y = ([(row["step_time_s"], row["peak_memory_bytes"]) for row in m["per_device"]] for m in (a, b))
    for (s, memory), (other, other_memory) in zip(sorted(x), sorted(y)):
        if abs(s - other) > tolerance * step + 1e-12 or abs(memory - other_memory) > BYTES:
            return Finding(
                calls, f"a device ends at {milliseconds(s)} with {memory} bytes against {milliseconds(other)} with {other_memory}"
            )
    return None


# ---- forms of one scenario -------------------------------------------------------------------------------------------------------------


def engine(rng):
    return {"engine": rng.choice(("estimate", "simulate"))}


@add
class FamilyIsCsv(Property):
    name = "family-is-its-csv"
    says = "a schedule family and the file that `panpipe schedule --csv` writes of it give the same figures"
    tolerance = "none"

    def draw(self, rng, program, scenario):
        return engine(rng)

    def judge(self, program, scenario, parameters):
        need("recompute" not in options(scenario))
        name, microbatches = family(scenario), get(scenario, "batch.microbatches")
        csv = program.order_csv(name, ranks(scenario)[0], microbatches, options(scenario))
        need("." not in csv.split(",")[0])
        other = with_file({**scenario, "schedule": {"csv": "order.csv"}}, "order.csv", csv)
        make = estimate if parameters["engine"] == "estimate" else simulate
        return same_metrics(program, [make(scenario), make(other)], 0)


@add
class WrittenForms(Property):
    name = "written-forms"
    says = "scenario.yaml and plan.yaml, as -o writes them, give the figures of the scenario"
    tolerance = "none"

    def draw(self, rng, program, scenario):
        return {**engine(rng), "form": rng.choice(("scenario.yaml", "plan.yaml"))}

    def judge(self, program, scenario, parameters):
        call = (estimate if parameters["engine"] == "estimate" else simulate)(scenario)
        return same_metrics(program, [call, dataclasses.replace(call, form=parameters["form"])], 0)


@add
class Mirrored(Property):
    name = "mirrored-devices"
    says = "on nodes of one kind the last device in the place of the first, and so on, gives the same figures"
    tolerance = f"{SAME}: flows are added in another order"
    hints = {"kinds": False}

    def draw(self, rng, program, scenario):
        return engine(rng)

    def judge(self, program, scenario, parameters):
        values = program.resolved(scenario)
        need("cluster.devices_per_node" in values)
        last = int(values["cluster.devices_per_node"]) * int(values.get("cluster.nodes", 1)) - 1
        p, d, t = ranks(scenario)
        place = scenario.get("placement", list(range(p * d * t)))
        make = estimate if parameters["engine"] == "estimate" else simulate
        return same_metrics(program, [make({**scenario, "placement": [last - device for device in place]}), make(scenario)], SAME)


@add
class ReplicasExchanged(Property):
    name = "replicas-exchanged"
    says = (
        "on unlike devices the replicas in reverse order give the same step and the same answer whether it fits; cuts are stated"
    )
    tolerance = f"{SAME}: flows are added in another order. In reverse, so that rings keep their neighbours"
    hints = {"kinds": True, "data": (2,)}

    def hinted(self, rng):
        return {**self.hints, "plain": True}

    def draw(self, rng, program, scenario):
        need(get(scenario, "cluster.groups") is not None)
        return engine(rng)

    def judge(self, program, scenario, parameters):
        p, d, t = ranks(scenario)
        need(get(scenario, "cluster.groups") is not None and d > 1 and cut(scenario))
        place = scenario.get("placement", list(range(p * d * t)))
        turned = [place[(r * d + d - 1 - c) * t + k] for r in range(p) for c in range(d) for k in range(t)]
        make = estimate if parameters["engine"] == "estimate" else simulate
        calls = [make({**scenario, "placement": turned}), make(scenario)]
        a, b = (program.answer(call).metrics for call in calls)
        if abs(a["step_time_s"] - b["step_time_s"]) > SAME * b["step_time_s"] or a["fits"] != b["fits"]:
            return Finding(
                calls,
                f"{milliseconds(a['step_time_s'])}, fits {a['fits']} against {milliseconds(b['step_time_s'])}, fits {b['fits']}",
                abs(a["step_time_s"] / b["step_time_s"] - 1),
            )
        return None


@add
class OwnMemory(Property):
    name = "own-memory"
    says = "on unlike devices every device is judged against its own memory, and the step fits when all do"
    tolerance = "none"
    hints = {"kinds": True, "plain": True}

    def judge(self, program, scenario, parameters):
        groups = get(scenario, "cluster.groups")
        need(groups is not None)
        call = estimate(scenario)
        metrics = program.answer(call).metrics
        limits = []
        for group in groups:
            alone = {
                "panpipe": 1,
                "cluster": {"groups": [{**group, "nodes": 1}], "network": get(scenario, "cluster.network")},
                "workload": {"model": "gpt", "layers": 1, "hidden": 64, "heads": 1},
                "batch": {"micro": 1, "microbatches": 1},
                "parallel": {"pipeline": 1, "tensor": 1, "data": 1},
            }
            limits += [program.answer(estimate(alone)).metrics["memory_limit_bytes"]] * (
                group.get("nodes", 1) * group["devices_per_node"]
            )
        for row in metrics["per_device"]:
            own = limits[row["device"]]
            if row["memory_limit_bytes"] != own or row["fits"] != (row["peak_memory_bytes"] <= own):
                return Finding(
                    [call],
                    f"device {row['device']} may fill {own / 2**30:.2f} GiB and is judged by {row['memory_limit_bytes'] / 2**30:.2f} GiB, fits {row['fits']}",
                    1,
                )
        if metrics["fits"] != all(row["fits"] for row in metrics["per_device"]):
            return Finding([call], f"fits {metrics['fits']}, its devices {[row['fits'] for row in metrics['per_device']]}")
        return None


@add
class UnusedNodes(Property):
    name = "unused-nodes"
    says = "nodes that the plan does not use change neither step nor memory"
    tolerance = "none"
    hints = {"kinds": False, "nodes": (1, 8)}

    def draw(self, rng, program, scenario):
        return {**engine(rng), "more": rng.choice((1, 3, 56))}

    def judge(self, program, scenario, parameters):
        need(get(scenario, "cluster.nodes") and "cluster.network.bandwidth" in program.resolved(scenario))
        more = put(scenario, "cluster.nodes", scenario["cluster"]["nodes"] + parameters["more"])
        make = estimate if parameters["engine"] == "estimate" else simulate
        return same_metrics(program, [make(more), make(scenario)], 0)


@add
class Figures(Property):
    name = "figures-add-up"
    says = (
        "within one answer: the step is its longest device's, means are means, samples/s is batch over step, MFU is model FLOPs over step and peaks, the parts of a device's memory "
        "add up to its peak, the answer fits when every device does"
    )
    tolerance = f"{SAME}; bytes exactly"

    def draw(self, rng, program, scenario):
        return engine(rng)

    def judge(self, program, scenario, parameters):
        call = (estimate if parameters["engine"] == "estimate" else simulate)(scenario)
        document = program.answer(call).document
        m, batch = document["metrics"], scenario["batch"]
        devices = m["per_device"]
        mean = lambda key: sum(row[key] for row in devices) / len(devices)
        wanted = {
            "step_time_s": max(row["step_time_s"] for row in devices),
            "compute_s": mean("compute_s"),
            "exposed_communication_s": mean("exposed_communication_s"),
            "peak_memory_bytes": max(row["peak_memory_bytes"] for row in devices),
            "fits": all(row["fits"] for row in devices),
            "samples_per_s": batch["micro"] * batch["microbatches"] * ranks(scenario)[1] / m["step_time_s"],
        }
        for key, value in wanted.items():
            if abs(m[key] - value) > SAME * abs(value):
                return Finding([call], f"{key} {m[key]}, by its devices {value}")
        for row in document["memory"]:
            if sum(row["parts"].values()) != row["peak_bytes"]:
                return Finding(
                    [call], f"device {row['device']}: the parts {sum(row['parts'].values())}, the peak {row['peak_bytes']} bytes"
                )
        for row in devices:
            if (
                row["compute_s"] + row["exposed_communication_s"] > m["step_time_s"] * (1 + SAME)
                or not 0 <= row["bubble_step"] <= 1
            ):
                return Finding(
                    [call],
                    f"device {row['device']}: compute {row['compute_s']} and exposed {row['exposed_communication_s']} in a step of {m['step_time_s']}",
                )
        peaks = self.peaks(program, scenario, devices)
        if peaks and abs(m["mfu"] - m["model_flops"] / m["step_time_s"] / peaks) > 1e-6 * m["mfu"]:
            return Finding([call], f"mfu {m['mfu']}, by the peaks of its devices {m['model_flops'] / m['step_time_s'] / peaks}")
        return None

    def peaks(self, program, scenario, devices):
        """Sum of the devices' dense peaks in FLOP/s."""
        precision = scenario.get("precision", "fp32").replace("-pure", "")
        if get(scenario, "cluster.file"):
            value = program.resolved(scenario).get(f"cluster.device.peak.{precision}")
            return len(devices) * flops(value) if value else None
        rates = []
        for group in get(scenario, "cluster.groups", []):
            alone = {
                "panpipe": 1,
                "cluster": {"device": group["device"], "nodes": 1, "devices_per_node": 1},
                "workload": {"model": "gpt", "layers": 1, "hidden": 64, "heads": 1},
                "batch": {"micro": 1, "microbatches": 1},
            }
            value = program.resolved(alone).get(f"cluster.device.peak.{precision}")
            if not value:
                return None
            rates += [flops(value)] * (group.get("nodes", 1) * group["devices_per_node"])
        return sum(rates[row["device"]] for row in devices)


def flops(value):
    number, unit = value.split()
    return float(number) * {"GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15}[unit]


@add
class LaunchFloor(Property):
    name = "launch-floor"
    says = (
        "a step is never shorter than the launches of its ranks' passes: launches of a microbatch (`check --costs`) x microbatches x time of a launch, shared out "
        "over the ranks, since some rank has at least the mean"
    )
    tolerance = f"{ROUNDED}: rounding of tasks to picoseconds"
    hints = {"kinds": False, "framework": ("megatron", "eager", "stp", "megatron-deepspeed", "flash-attn", "megatron-zb")}

    def hinted(self, rng):
        # Groups that are woven, over many microbatches: what hides there must not be the host's time.
        if chance(rng, 0.4):
            return {
                **self.hints,
                "model": ("gpt",),
                "family": ("stp", "dualpipe-v"),
                "tensor": (2, 4, 8),
                "pipeline": (1, 2),
                "microbatches": (24, 60),
                "micro": (1,),
            }
        return short(rng, self.hints)

    def judge(self, program, scenario, parameters):
        need(get(scenario, "cluster.file"))
        look, call = Call("check", {**scenario, "recompute": "none"}, ("--costs", "--json")), estimate(
            {**scenario, "recompute": "none"}
        )
        need("sequence_splits" not in dict(options(scenario)))
        device = program.answer(look).document["devices"][0]
        launches = sum(
            unit["count"] * unit[part]["launches"]
            for unit in device["units"]
            for part in ("forward", "input_gradient", "weight_gradient")
        )
        value, unit = device["calibration"]["values"]["launch"].split()
        floor = (
            launches
            * float(value)
            * {"us": 1e-6, "ms": 1e-3, "ns": 1e-9}[unit]
            * get(scenario, "batch.microbatches")
            / ranks(scenario)[0]
        )
        step = program.answer(call).step
        if step < floor * (1 - ROUNDED):
            return Finding([call, look], f"step {milliseconds(step)}, its launches alone {milliseconds(floor)}", floor / step - 1)
        return None


@add
class SizesAlike(Property):
    name = "sizes-alike"
    says = (
        "a vocabulary that makes the logits as large as the hidden state is a size as any other: with 128 entries a tensor-parallel rank more, the head keeps no less, and "
        "more by no greater share than the vocabulary grew"
    )
    tolerance = "1 %: what the head keeps beside the logits"
    hints = {"model": ("gpt", "llama"), "kinds": False, "pipeline": (1, 2), "plain": True}

    def judge(self, program, scenario, parameters):
        t = ranks(scenario)[2]
        hidden = get(scenario, "workload.hidden")
        need(get(scenario, "workload.model") in ("gpt", "llama") and hidden * t % 128 == 0 and hidden >= 512)
        scenario = drop(scenario, "partition")
        calls = [
            Call("check", put(scenario, "workload.vocabulary", v), ("--costs", "--json"))
            for v in (hidden * t, (hidden + 128) * t)
        ]
        a, b = (program.answer(call).document["devices"][0]["units"][-1]["saved_bytes"] for call in calls)
        if not a <= b <= a * (1 + 128 / hidden + 0.01):
            return Finding(
                calls,
                f"the head keeps {a / 2**20:.2f} MiB with a vocabulary of {hidden * t}, {b / 2**20:.2f} MiB with {(hidden + 128) * t}",
                abs(b / a - 1),
            )
        return None


# ---- searches ----------------------------------------------------------------------------------------------------------------------------

# The families that `plan --method auto` searches in full (docs/models/plan-auto.md).
SEARCHED = (
    "gpipe",
    "1f1b",
    "kfkb",
    "zb-h1",
    "zb-h2",
    "interleaved-1f1b",
    "looped-bfs",
    "interleaved-zero-bubble",
    "group-interleaved",
    "gis-h",
    "hanayo",
    "1f1b-v",
    "zb-v",
    "stp",
    "dualpipe-v",
)
SEVERAL = ("interleaved-1f1b", "looped-bfs", "interleaved-zero-bubble", "group-interleaved", "gis-h", "hanayo")


class Search(Property):
    """A search over what is left open: degrees, ZeRO, microbatch, recompute, and the family where the parameters ask for it."""

    weight = 0.25  # takes as long as twenty other comparisons
    hints = {
        "kinds": False,
        "plain": True,
        "nodes": (1, 2),
        "model": ("gpt", "gpt", "llama", "bert", "vit"),
        "framework": ("megatron", "megatron-deepspeed", "stp", "eager", "flash-attn"),
        "cluster": ("rtx3090x8", "rtx3090x8", "rtx3090x8-nobridge", "dgx-a100-80g", "a100-80g-pcie-x4", "a800x8"),
    }

    def draw(self, rng, program, scenario):
        return {"seed": rng.randrange(1 << 30), "family": rng.choice((True, False)), "global": rng.choice((8, 16, 32))}

    def open(self, scenario, parameters):
        kept = {
            key: scenario[key]
            for key in ("panpipe", "cluster", "workload", "precision", "framework", "usable")
            if key in scenario
        }
        kept.update(batch={"micro": "auto", "microbatches": parameters["global"]}, recompute="auto")
        kept["schedule"] = "auto" if parameters["family"] else family(scenario) if family(scenario) in SEARCHED else "1f1b"
        return kept

    def members(self, program, scenario, parameters, number):
        """Random members of the searched space, as scenarios."""
        rng = random.Random(parameters["seed"])
        opened = self.open(scenario, parameters)
        values = program.resolved(scenario)
        width = int(values["cluster.devices_per_node"])
        devices = width * int(values.get("cluster.nodes", 1))
        for _ in range(number):
            tensor = rng.choice([n for n in (1, 2, 4, 8) if n <= width])
            data = rng.choice([n for n in (1, 2, 4, 8, 16) if parameters["global"] % n == 0 and tensor * n <= devices] or [1])
            pipeline = rng.choice([n for n in (1, 1, 2, 2, 4, 8) if tensor * data * n <= devices])
            micro = rng.choice([n for n in (1, 2, 4, 8, 16) if parameters["global"] // data % n == 0] or [1])
            name = rng.choice(SEARCHED) if parameters["family"] else opened["schedule"]
            if (
                pipeline == 1 and parameters["family"] and name in SEVERAL
            ):  # on one rank the search cuts no stages, which ZeRO's traffic would tell apart
                continue
            parallel = {"pipeline": pipeline, "tensor": tensor, "data": data, "zero": rng.choice((0, 1, 2, 3)) if data > 1 else 0}
            if name in SEVERAL:
                parallel["virtual_stages"] = rng.choice((2, 2, 4) if name == "hanayo" else (1, 2, 2, 3, 4))
            yield {
                **opened,
                "batch": {"micro": micro, "microbatches": parameters["global"] // data // micro},
                "parallel": parallel,
                "schedule": name,
                "recompute": rng.choice(("none", "none", "selective", "full")),
            }


@add
class PlanNotBeaten(Search):
    name = "plan-not-beaten"
    says = (
        "`plan --method auto` is not slower than random members of its own space that fit, judged by the simulation where the answer was simulated; the families that "
        "are tried last are not drawn"
    )
    tolerance = f"{ROUNDED}: rounding of tasks to picoseconds"

    def judge(self, program, scenario, parameters):
        search = Call("plan", self.open(scenario, parameters), ("--json",))
        found = program.answer(search).document
        need(found["feasible"])
        best = found["best"].get("simulated") or found["best"]["metrics"]
        make = simulate if "simulated" in found["best"] else estimate
        for member in self.members(program, scenario, parameters, 24):
            call = make(member)
            answer = program.ask(estimate(member))
            if not answer.accepted or answer.step > best["step_time_s"] * (1 - ROUNDED) or not answer.metrics["fits"]:
                continue
            step = program.answer(call).step
            if step < best["step_time_s"] * (1 - ROUNDED):
                return Finding(
                    [search, call],
                    f"the search {milliseconds(best['step_time_s'])} ({found['best']['summary']}), proved {found['search']['proved_optimal']}; this member {milliseconds(step)}",
                    best["step_time_s"] / step - 1,
                )
        return None


@add
class PlanBound(Search):
    name = "plan-bound"
    says = "the lower bound of `plan --method auto` is not above any member's estimate"
    tolerance = f"{ROUNDED}: rounding of tasks to picoseconds"

    def judge(self, program, scenario, parameters):
        search = Call("plan", self.open(scenario, parameters), ("--json",))
        found = program.answer(search).document
        need(found["feasible"])
        bound = found["search"]["lower_bound"]
        for member in self.members(program, scenario, parameters, 24):
            answer = program.ask(estimate(member))
            if answer.accepted and answer.metrics["fits"] and answer.step < bound * (1 - ROUNDED):
                return Finding(
                    [search, estimate(member)],
                    f"the bound {milliseconds(bound)}, this member {milliseconds(answer.step)}",
                    bound / answer.step - 1,
                )
        return None


@add
class PlanDisplay(Search):
    name = "plan-display"
    says = "how many plans are shown and how many threads search change no answer of `plan`"
    tolerance = "none"

    def draw(self, rng, program, scenario):
        return {
            **super().draw(rng, program, scenario),
            "options": rng.choice((("--candidates", "1"), ("--candidates", "20"), ("--threads", "1"))),
        }

    def judge(self, program, scenario, parameters):
        opened = self.open(scenario, parameters)
        calls = [Call("plan", opened, ("--json",)), Call("plan", opened, tuple(parameters["options"]) + ("--json",))]
        a, b = (program.answer(call).document for call in calls)
        for key in ("best", "search"):
            if a[key] != b[key]:
                seen = [
                    (
                        (d["best"]["summary"], (d["best"].get("simulated") or d["best"]["metrics"])["step_time_s"])
                        if key == "best"
                        else d[key]
                    )
                    for d in (a, b)
                ]
                return Finding(calls, f"{key}: {seen[0]} against {seen[1]}")
        return None


@add
class PlanSettings(Search):
    name = "plan-settings"
    says = "the settings that `plan` prints, set in the scenario, give the figures that it prints; both methods"
    tolerance = f"{SAME}"

    def draw(self, rng, program, scenario):
        return {
            **super().draw(rng, program, scenario),
            "method": rng.choice(("auto", "pfeife")),
            "tight": rng.choice((0, 0.95, 0.8, 0.6)),
        }

    def judge(self, program, scenario, parameters):
        opened = self.open(scenario, parameters)
        if parameters["method"] == "pfeife":
            # That method takes the degrees as stated.
            opened = {**drop(scenario, "partition"), "schedule": {"name": "pfeife"}, "recompute": "auto"}
            need(ranks(scenario)[0] > 1)
            if parameters["tight"]:  # so little memory that some stages have to recompute
                peak = program.answer(estimate({**opened, "recompute": "none"})).peak
                opened = put(
                    put(opened, "cluster.device.memory", f"{peak * parameters['tight'] / 2**30:.4f} GiB"),
                    "cluster.device.usable",
                    "100 %",
                )
        search = Call("plan", opened, ("--method", parameters["method"], "--json"))
        found = program.answer(search).document
        need(found["feasible"])
        need(not any("the stages recompute differently" in note for note in found["notes"]))  # which no key can state
        settled = tuple(
            part
            for key, value in found["best"]["settings"].items()
            for part in ("--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}")
        )
        again = Call("estimate", opened, settled)
        a, b = found["best"]["metrics"], program.answer(again).metrics
        for key in ("step_time_s", "peak_memory_bytes", "fits"):
            if abs(a[key] - b[key]) > SAME * abs(b[key]):
                return Finding([search, again], f"{key}: printed {a[key]}, set again {b[key]}")
        return None

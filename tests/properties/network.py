"""Transfers and collectives: what waits for them, and how long a network takes."""

from base import ROUNDED, SAME, Finding, Property, cut, estimate, made_by, milliseconds, need, nodes_of, not_above, ranks
from program import get, put
from shipped import scaled

# A pass bound by its host ends later where its last collective runs behind what the host launched than where both are in one norm.
TRAILING = 5e-3


class Waiting(Property):
    name = "less-waiting"
    claim = (
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

    def judge(self, program, scenario, pair):
        need(cut(scenario))
        key, less, more = pair
        given = (put(scenario, key, value) for value in (less, more))
        return not_above(program, *given, f"{key} {less} against {more}", TRAILING if key == "trailing_collectives" else ROUNDED)


class OverlapActs(Property):
    name = "overlap-acts"
    claim = (
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

    def judge(self, program, scenario, zero):
        p, d, t = ranks(scenario)
        hidden, layers = get(scenario, "workload.hidden", 0), get(scenario, "workload.layers", 1)
        need(p == 1 and t == 1 and d > 1 and layers > 1)
        buckets = 12 * hidden * hidden * layers * 2 / 2**26  # two bytes an element at least
        need(buckets > 3 and 12 * hidden * layers >= get(scenario, "workload.vocabulary", 51200))
        scenario = put(put(scenario, "parallel.zero", zero), "gradient_bucket", "64 MiB")
        off, on = (estimate({**scenario, "overlap_gradients": value}) for value in (False, True))
        metrics = program.answer(off).metrics
        exposed = metrics["exposed_communication_s"]
        # Each bucket starts anew, in 0.1 ms, and a ring fills anew, which costs 64 MiB 3 % and more: where that is more than the backward hides, the whole is reduced.
        need(exposed >= 0.2 * metrics["step_time_s"] and metrics["compute_s"] > 2 * buckets * 1e-4 + 0.2 * exposed)
        a, b = program.answer(on).step, metrics["step_time_s"]
        if a > b * (1 - 1e-5):
            return Finding(
                [on, off],
                f"overlapped {milliseconds(a)}, awaited {milliseconds(b)} of which {milliseconds(exposed)} are communication",
            )
        return None


class NarrowerUplinks(Property):
    name = "narrower-uplinks"
    claim = "a higher oversubscription or a narrower spine never makes an estimate shorter; cuts are stated"
    tolerance = (
        f"{ROUNDED}: rounding of tasks to picoseconds. The estimate alone: on shared links one flow's loss may be another's gain"
    )
    hints = {"nodes": (2, 16), "kinds": False}

    def draw(self, rng, program, scenario):
        return {"key": rng.choice(("oversubscription", "spine")), "factor": rng.choice((2, 8, 64))}

    def sides(self, program, scenario, key, factor):
        values = program.resolved(scenario)
        need("cluster.network.bandwidth" in values and nodes_of(values)[1] > 1)
        if key == "oversubscription":
            return [put(scenario, "cluster.network.oversubscription", k) for k in (1, factor)]
        bandwidth = values["cluster.network.bandwidth"]
        return [put(scenario, "cluster.network.spine", scaled(bandwidth, f)) for f in (1, 1 / factor)]

    def judge(self, program, scenario, key, factor):
        need(cut(scenario))
        return not_above(program, *self.sides(program, scenario, key, factor), f"wider {key}")


class UplinkFloor(NarrowerUplinks):
    name = "uplink-floor"
    claim = (
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

    def judge(self, program, scenario, key, factor, engine):
        p, d, t = ranks(scenario)
        values = program.resolved(scenario)
        width = nodes_of(values)[0]
        need(p == 1 and d > 1 and width and "placement" not in scenario and get(scenario, "parallel.zero", 0) == 0)
        need((d * t) % width == 0 and d * t // width > 1)
        nodes = d * t // width
        call = made_by(engine, self.sides(program, scenario, key, factor)[1])
        document = program.answer(call).document
        # Each tensor-parallel rank has a part of the weights, and its own reduction; all of them leave the node.
        weights = sum(row["parts"]["parameters"] * len([row["device"], *row.get("copies", [])]) for row in document["memory"]) / d
        out = (nodes - 1) / nodes * weights
        per_second = 1e9 * float(values["cluster.network.bandwidth"].split()[0]) / factor
        if key == "oversubscription":
            floor = out / (per_second * int(values["cluster.network.nics_per_node"]))
        else:
            floor = nodes * out / per_second
        step = document["metrics"]["step_time_s"]
        if step < floor:
            return Finding([call], f"step {milliseconds(step)}, the network alone takes {milliseconds(floor)}")
        return None


class GroupAcrossNodes(Property):
    name = "group-across-nodes"
    claim = "a step takes longer when the last rank's tensor-parallel group lies across two nodes instead of inside one behind a switch"
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

    def judge(self, program, scenario):
        p, d, t = ranks(scenario)
        values = program.resolved(scenario)
        width, nodes = nodes_of(values)
        need(d == 1 and t > 1 and p * t + t <= width and nodes > 1 and cut(scenario))
        need("cluster.wiring.switch.bandwidth" in values)
        inside = {**scenario, "placement": list(range(p * t))}
        # The second half of the group moves to the same places of the other node; what hands over to its first device stays.
        across = {**scenario, "placement": [*range(p * t - t // 2), *range(width + p * t - t // 2, width + p * t)]}
        calls = [estimate(inside), estimate(across)]
        # On one rank what is exposed is these collectives alone: the network's latency, and a NIC in place of a switch's port.
        key, longer = ("exposed_communication_s", 1.1) if p == 1 else ("step_time_s", 1 + ROUNDED)
        a, b = (program.answer(call).metrics[key] for call in calls)
        need(a > 0)
        if b <= longer * a:
            return Finding(calls, f"{key} inside a node {milliseconds(a)}, across two {milliseconds(b)}")
        return None


class CopiesApart(Property):
    name = "copies-apart"
    claim = "a copy on nodes of its own hands over to the next stage as fast as if it were the only one"
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

    def judge(self, program, scenario):
        p, d, t = ranks(scenario)
        width, nodes = nodes_of(program.resolved(scenario))
        each = p * t // 2  # devices of a copy on each of its two nodes
        need(d == 2 and p > 1 and nodes >= 4 and p % 2 == 0 and each <= width)
        place = lambda copy, r, k: (2 * copy + (r * t + k) // each) * width + (r * t + k) % each
        sends = lambda document: [s for s in document["timeline"] if s["lane"] == "send" and s["microbatch"] == 0]
        calls, seen = [], []
        for copies in (2, 1):
            placement = [place(c, r, k) for r in range(p) for c in range(copies) for k in range(t)]
            placed = put(put({**scenario, "placement": placement}, "parallel.data", copies), "parallel.zero", 0)
            calls.append(estimate(placed, "--json", "--timeline"))
            spans = sends(program.answer(calls[-1]).document)
            seen.append({(s["device"], s["action"]): s["end_s"] - s["start_s"] for s in spans})
        for device, action in sorted(seen[0].keys() & seen[1].keys()):
            a, b = (times[device, action] for times in seen)
            if abs(a - b) > SAME * b + 2e-12:
                shown = f"{milliseconds(a)} with a copy elsewhere, {milliseconds(b)} alone"
                return Finding(calls, f"device {device} {action}: {shown}")
        return None

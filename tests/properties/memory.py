"""Recompute, ZeRO and the memory of each device."""

from base import BYTES, ROUNDED, Finding, Property, cut, estimate, family, in_sums, mib, need, not_above, order_of, ranks
from base import ONE_STAGE_FAMILIES
from generator import units_of
from program import TINY, get, put


class RecomputeTime(Property):
    name = "recompute-time"
    claim = "recompute none is never slower than selective, selective never slower than full; cuts are stated"
    tolerance = f"{ROUNDED}: rounding of tasks to picoseconds"
    key = "step_time_s"

    def draw(self, rng, program, scenario):
        return {"pair": rng.choice((("none", "selective"), ("selective", "full"), ("none", "full")))}

    def judge(self, program, scenario, pair):
        need(cut(scenario))
        less, more = pair if self.key == "step_time_s" else pair[::-1]
        given = ({**in_sums(scenario), "recompute": mode} for mode in (less, more))
        return not_above(program, *given, f"recompute {less} against {more}", key=self.key)


class RecomputeMemory(RecomputeTime):
    name = "recompute-memory"
    claim = "recompute full never needs more memory than selective, selective never more than none"
    tolerance = f"{BYTES} bytes: rounding of a device's parts"
    key = "peak_memory_bytes"


class RecomputeKeeps(Property):
    name = "recompute-keeps-inputs"
    claim = "under full recompute every device keeps what its stages received, because the recompute starts there; a rank that has the model's first stage alone receives nothing"
    tolerance = "none: more than 0 bytes"

    def judge(self, program, scenario):
        # sgd: the step allocates nothing, so that the peak is in a pass.
        call = estimate({**scenario, "recompute": "full", "optimizer": "sgd"})
        order = order_of(program, scenario)
        receives = {order["stage_to_rank"][stage] for chain in order["chains"] for stage in chain[1:]}
        document = program.answer(call).document
        rank = {row["device"]: row["rank"] for row in document["metrics"]["per_device"]}
        for row in document["memory"]:
            if row["parts"].get("activations", 0) <= 0 and rank[row["device"]] in receives:
                return Finding([call], f"device {row['device']} keeps no activations: {row['parts']}")
        return None


class ZeroMemory(Property):
    name = "zero-memory"
    claim = (
        "a higher ZeRO stage never needs more memory on any device; stage 3 may need more than 2 by what its gathered blocks exceed the weights that it "
        "gives up: allocator factor x (the two blocks with most parameters, twice where a rank has several stages, - weights given up). Two blocks are gathered at a time: "
        "neighbours, or the last of a pass and the first of the next; or one, next to FSDP's root, all that is outside blocks"
    )
    tolerance = f"{BYTES} bytes: rounding of a device's parts"
    hints = {"data": (2, 3, 4, 8), "plain": True, "kinds": False}

    def draw(self, rng, program, scenario):
        need(ranks(scenario)[1] > 1)
        return {"stage": rng.choice((1, 2, 3, 3))}

    def gathered(self, program, scenario):
        """Bytes of the two blocks with most parameters, or of FSDP's root and one block: from each unit alone on a rank of a large cluster."""
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
        blocks, last, root = [], None, 0
        for i, unit in enumerate(units):
            size = rows[i * tensor]["parts"].get("parameters", 0)
            root += 0 if unit["block"] else size
            if unit["block"] and unit["block"] == last:
                blocks[-1] += size
            else:
                blocks.append(size)
            last = unit["block"]
        blocks.sort()
        return max(sum(blocks[-2:]), root + blocks[-1])

    def excess(self, parts, after, gathered):
        """Bytes that a device with these parts may need more when it gathers so much and gives weights up: `after` are left."""
        counted = sum(v for k, v in parts.items() if k not in ("context", "fragmentation"))
        factor = 1 + parts.get("fragmentation", 0) / counted
        return factor * (gathered - parts.get("parameters", 0) + after.get("parameters", 0))

    def allowed(self, program, scenario, stage, parts, after):
        if stage < 3:
            return 0.0
        stages = len(order_of(program, scenario)["stage_to_rank"]) // ranks(scenario)[0]
        return max(0.0, self.excess(parts, after, min(max(1, stages), 2) * self.gathered(program, scenario)))

    def judge(self, program, scenario, stage):
        need(ranks(scenario)[1] > 1)
        scenario = in_sums(scenario)
        calls = [estimate(put(scenario, "parallel.zero", z)) for z in (stage - 1, stage)]
        before, after = ({row["device"]: row for row in program.answer(call).document["memory"]} for call in calls)
        for device in sorted(before.keys() & after.keys()):
            allowed = self.allowed(program, scenario, stage, before[device]["parts"], after[device]["parts"])
            a, b = before[device]["peak_bytes"], after[device]["peak_bytes"]
            if b > a + allowed + BYTES:
                return Finding(
                    calls,
                    f"device {device}: ZeRO {stage - 1} {mib(a)}, ZeRO {stage} {mib(b)}, of which {mib(allowed)} more are explained",
                )
        return None


class ZeroGathers(ZeroMemory):
    name = "zero-gathers"
    claim = (
        "under ZeRO 3 a rank of one stage holds at most two gathered blocks, or FSDP's root and one, beside its own parts: its peak is at most that of ZeRO 2 less the weights given up "
        "plus allocator factor x these"
    )
    hints = {
        "data": (2, 4, 8),
        "plain": True,
        "kinds": False,
        "model": ("gpt", "llama", "bert"),
        "family": ("gpipe", "1f1b", "zb-h1"),
    }

    def draw(self, rng, program, scenario):
        return {"stage": 3}

    def allowed(self, program, scenario, stage, parts, after):
        need(family(scenario) in ONE_STAGE_FAMILIES)
        return self.excess(parts, after, self.gathered(program, scenario))


class OwnMemory(Property):
    name = "own-memory"
    claim = "on unlike devices every device is judged against its own memory, and the step fits when all do"
    tolerance = "none"
    hints = {"kinds": True, "plain": True}

    def judge(self, program, scenario):
        groups = get(scenario, "cluster.groups")
        need(groups is not None)
        call = estimate(scenario)
        metrics = program.answer(call).metrics
        limits = []
        for group in groups:
            cluster = {"groups": [{**group, "nodes": 1}], "network": get(scenario, "cluster.network")}
            alone = {**TINY, "cluster": cluster, "parallel": {"pipeline": 1, "tensor": 1, "data": 1}}
            limit = program.answer(estimate(alone)).metrics["memory_limit_bytes"]
            limits += [limit] * (group.get("nodes", 1) * group["devices_per_node"])
        for row in metrics["per_device"]:
            own = limits[row["device"]]
            if row["memory_limit_bytes"] != own or row["fits"] != (row["peak_memory_bytes"] <= own):
                return Finding(
                    [call],
                    f"device {row['device']} may fill {mib(own)} and is judged by {mib(row['memory_limit_bytes'])}, fits {row['fits']}",
                )
        if metrics["fits"] != all(row["fits"] for row in metrics["per_device"]):
            return Finding([call], f"fits {metrics['fits']}, its devices {[row['fits'] for row in metrics['per_device']]}")
        return None

"""The two engines, the forms in which one scenario can be written, and what holds within one answer."""

import dataclasses

from base import SAME, Finding, Property, cut, engine, estimate, family, made_by, milliseconds, need, options, ranks
from base import same_metrics, same_step, simulate
from program import TINY, Call, get, put
from shipped import with_file


class SimulateEqual(Property):
    name = "simulate-equal"
    claim = "where the simulation reports no link with two flows at once it gives the estimate's step"
    tolerance = f"{SAME}"
    shared = False

    def judge(self, program, scenario):
        calls = [simulate(scenario), estimate(scenario)]
        document = program.answer(calls[0]).document
        a, b = document["metrics"]["step_time_s"], program.answer(calls[1]).step
        need(any(row["shared_s"] > 0 for row in document.get("contention", [])) == self.shared)
        if (a < b or not self.shared) and abs(a - b) > SAME * b + 1e-12:
            link = f"{'a' if self.shared else 'no'} link is shared"
            return Finding(calls, f"simulated {milliseconds(a)}, estimated {milliseconds(b)}, {link}")
        return None


class SimulateLonger(SimulateEqual):
    name = "simulate-not-shorter"
    claim = "where links are shared the simulation is never shorter than the estimate"
    hints = {
        "cluster": ("rtx3090x8", "rtx3090x8-nobridge", "a100-80g-pcie-x4", "a100-80g-pcie-x4-nobridge", "dgx-a100-80g"),
        "kinds": False,
    }
    shared = True


class EnginesAgree(Property):
    name = "engines-agree"
    claim = "SimGrid, the own solver, --no-fold, --no-merge and both give the same step, memory and figures of every device"
    tolerance = f"{SAME} of the step: both backends round the end of a flow to a picosecond"
    FORMS = (
        ("--backend", "simgrid"),
        ("--backend", "flow", "--no-fold"),
        ("--backend", "flow", "--no-merge"),
        ("--backend", "flow", "--no-fold", "--no-merge"),
    )

    def draw(self, rng, program, scenario):
        return {"form": rng.choice(self.FORMS)}

    def judge(self, program, scenario, form):
        return same_metrics(program, [simulate(scenario), Call("simulate", scenario, tuple(form))], SAME)


class FamilyIsCsv(Property):
    name = "family-is-its-csv"
    claim = "a schedule family and the file that `panpipe schedule --csv` writes of it give the same figures"
    tolerance = "none"

    def draw(self, rng, program, scenario):
        return engine(rng)

    def judge(self, program, scenario, engine):
        need("recompute" not in options(scenario))
        name, microbatches = family(scenario), get(scenario, "batch.microbatches")
        csv = program.order_csv(name, ranks(scenario)[0], microbatches, options(scenario))
        need("." not in csv.split(",")[0])
        other = with_file({**scenario, "schedule": {"csv": "order.csv"}}, "order.csv", csv)
        return same_metrics(program, [made_by(engine, scenario), made_by(engine, other)], 0)


class WrittenForms(Property):
    name = "written-forms"
    claim = "scenario.yaml and plan.yaml, as -o writes them, give the figures of the scenario"
    tolerance = "none"

    def draw(self, rng, program, scenario):
        return {**engine(rng), "form": rng.choice(("scenario.yaml", "plan.yaml"))}

    def judge(self, program, scenario, engine, form):
        call = made_by(engine, scenario)
        return same_metrics(program, [call, dataclasses.replace(call, form=form)], 0)


class Mirrored(Property):
    name = "mirrored-devices"
    claim = "on nodes of one kind the last device in the place of the first, and so on, gives the same figures"
    tolerance = f"{SAME}: flows are added in another order"
    hints = {"kinds": False}

    def draw(self, rng, program, scenario):
        return engine(rng)

    def judge(self, program, scenario, engine):
        values = program.resolved(scenario)
        need("cluster.devices_per_node" in values)
        last = int(values["cluster.devices_per_node"]) * int(values.get("cluster.nodes", 1)) - 1
        p, d, t = ranks(scenario)
        turned = [last - device for device in scenario.get("placement", range(p * d * t))]
        return same_metrics(program, [made_by(engine, {**scenario, "placement": turned}), made_by(engine, scenario)], SAME)


class ReplicasExchanged(Property):
    name = "replicas-exchanged"
    claim = (
        "on unlike devices the replicas in reverse order give the same step and the same answer whether it fits; cuts are stated"
    )
    tolerance = f"{SAME}: flows are added in another order. In reverse, so that rings keep their neighbours"
    hints = {"kinds": True, "data": (2,), "plain": True}

    def draw(self, rng, program, scenario):
        need(get(scenario, "cluster.groups") is not None)
        return engine(rng)

    def judge(self, program, scenario, engine):
        p, d, t = ranks(scenario)
        need(get(scenario, "cluster.groups") is not None and d > 1 and cut(scenario))
        place = scenario.get("placement", list(range(p * d * t)))
        turned = [place[(r * d + d - 1 - c) * t + k] for r in range(p) for c in range(d) for k in range(t)]
        return same_step(program, [made_by(engine, {**scenario, "placement": turned}), made_by(engine, scenario)], SAME)


class UnusedNodes(Property):
    name = "unused-nodes"
    claim = "nodes that the plan does not use change neither step nor memory"
    tolerance = "none"
    hints = {"kinds": False, "nodes": (1, 8)}

    def draw(self, rng, program, scenario):
        return {**engine(rng), "more": rng.choice((1, 3, 56))}

    def judge(self, program, scenario, engine, more):
        need(get(scenario, "cluster.nodes") and "cluster.network.bandwidth" in program.resolved(scenario))
        larger = put(scenario, "cluster.nodes", scenario["cluster"]["nodes"] + more)
        return same_metrics(program, [made_by(engine, larger), made_by(engine, scenario)], 0)


class Figures(Property):
    name = "figures-add-up"
    claim = (
        "within one answer: the step is its longest device's, means are means, samples/s is batch over step, MFU is model FLOPs over step and peaks, the parts of a device's memory "
        "add up to its peak, the answer fits when every device does"
    )
    tolerance = f"{SAME}; bytes exactly"

    def draw(self, rng, program, scenario):
        return engine(rng)

    def judge(self, program, scenario, engine):
        call = made_by(engine, scenario)
        wrong = self.wrong(program, scenario, program.answer(call).document)
        return Finding([call], wrong) if wrong else None

    def wrong(self, program, scenario, document):
        """What does not add up in an answer, in words."""
        m, batch = document["metrics"], scenario["batch"]
        devices, step = m["per_device"], m["step_time_s"]
        mean = lambda key: sum(row[key] for row in devices) / len(devices)
        wanted = {
            "step_time_s": max(row["step_time_s"] for row in devices),
            "compute_s": mean("compute_s"),
            "exposed_communication_s": mean("exposed_communication_s"),
            "peak_memory_bytes": max(row["peak_memory_bytes"] for row in devices),
            "fits": all(row["fits"] for row in devices),
            "samples_per_s": batch["micro"] * batch["microbatches"] * ranks(scenario)[1] / step,
        }
        for key, value in wanted.items():
            if abs(m[key] - value) > SAME * abs(value):
                return f"{key} {m[key]}, by its devices {value}"
        for row in document["memory"]:
            if sum(row["parts"].values()) != row["peak_bytes"]:
                return f"device {row['device']}: the parts {sum(row['parts'].values())}, the peak {row['peak_bytes']} bytes"
        for row in devices:
            compute, exposed = row["compute_s"], row["exposed_communication_s"]
            if compute + exposed > step * (1 + SAME) or not 0 <= row["bubble_step"] <= 1:
                return f"device {row['device']}: compute {compute} and exposed {exposed} in a step of {step}"
        peaks = self.peaks(program, scenario, devices)
        if peaks and abs(m["mfu"] - m["model_flops"] / step / peaks) > 1e-6 * m["mfu"]:
            return f"mfu {m['mfu']}, by the peaks of its devices {m['model_flops'] / step / peaks}"
        return None

    def peaks(self, program, scenario, devices):
        """Sum of the devices' dense peaks in FLOP/s; None where one is not known."""
        key = f"cluster.device.peak.{scenario.get('precision', 'fp32').replace('-pure', '')}"
        if get(scenario, "cluster.file"):
            value = program.resolved(scenario).get(key)
            return len(devices) * flops(value) if value else None
        rates = []
        for group in get(scenario, "cluster.groups", []):
            alone = {**TINY, "cluster": {"device": group["device"], "nodes": 1, "devices_per_node": 1}}
            value = program.resolved(alone).get(key)
            if not value:
                return None
            rates += [flops(value)] * (group.get("nodes", 1) * group["devices_per_node"])
        return sum(rates[row["device"]] for row in devices)


def flops(value):
    number, unit = value.split()
    return float(number) * {"GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15}[unit]

"""Faster devices and more work: which of two steps is longer."""

import re

from base import (
    ROUNDED,
    Finding,
    Property,
    cut,
    estimate,
    family,
    made_by,
    milliseconds,
    need,
    not_above,
    options,
    ranks,
    same_step,
)
from base import short
from generator import chance
from program import ROOT, Call, drop, get, put
from shipped import numbers, scaled, with_calibration, with_framework

# The pieces of a woven group are put in order one by one, the least advanced member first: another ratio of their times may give
# another order, which is this much longer at most.
WOVEN = 1e-3
# Gradients that fill one bucket more start to travel earlier: a step may be this much shorter for a larger model.
BUCKETS = 1e-2
APART = ("zb-h1", "zb-h2", "zb-v", "interleaved-zero-bubble", "stp", "dualpipe-v")

# Calibration numbers: towards a faster device. Efficiencies go half of the way to 1, the others are halved.
EFFICIENCIES = [f"{of}_efficiency" for of in "gemm attention memory unaligned_gemm fabric network transfer bridge".split()]
COSTS = (
    "wave_quantisation gemm_fill attention_ramp elementwise_scale score_bytes launch launch_contention collective_host kernel_gap "
    "step transfer_latency collective_latency stage_jitter optimizer_traffic overlap_loss"
).split()
FRAMEWORK_COSTS = (
    "elementwise_factor replicated_factor score_factor forward_operators backward_operators optimizer_factor".split()
)
TIMES = ("us", "ms", "ns")


class Faster(Property):
    name, weight = "faster-hardware", 3
    claim = "a device, link, network, calibration or framework number that is better never makes the estimate longer; cuts are stated, so that orders stay"
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
            left_out = any(part in path for part in (".sources", "[", "nvlink"))
            if not path.startswith("cluster.") or left_out or scaled(value, 1) is None:
                continue
            if ".peak." in path:
                path = "cluster.device.peak"
            if (unit.endswith("/s") or unit in TIMES or path.endswith("nics_per_node")) and path not in found:
                found.append(path)
        calibration = values.get("cluster.device.calibration")
        if calibration:
            found += [f"calibration.{key}" for key in numbers("calibrations", calibration) if key in EFFICIENCIES + COSTS]
        if "framework" in values:
            found += [f"framework.{key}" for key in numbers("frameworks", values["framework"]) if key in FRAMEWORK_COSTS]
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
            return put(scenario, knob, scaled(value, 1 / factor if value.split(" ")[-1] in TIMES else factor))
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

    def judge(self, program, scenario, knob, factor):
        need(cut(scenario))
        tolerance = WOVEN if family(scenario) in ("stp", "dualpipe", "dualpipe-v") else ROUNDED
        return not_above(program, self.better(program, scenario, knob, factor), scenario, f"better {knob}", tolerance)


class MoreWork(Property):
    name, weight = "more-work", 2
    claim = "more layers, microbatches, hidden, ffn, sequence, samples, vocabulary or pixels never make the estimate shorter; cuts are stated"
    tolerance = f"{ROUNDED}: rounding of tasks to picoseconds; {BUCKETS} where gradients travel in buckets beside the backward: one more of them may start earlier"
    KNOBS = (
        "workload.layers batch.microbatches workload.hidden workload.ffn workload.sequence batch.micro workload.vocabulary "
        "workload.image"
    ).split()

    def hinted(self, rng):
        return short(rng, self.hints)

    def draw(self, rng, program, scenario):
        need(cut(scenario))
        return {"knob": rng.choice(self.KNOBS), "factor": rng.choice((2, 2, 3, 4))}

    def judge(self, program, scenario, knob, factor):
        need(cut(scenario))
        model = get(scenario, "workload.model")
        # In a U-Net added layers stand in the middle, so that stated cuts would move; a larger image of an mllm takes the text's place.
        need((knob, model) not in (("workload.layers", "unet"), ("workload.image", "mllm")))
        value = int(program.resolved(scenario).get(knob, 0))
        need(value > 0)
        overlaps = get(scenario, "overlap_gradients", False) or get(scenario, "parallel.zero", 0) >= 2
        tolerance = BUCKETS if ranks(scenario)[1] > 1 and overlaps else ROUNDED
        more = put(scenario, knob, value * factor)
        return not_above(program, scenario, more, f"{knob} {value} against {value * factor}", tolerance)


class MoreMemory(Property):
    name = "more-memory"
    claim = "devices with more memory take the same step, and what fitted still fits"
    tolerance = "none"

    def draw(self, rng, program, scenario):
        return {"engine": rng.choice(("estimate", "simulate")), "memory": rng.choice(("100 GiB", "1000 GiB"))}

    def judge(self, program, scenario, engine, memory):
        if get(scenario, "cluster.file"):
            more = put(scenario, "cluster.device.memory", memory)
        else:
            device = lambda group: {"file": group["device"], "memory": memory}
            more = put(
                scenario, "cluster.groups", [{**group, "device": device(group)} for group in get(scenario, "cluster.groups")]
            )
        calls = [made_by(engine, s) for s in (scenario, more)]
        fitted = program.answer(calls[0]).metrics["fits"]
        return same_step(program, calls, 0, ("peak_memory_bytes", "fits") if fitted else ("peak_memory_bytes",))


UNSTATED_LAUNCH_US = 32.9  # kUnstatedLaunch of costmodel/cost/launch.hpp: presets are relative to it


def launch_of_preset(name):
    text = (ROOT / f"scenarios/frameworks/{name}.yaml").read_text(encoding="utf-8") if name else ""
    stated = re.search(r"^launch: \{value: ([\d.]+) us", text, re.MULTILINE)
    return float(stated[1]) if stated else UNSTATED_LAUNCH_US


class LaunchFloor(Property):
    name = "launch-floor"
    claim = (
        "a step is never shorter than the launches of its ranks' passes: launches of a microbatch (`check --costs`) x microbatches x time of a launch, shared out "
        "over the ranks, since some rank has at least the mean"
    )
    tolerance = f"{ROUNDED}: rounding of tasks to picoseconds"
    hints = {"kinds": False, "framework": ("megatron", "eager", "stp", "megatron-deepspeed", "flash-attn", "megatron-zb")}

    def hinted(self, rng):
        # Groups that are woven, over many microbatches: what hides there must not be the host's time.
        if chance(rng, 0.4):
            woven = {"model": ("gpt",), "family": ("stp", "dualpipe-v"), "microbatches": (24, 60), "micro": (1,)}
            return {**self.hints, **woven, "tensor": (2, 4, 8), "pipeline": (1, 2)}
        return short(rng, self.hints)

    def judge(self, program, scenario):
        need(get(scenario, "cluster.file"))
        scenario = {**scenario, "recompute": "none"}
        look, call = Call("check", scenario, ("--costs", "--json")), estimate(scenario)
        need("sequence_splits" not in dict(options(scenario)))
        device = program.answer(look).document["devices"][0]
        parts = ("forward", "input_gradient", "weight_gradient")
        launches = sum(unit["count"] * unit[part]["launches"] for unit in device["units"] for part in parts)
        value, unit = device["calibration"]["values"]["launch"].split()
        seconds = float(value) * {"us": 1e-6, "ms": 1e-3, "ns": 1e-9}[unit]
        seconds *= launch_of_preset(get(scenario, "framework")) / UNSTATED_LAUNCH_US
        floor = launches * seconds * get(scenario, "batch.microbatches") / ranks(scenario)[0]
        step = program.answer(call).step
        if step < floor * (1 - ROUNDED):
            return Finding([call, look], f"step {milliseconds(step)}, its launches alone {milliseconds(floor)}")
        return None


class SizesAlike(Property):
    name = "sizes-alike"
    claim = (
        "a vocabulary that makes the logits as large as the hidden state is a size as any other: with 128 entries a tensor-parallel rank more, the head keeps no less, and "
        "more by no greater share than the vocabulary grew"
    )
    tolerance = "1 %: what the head keeps beside the logits"
    hints = {"model": ("gpt", "llama"), "kinds": False, "pipeline": (1, 2), "plain": True}

    def judge(self, program, scenario):
        t = ranks(scenario)[2]
        hidden = get(scenario, "workload.hidden")
        need(get(scenario, "workload.model") in ("gpt", "llama") and hidden * t % 128 == 0 and hidden >= 512)
        sizes = (hidden * t, (hidden + 128) * t)
        given = [put(drop(scenario, "partition"), "workload.vocabulary", size) for size in sizes]
        calls = [Call("check", of_size, ("--costs", "--json")) for of_size in given]
        kept = [program.answer(call).document["devices"][0]["units"][-1]["saved_bytes"] for call in calls]
        if not kept[0] <= kept[1] <= kept[0] * (1 + 128 / hidden + 0.01):
            shown = (f"{bytes / 2**20:.2f} MiB with a vocabulary of {size}" for bytes, size in zip(kept, sizes))
            return Finding(calls, f"the head keeps {', '.join(shown)}")
        return None

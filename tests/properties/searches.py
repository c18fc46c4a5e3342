"""What `panpipe plan` finds, against members of the space that it searches."""

import random

from base import ROUNDED, SAME, Finding, Property, estimate, family, made_by, milliseconds, need, ranks
from program import Call, drop, put

# The families that `plan --method auto` searches in full (docs/models/plan-auto.md).
SEVERAL = ("interleaved-1f1b", "looped-bfs", "interleaved-zero-bubble", "group-interleaved", "gis-h", "hanayo")
SEARCHED = ("gpipe", "1f1b", "kfkb", "zb-h1", "zb-h2", *SEVERAL, "1f1b-v", "zb-v", "stp", "dualpipe-v")


def judged_by(best):
    """The figures by which the search chose: simulated where it simulated."""
    return best.get("simulated") or best["metrics"]


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
        return {"seed": rng.randrange(1 << 30), "any_family": rng.choice((True, False)), "batch": rng.choice((8, 16, 32))}

    def open(self, scenario, any_family, batch):
        kept = ("panpipe", "cluster", "workload", "precision", "framework", "usable")
        stated = family(scenario) if family(scenario) in SEARCHED else "1f1b"
        return {
            **{key: scenario[key] for key in kept if key in scenario},
            "batch": {"micro": "auto", "microbatches": batch},
            "recompute": "auto",
            "schedule": "auto" if any_family else stated,
        }

    def found(self, program, opened, *options):
        """The call of a search, and its document, which has an answer."""
        search = Call("plan", opened, (*options, "--json"))
        document = program.answer(search).document
        need(document["feasible"])
        return search, document

    def members(self, program, scenario, seed, any_family, batch):
        """Random members of the searched space that fit, as scenarios, with the estimates of their steps."""
        rng = random.Random(seed)
        opened = self.open(scenario, any_family, batch)
        values = program.resolved(scenario)
        width = int(values["cluster.devices_per_node"])
        devices = width * int(values.get("cluster.nodes", 1))
        for _ in range(24):
            tensor = rng.choice([n for n in (1, 2, 4, 8) if n <= width])
            data = rng.choice([n for n in (1, 2, 4, 8, 16) if batch % n == 0 and tensor * n <= devices] or [1])
            pipeline = rng.choice([n for n in (1, 1, 2, 2, 4, 8) if tensor * data * n <= devices])
            micro = rng.choice([n for n in (1, 2, 4, 8, 16) if batch // data % n == 0] or [1])
            name = rng.choice(SEARCHED) if any_family else opened["schedule"]
            # On one rank the search cuts no stages, which ZeRO's traffic would tell apart.
            if pipeline == 1 and any_family and name in SEVERAL:
                continue
            parallel = {"pipeline": pipeline, "tensor": tensor, "data": data, "zero": rng.choice((0, 1, 2, 3)) if data > 1 else 0}
            if name in SEVERAL:
                parallel["virtual_stages"] = rng.choice((2, 2, 4) if name == "hanayo" else (1, 2, 2, 3, 4))
            member = {
                **opened,
                "batch": {"micro": micro, "microbatches": batch // data // micro},
                "parallel": parallel,
                "schedule": name,
                "recompute": rng.choice(("none", "none", "selective", "full")),
            }
            answer = program.ask(estimate(member))
            if answer.accepted and answer.metrics["fits"]:
                yield member, answer.step


class PlanNotBeaten(Search):
    name = "plan-not-beaten"
    claim = (
        "`plan --method auto` is not slower than random members of its own space that fit, judged by the simulation where the answer was simulated; the families that "
        "are tried last are not drawn"
    )
    tolerance = f"{ROUNDED}: rounding of tasks to picoseconds"

    def judge(self, program, scenario, seed, any_family, batch):
        search, found = self.found(program, self.open(scenario, any_family, batch))
        best = found["best"]
        fastest = judged_by(best)["step_time_s"] * (1 - ROUNDED)
        for member, estimated in self.members(program, scenario, seed, any_family, batch):
            if estimated > fastest:
                continue
            call = made_by("simulate" if "simulated" in best else "estimate", member)
            step = program.answer(call).step
            if step < fastest:
                of_search = f"{milliseconds(judged_by(best)['step_time_s'])} ({best['summary']}), proved {found['search']['proved_optimal']}"
                return Finding([search, call], f"the search {of_search}; this member {milliseconds(step)}")
        return None


class PlanBound(Search):
    name = "plan-bound"
    claim = "the lower bound of `plan --method auto` is not above any member's estimate"
    tolerance = f"{ROUNDED}: rounding of tasks to picoseconds"

    def judge(self, program, scenario, seed, any_family, batch):
        search, found = self.found(program, self.open(scenario, any_family, batch))
        bound = found["search"]["lower_bound"]
        for member, step in self.members(program, scenario, seed, any_family, batch):
            if step < bound * (1 - ROUNDED):
                return Finding([search, estimate(member)], f"the bound {milliseconds(bound)}, this member {milliseconds(step)}")
        return None


class PlanDisplay(Search):
    name = "plan-display"
    claim = "how many plans are shown and how many threads search change no answer of `plan`"
    tolerance = "none"
    OPTIONS = (("--candidates", "1"), ("--candidates", "20"), ("--threads", "1"))

    def draw(self, rng, program, scenario):
        return {**super().draw(rng, program, scenario), "options": rng.choice(self.OPTIONS)}

    def judge(self, program, scenario, seed, any_family, batch, options):
        opened = self.open(scenario, any_family, batch)
        calls = [Call("plan", opened, (*more, "--json")) for more in ((), options)]
        a, b = (program.answer(call).document for call in calls)
        if a["best"] != b["best"]:
            shown = (f"{d['best']['summary']}, {milliseconds(judged_by(d['best'])['step_time_s'])}" for d in (a, b))
            return Finding(calls, f"best: {' against '.join(shown)}")
        if a["search"] != b["search"]:
            return Finding(calls, f"search: {a['search']} against {b['search']}")
        return None


class PlanSettings(Search):
    name = "plan-settings"
    claim = "the settings that `plan` prints, set in the scenario, give the figures that it prints; both methods"
    tolerance = f"{SAME}"

    def draw(self, rng, program, scenario):
        return {
            **super().draw(rng, program, scenario),
            "method": rng.choice(("auto", "pfeife")),
            "tight": rng.choice((0, 0.95, 0.8, 0.6)),
        }

    def judge(self, program, scenario, seed, any_family, batch, method, tight):
        opened = self.open(scenario, any_family, batch)
        if method == "pfeife":
            # That method takes the degrees as stated.
            opened = {**drop(scenario, "partition"), "schedule": {"name": "pfeife"}, "recompute": "auto"}
            need(ranks(scenario)[0] > 1)
            if tight:  # so little memory that some stages have to recompute
                peak = program.answer(estimate({**opened, "recompute": "none"})).peak
                opened = put(opened, "cluster.device.memory", f"{peak * tight / 2**30:.4f} GiB")
                opened = put(opened, "cluster.device.usable", "100 %")
        search, found = self.found(program, opened, "--method", method)
        need(not any("the stages recompute differently" in note for note in found["notes"]))  # which no key can state
        text = lambda value: str(value).lower() if isinstance(value, bool) else value
        settings = found["best"]["settings"].items()
        again = Call("estimate", opened, tuple(part for key, value in settings for part in ("--set", f"{key}={text(value)}")))
        a, b = found["best"]["metrics"], program.answer(again).metrics
        for key in ("step_time_s", "peak_memory_bytes", "fits"):
            if abs(a[key] - b[key]) > SAME * abs(b[key]):
                return Finding([search, again], f"{key}: printed {a[key]}, set again {b[key]}")
        return None

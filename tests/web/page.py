"""The page in a browser, as a person uses it: what its checks share."""

import json
import pathlib
import subprocess

SCENARIO = {
    "cluster.file": "clusters/h100x8.yaml",
    "cluster.nodes": "2",
    "workload.model": "gpt3-13b",
    "batch.micro": "1",
    "batch.global": "64",
    "precision": "bf16",
    "parallel.pipeline": "4",
    "parallel.tensor": "4",
    "parallel.data": "1",
    "schedule": "1f1b",
    "trainer": "megatron-core",
}
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 12,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "hidden_act": "silu",
}
ROOT = pathlib.Path(__file__).resolve().parents[2]
VIEWS = ("predict", "compare", "laboratory", "links")
READY = "document.documentElement?.dataset.ready"
ANSWERS = "Number(document.documentElement.dataset.answers || 0)"
STEP = "Number(document.getElementById('answer').dataset.step)"
VISIBLE = """[...document.querySelectorAll('a[href], button, input, select, textarea, summary, canvas[tabindex], [tabindex="0"]')]
  .filter(e => e.checkVisibility({visibilityProperty: true}) && !e.disabled && !e.classList.contains('skip'))"""


class Page:
    def __init__(self, b, native, base):
        self.b, self.native_program, self.base = b, native, base

    def open(self, keys=SCENARIO, more="", **size):
        hash_text = "&".join([more] * bool(more) + [f"{k}={v}" for k, v in keys.items()])
        self.b.open(f"{self.base}#{hash_text}", **size)
        self.b.wait(READY)

    def acts(self, expression):
        """Runs it and waits for the next answer."""
        before = self.b.run(ANSWERS)
        self.b.run(expression)
        self.b.wait(f"{ANSWERS} > {before}")

    def put(self, identifier, value, event="change"):
        self.acts(
            f"(e => {{ e.value = {json.dumps(value)}; e.dispatchEvent(new Event('{event}')); }})(document.getElementById('{identifier}'))"
        )

    def drop(self, *files):
        """Drops files and waits for the answer with them."""
        before = self.b.run(ANSWERS)
        self.b.drop(files)
        self.b.wait(f"{ANSWERS} > {before}")

    def text(self, selector):
        return self.b.run(f"document.querySelector({json.dumps(selector)}).innerText")

    def native(self, verb, keys, *options):
        tree = "panpipe: 1\n" + "".join(f"{k}: {v}\n" for k, v in keys.items() if "." not in k)
        for top in dict.fromkeys(k.split(".")[0] for k in keys if "." in k):
            inside = ", ".join(f"{k.split('.', 1)[1]}: {v}" for k, v in keys.items() if k.startswith(top + "."))
            tree += f"{top}: {{{inside}}}\n"
        done = subprocess.run([self.native_program, verb, "-", *options, "--json"], input=tree, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

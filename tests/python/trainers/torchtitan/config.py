"""A stand-in for torchtitan 0.3: a registry of one configuration, and a tree for its model."""

import dataclasses
import types


@dataclasses.dataclass
class Training:
    local_batch_size: int = 8
    seq_len: int = 2048
    enable_cpu_offload: bool = False


@dataclasses.dataclass
class Parallelism:
    data_parallel_shard_degree: int = -1
    tensor_parallel_degree: int = 1


@dataclasses.dataclass
class ParamGroup:
    pattern: str = ".*"
    optimizer_name: str = "AdamW"


@dataclasses.dataclass
class Optimizer:
    param_groups: list = dataclasses.field(default_factory=list)
    implementation: str = "fused"


class FullAC:
    @dataclasses.dataclass
    class Config:
        debug: bool = False


@dataclasses.dataclass
class Trainer:
    model_spec: object = None
    training: Training = dataclasses.field(default_factory=Training)
    parallelism: Parallelism = dataclasses.field(default_factory=Parallelism)
    optimizer: Optimizer = dataclasses.field(default_factory=Optimizer)
    activation_checkpoint: object = None


def _layer(width, heads, mlp):
    some = types.SimpleNamespace
    rope = some(max_seq_len=4096, theta=500000)
    attention = some(n_heads=heads, n_kv_heads=2, head_dim=None, qk_norm=None, rope=rope)
    return some(attention=attention, feed_forward=some(w1=some(out_features=mlp)), moe=None)


def _model(name):
    layers = [_layer(64, 4, 128) for _ in range(3)]
    return types.SimpleNamespace(name=name, flavor="tiny", model=types.SimpleNamespace(dim=64, vocab_size=512, layers=layers))


class ConfigManager:
    def parse_args(self, words):
        options = dict(zip(words[::2], words[1::2]))
        if options.get("--config") != "tiny":
            raise ValueError("Config function not found")
        config = Trainer(_model(options["--module"]), activation_checkpoint=FullAC.Config())
        config.optimizer.param_groups = [ParamGroup()]
        config.parallelism.tensor_parallel_degree = int(options.get("--parallelism.tensor_parallel_degree", 1))
        if "--steal" in options:
            open(options["--steal"], "w").close()
        print("parsed")  # trainers print, too
        return config

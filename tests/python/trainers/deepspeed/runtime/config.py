"""A stand-in for DeepSpeed's configuration: the third number of the batch."""

import types


def _no_group():
    raise RuntimeError("there is no process group")


dist = types.SimpleNamespace(get_rank=_no_group, get_world_size=_no_group)


class Zero:
    def __init__(self, values):
        self.values = values

    def model_dump(self):
        return {"stage": 0, "overlap_comm": False, "reduce_bucket_size": 500000000} | self.values


class DeepSpeedConfig:
    def __init__(self, values):
        try:
            ranks = dist.get_world_size()
        except RuntimeError:
            ranks = 1
        self.train_batch_size = values["train_batch_size"]
        self.train_micro_batch_size_per_gpu = values["train_micro_batch_size_per_gpu"]
        self.gradient_accumulation_steps = self.train_batch_size // (self.train_micro_batch_size_per_gpu * ranks)
        self.zero_config = Zero(values.get("zero_optimization", {}))

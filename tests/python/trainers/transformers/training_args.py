import dataclasses


def is_torch_bf16_gpu_available():
    return False


@dataclasses.dataclass
class TrainingArguments:
    output_dir: str = None
    per_device_train_batch_size: int = 8
    bf16: bool = False
    deepspeed: str = None

    def __post_init__(self):
        if self.bf16 and not is_torch_bf16_gpu_available():
            raise ValueError("Your setup doesn't support bf16/gpu.")
        self.ranks = self.world_size

    @property
    def world_size(self):
        raise RuntimeError("a process group would be made")

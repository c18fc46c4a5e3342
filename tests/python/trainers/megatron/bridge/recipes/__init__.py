"""A stand-in for a recipe of Megatron-Bridge."""

import types


def tiny_pretrain_config():
    some = types.SimpleNamespace
    return _Container(
        model=some(num_layers=4, hidden_size=64, num_attention_heads=4, num_query_groups=2, gated_linear_unit=True,
                   add_bias_linear=False, sequence_parallel=True, tensor_model_parallel_size=2, seq_length=128),
        train=some(micro_batch_size=1, global_batch_size=32),
        ddp=some(use_distributed_optimizer=True, grad_reduce_in_fp32=False),
        optimizer=some(optimizer="adam"),
        mixed_precision=some(bf16=True, fp8=None),
    )  # fmt: skip


class _Container:
    def __init__(self, **parts):
        self.__dict__.update(parts)

"""A stand-in for Megatron-LM's arguments."""

import argparse
import os

import torch


def add_megatron_arguments(parser):
    parser.add_argument("--num-layers", type=int)
    parser.add_argument("--tensor-model-parallel-size", type=int, default=1)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--no-bias-gelu-fusion", action="store_false", dest="bias_gelu_fusion")
    parser.add_argument("--recompute-modules", nargs="*")
    return parser


def parse_args():
    args = add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False)).parse_args()
    args.world_size = int(os.environ["WORLD_SIZE"])
    return args


def validate_args(args):
    assert args.world_size % args.tensor_model_parallel_size == 0, "world size"
    args.bias_gelu_fusion = torch.cuda.get_device_capability()[0] > 9

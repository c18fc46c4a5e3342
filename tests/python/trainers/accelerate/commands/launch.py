"""A stand-in for `accelerate launch`."""

import argparse
import json
import types


def launch_command_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config_file")
    parser.add_argument("--num_processes", type=int)
    parser.add_argument("--mixed_precision")
    parser.add_argument("--use_fsdp", action="store_true")
    parser.add_argument("--fsdp_sharding_strategy", default="FULL_SHARD")
    parser.add_argument("training_script")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return parser


def _validate_launch_command(args):
    defaults = None
    if args.config_file:
        with open(args.config_file, encoding="utf-8") as text:
            defaults = types.SimpleNamespace(**json.load(text))
    args.mixed_precision = args.mixed_precision or getattr(defaults, "mixed_precision", "no")
    return args, defaults, False

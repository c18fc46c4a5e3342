"""A stand-in for transformers."""

import argparse
import json
import pathlib

from .training_args import TrainingArguments


class HfArgumentParser(argparse.ArgumentParser):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.add_argument("--output_dir")
        self.add_argument("--per_device_train_batch_size", type=int, default=8)
        self.add_argument("--bf16", action="store_true")
        self.add_argument("--deepspeed")

    def parse_args_into_dataclasses(self, args, return_remaining_strings):
        known, rest = self.parse_known_args(args)
        return self.kind(**vars(known)), rest

    def parse_dict(self, values):
        return (self.kind(**values),)


class AutoConfig:
    def __init__(self, values):
        self.values = values

    @classmethod
    def from_pretrained(cls, name):
        file = pathlib.Path(name) / "config.json"
        if not file.exists():
            raise OSError(f"{name} is not in the cache")
        return cls(json.loads(file.read_text()))

    def to_dict(self):
        return self.values | {"transformers_version": "5", "_name": "x"}


__all__ = ["AutoConfig", "HfArgumentParser", "TrainingArguments"]

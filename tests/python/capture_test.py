"""`python -m panpipe.capture`: what it makes of each trainer's interface (stand-ins in trainers/), and what it refuses."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

from asked import Cases

STAND_INS = pathlib.Path(__file__).resolve().parent / "trainers"
CAPTURE = pathlib.Path(__file__).resolve().parents[2] / "python" / "panpipe" / "capture"


class Capture(Cases):
    def run_capture(self, *words, module="panpipe.capture", path=None, **variables):
        path = path or f"{os.environ['PYTHONPATH']}{os.pathsep}{STAND_INS}"
        return subprocess.run(
            [sys.executable, "-m", module, *words],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=dict(os.environ, PYTHONPATH=path, **variables),
        )

    def captured(self, *words, **named):
        said = self.run_capture(*words, **named)
        self.assertEqual(said.returncode, 0, said.stderr)
        return json.loads(said.stdout)

    def fault(self, *words, code=2):
        said = self.run_capture(*words)
        self.assertEqual((said.returncode, said.stdout), (code, ""), said.stderr)
        return said.stderr

    def imported(self, trainer, document, *words):
        """The scenario that the program makes of the document, as a map."""
        file = self.written("captured.json", json.dumps(document))
        said = subprocess.run(
            [os.path.join(os.environ["PANPIPE_BIN"], "panpipe"), "import", trainer, str(file), *words],
            capture_output=True,
            text=True,
        )
        self.assertEqual(said.returncode, 0, said.stderr)
        return said.stdout

    def test_torchtitan(self):
        words = ["torchtitan", "--module", "llama3", "--config", "tiny", "--parallelism.tensor_parallel_degree", "2"]
        document = self.captured("--world", "8", *words)
        self.assertEqual(document["schema"], "panpipe-capture/1")
        self.assertEqual(document["argv"], words[1:])
        self.assertEqual(document["world"], 8)
        configuration = document["configuration"]
        self.assertEqual(configuration["parallelism"], {"data_parallel_shard_degree": -1, "tensor_parallel_degree": 2})
        self.assertEqual(configuration["activation_checkpoint"], {"debug": False, "mode": "full"})
        self.assertEqual(configuration["model"], {"name": "llama3", "flavor": "tiny", "converters": []})
        self.assertEqual(configuration["optimizer"]["name"], "AdamW")
        self.assertEqual(document["model"]["num_hidden_layers"], 3)
        self.assertEqual(document["model"]["intermediate_size"], 128)
        self.assertIn("parallelism.tensor_parallel_degree", document["stated"])
        self.assertNotIn("training.seq_len", document["stated"])
        scenario = self.imported("torchtitan", document)
        for line in ("nodes: 1}  # the captured number of ranks", "tensor: 2  #", "data: 4  #", "num_hidden_layers: 3"):
            self.assertIn(line, scenario)

    def test_the_launcher_states_the_ranks(self):
        document = self.captured("torchtitan", "--module", "llama3", "--config", "tiny", WORLD_SIZE="16")
        self.assertEqual(document["world"], 16)

    def test_an_unknown_model_leaves_its_place_open(self):
        document = self.captured("torchtitan", "--module", "mine", "--config", "tiny")
        self.assertNotIn("model", document)
        self.assertIn("the layers of 'mine' are not known", document["remarks"][0])

    def test_huggingface(self):
        (self.folder / "llama").mkdir()
        self.written("llama/config.json", '{"model_type": "llama", "num_hidden_layers": 2}')
        self.written("ds.json", '{"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}}')
        words = ["--model_name_or_path", "llama", "--block_size", "512", "--bf16", "--deepspeed", "ds.json"]
        document = self.captured("--world", "4", "huggingface", "run_clm.py", *words)
        self.assertEqual(document["model"], {"model_type": "llama", "num_hidden_layers": 2})
        self.assertEqual(document["configuration"]["script"], {"model_name_or_path": "llama", "block_size": "512"})
        self.assertEqual(document["configuration"]["deepspeed"]["zero_optimization"], {"stage": 3})
        self.assertIn("bf16", document["stated"])
        absent = self.captured("huggingface", "--model", "meta/absent")
        self.assertEqual(
            absent["remarks"], ["the configuration of 'meta/absent' is not on this machine: meta/absent is not in the cache"]
        )

    def test_deepspeed(self):
        self.written(
            "ds.json", '{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}}'
        )
        document = self.captured("--world", "8", "deepspeed", "--deepspeed_config", "ds.json")
        self.assertEqual(document["configuration"]["gradient_accumulation_steps"], 4)
        self.assertEqual(document["configuration"]["zero_optimization"]["reduce_bucket_size"], 500000000)
        self.assertIn("zero_optimization.stage", document["stated"])
        open_ranks = self.captured("deepspeed", "ds.json")["configuration"]
        self.assertNotIn("gradient_accumulation_steps", open_ranks)

    def test_accelerate(self):
        self.written(
            "a.json",
            '{"distributed_type": "FSDP", "num_processes": 8, "mixed_precision": "bf16", "fsdp_config": {"fsdp_version": 2}}',
        )
        words = ["launch", "--config_file", "a.json", "--fsdp_sharding_strategy", "SHARD_GRAD_OP", "train.py", "--lr", "1"]
        configuration = self.captured("accelerate", *words)["configuration"]
        self.assertEqual(configuration["fsdp_config"], {"fsdp_version": 2, "fsdp_sharding_strategy": "SHARD_GRAD_OP"})
        self.assertEqual((configuration["num_processes"], configuration["mixed_precision"]), (8, "bf16"))
        alone = self.captured("accelerate", "--num_processes", "4", "--use_fsdp")["configuration"]
        self.assertEqual((alone["num_processes"], alone["distributed_type"]), (4, "FSDP"))

    def test_megatron(self):
        words = ["--num-layers", "4", "--tensor-model-parallel-size", "2", "--recompute-modules", "mlp", "core_attn"]
        document = self.captured("--world", "4", "megatron", "pretrain_gpt.py", *words)
        self.assertEqual(document["words"], words)
        self.assertEqual(document["trainer"]["name"], "megatron-core")
        self.assertEqual(document["configuration"]["world_size"], 4)
        self.assertIs(document["configuration"]["bias_gelu_fusion"], False)
        self.assertIn("AssertionError: world size", self.fault("--world", "3", "megatron", *words))

    def test_nemo(self):
        document = self.captured("nemo", "--recipe", "tiny_pretrain_config", "train.global_batch_size=64")
        words = " ".join(document["words"])
        for part in ("--num-layers 4", "--global-batch-size 64", "--num-query-groups 2", "--swiglu", "--disable-bias-linear",
                     "--sequence-parallel", "--bf16", "--grad-reduce-in-bf16", "--use-distributed-optimizer"):  # fmt: skip
            self.assertIn(part, words)
        self.assertIn("has no 'train.batch'", self.fault("nemo", "--recipe", "tiny_pretrain_config", "train.batch=64"))

    def test_what_it_refuses(self):
        self.assertIn("there is no capture of 'jax'; known are torchtitan,", self.fault("jax"))
        self.assertIn("usage: python -m panpipe.capture", self.run_capture().stderr)
        self.assertIn("--world is followed by a number", self.fault("--world", "many", "torchtitan"))
        self.assertIn("ValueError: Config function not found", self.fault("torchtitan", "--module", "llama3", "--config", "no"))

    def test_nothing_is_written(self):
        target = CAPTURE / "stolen"
        said = self.fault("torchtitan", "--module", "llama3", "--config", "tiny", "--steal", str(target))
        self.assertIn(f"torchtitan does more than resolve its configuration: it wants to write {target}", said)
        self.assertFalse(target.exists())

    def test_without_the_trainer(self):
        said = self.run_capture("torchtitan", "--module", "llama3", path=os.environ["PYTHONPATH"])
        if said.returncode == 0:
            self.skipTest("this Python has torchtitan")
        self.assertEqual(said.returncode, 3)
        self.assertIn("run this with the Python that the trainer runs with", said.stderr)

    def test_the_folder_works_alone(self):
        path = f"{CAPTURE.parent}{os.pathsep}{STAND_INS}"
        document = self.captured("torchtitan", "--module", "llama3", "--config", "tiny", module="capture", path=path)
        self.assertEqual(document["trainer"]["name"], "torchtitan")


if __name__ == "__main__":
    unittest.main()

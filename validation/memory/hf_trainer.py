"""Three steps of a small model under the Trainer of transformers, on the stand-in GPU: prints what PyTorch's allocator counted.

    tests/stand_in_gpu/with-stand-in-gpu python3 validation/memory/hf_trainer.py CASE    # CASE: a row's settings as JSON

It needs transformers and accelerate; tools/memory-trainer starts it for each case."""

import json
import sys
import tempfile

import accelerate
import torch
import transformers


def model_of(case):
    sizes = {"vocab_size": case["vocabulary"], "attn_implementation": case["attention"], "use_cache": False}
    if case["model"] == "gpt2":
        config = transformers.GPT2Config(
            n_layer=case["layers"], n_embd=case["hidden"], n_head=case["heads"], n_positions=case["sequence"], **sizes
        )
    else:
        config = transformers.LlamaConfig(
            num_hidden_layers=case["layers"],
            hidden_size=case["hidden"],
            num_attention_heads=case["heads"],
            num_key_value_heads=case["heads"],
            intermediate_size=case["ffn"],
            max_position_embeddings=case["sequence"],
            **sizes,
        )
    model = transformers.AutoModelForCausalLM.from_config(config)
    return model.to(torch.bfloat16) if case["precision"] == "bf16-pure" else model


def measure(case):
    tokens = torch.zeros(case["sequence"], dtype=torch.long)
    steps, samples = 3, case["micro"] * case["microbatches"]
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=case["micro"],
            gradient_accumulation_steps=case["microbatches"],
            max_steps=steps,
            bf16=case["precision"] == "bf16",
            gradient_checkpointing=case["recompute"] == "full",
            optim=case["optimizer"],
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        data = [{"input_ids": tokens, "labels": tokens}] * (steps * samples)
        transformers.Trainer(model=model_of(case), args=arguments, train_dataset=data).train()
    return {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "accelerate": accelerate.__version__,
        "allocated": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.max_memory_reserved(),
    }


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))

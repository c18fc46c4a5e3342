# BLOOM 176B on 48 nodes of 8 A100 80 GB: the arguments of bigscience-workshop/bigscience, train/tr11-176B-ml/tr11-176B-ml.slurm
# (9e64ede). Its log prints 105.2 s a step, 149 TFLOP/s a GPU with the forward counted twice (chronicles.md, iteration 42780).
torchrun --nproc_per_node 8 --nnodes 48 pretrain_gpt.py \
  --tensor-model-parallel-size 4 --pipeline-model-parallel-size 12 \
  --pp-partition-method 'type:transformer|embedding' \
  --num-layers 70 --hidden-size 14336 --num-attention-heads 112 --seq-length 2048 --max-position-embeddings 2048 \
  --micro-batch-size 2 --rampup-batch-size 192 16 9_765_625 --global-batch-size 2048 --train-samples 220_000_000 \
  --init-method-std 0.0048 --embed-layernorm --sync-tp-duplicated-parameters --bf16 --seed 42 \
  --position-embedding-type alibi --checkpoint-activations --abort-on-unmet-fused-kernel-constraints \
  --pad-vocab-size-to 250880 --optimizer adam --adam-beta1 0.9 --adam-beta2 0.95 --adam-eps 1e-8 --lr 6e-5 --min-lr 6e-6 \
  --lr-decay-style cosine --lr-decay-samples 200_000_000 --lr-warmup-samples 183_105 --clip-grad 1.0 --weight-decay 1e-1 \
  --distributed-backend nccl --deepspeed --zero-stage 0 --deepspeed-activation-checkpointing

# GPT 76B on 128 DGX A100 80 GB, interleaved: the arguments of NVIDIA/Megatron-LM,
# examples/academic_paper_scripts/sc21/run_table_1.sh (d98e8a6). Table 1 of arXiv 2104.04473 prints 140 TFLOP/s a GPU.
torchrun --nproc_per_node 8 --nnodes 128 pretrain_gpt.py \
  --activations-checkpoint-method uniform --num-layers-per-virtual-pipeline-stage 5 \
  --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 \
  --micro-batch-size 2 --global-batch-size 1792 --num-layers 60 --hidden-size 10240 --num-attention-heads 80 --DDP-impl local \
  --vocab-size 51200 --log-interval 5 --seq-length 2048 --max-position-embeddings 2048 --train-iters 500 --lr-decay-iters 320 \
  --lr 0.0001 --min-lr 0.00001 --lr-decay-style cosine --lr-warmup-fraction 0.01 --split 969,30,1 --clip-grad 1.0 --fp16 \
  --loss-scale 8192

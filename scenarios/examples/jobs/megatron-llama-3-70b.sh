# Llama 3 70B with Megatron-LM on 64 GPUs: an example for `panpipe import megatron`.
torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py \
    --tensor-model-parallel-size 4 --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 5 --sequence-parallel \
    --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 --group-query-attention --num-query-groups 8 \
    --seq-length 8192 --max-position-embeddings 8192 --position-embedding-type rope --rotary-base 500000 \
    --normalization RMSNorm --swiglu --disable-bias-linear --untie-embeddings-and-output-weights --vocab-size 128256 \
    --attention-dropout 0 --hidden-dropout 0 --use-flash-attn \
    --micro-batch-size 1 --global-batch-size 128 --bf16 \
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --recompute-granularity full --recompute-method uniform \
    --lr 1.5e-4 --train-iters 500000 --lr-decay-style cosine --weight-decay 0.1 \
    --data-path text_document --tokenizer-type HuggingFaceTokenizer --save checkpoints --log-interval 10

#!/bin/bash
# A GPT of 20 billion parameters under Slurm, with its arguments in variables: an example for `panpipe import megatron`.
#SBATCH --nodes=4
#SBATCH --gpus-per-node=8

TP_SIZE=4
PP_SIZE=${PP_SIZE:-2}
GPUS_PER_NODE=8
SIZE=20B

case $SIZE in
  7B) LAYERS=32; HIDDEN=4096; HEADS=32 ;;
  20B) LAYERS=44; HIDDEN=6144; HEADS=64 ;;
esac

MODEL_ARGS=(
    --num-layers $LAYERS
    --hidden-size $HIDDEN          # of a layer
    --num-attention-heads $HEADS
    --seq-length 2048 --max-position-embeddings 2048
    --tokenizer-type GPT2BPETokenizer
)
TRAINING_ARGS="--micro-batch-size 1 --global-batch-size $GLOBAL_BATCH --bf16 --use-distributed-optimizer \
    --lr 1e-4 --train-iters 100000"
if [ $TP_SIZE -gt 1 ]; then
  TRAINING_ARGS+=" --sequence-parallel"
fi

export LAUNCHER="torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $SLURM_NNODES --rdzv_endpoint $(hostname):6000"
export CMD="pretrain_gpt.py --tensor-model-parallel-size $TP_SIZE --pipeline-model-parallel-size $PP_SIZE \
    ${MODEL_ARGS[@]} $TRAINING_ARGS --save $CHECKPOINTS/$(date +%F)"

srun bash -c "$LAUNCHER --node_rank \$SLURM_PROCID $CMD" 2>&1 | tee log.txt

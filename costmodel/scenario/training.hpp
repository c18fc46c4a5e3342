// The settings of an optimizer step for the executor. Predictions use only the optimizer's name and its state.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace panpipe {

// The format of an optimizer's state. Int8: a byte per element, and an fp32 scale per block (bitsandbytes).
enum class StateFormat { Fp32, Bf16, Int8 };
// The copy of the weights that a step updates in mixed precision. None: it updates the weights themselves, with or without
// stochastic rounding.
enum class MasterFormat { Fp32, Bf16, None };

// How the replicas divide the step of whole matrices (Muon, SOAP, Shampoo). Replicated: each steps all of them. Layers: each
// steps some of them, and the others receive the result. Gathered: each gathers every matrix of which it holds a shard, and steps
// it.
enum class MatrixSharding { Replicated, Layers, Gathered };
// The same for tensor-parallel ranks, which hold shards of a matrix (Megatron-LM's --muon-tp-mode). Blockwise: each steps its
// shard, which is another update. Duplicated: each gathers the whole. Distributed: they sum the Gram matrix of their shards in
// each iteration. Layers: each gathers some of the matrices.
enum class MatrixTensorMode { Blockwise, Duplicated, Distributed, Layers };
// By what Muon's orthogonal update of a matrix is multiplied: sqrt(max(1, rows / columns)), 0.2 sqrt(max(rows, columns)) as
// Moonlight does (arXiv 2502.16982), or the latter without 0.2.
enum class UpdateScale { Original, MatchRms, Spectral };

// Defaults are PyTorch's for each optimizer.
struct OptimizerRequest {
  std::string name = "adam";  // none | sgd | momentum | adam | adamw | muon | soap | shampoo
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;   // adam, adamw; muon, soap, shampoo: of what is no hidden matrix
  double epsilon = 1e-8;               // the same
  double weight_decay = 0;             // adamw: 0.01; muon: 0.1
  double momentum = 0;                 // momentum: 0.9; muon: 0.95
  std::optional<StateFormat> states;   // not stated: the format of the updated weights
  std::optional<MasterFormat> master;  // not stated: fp32 in mixed precision, otherwise none

  bool nesterov = true;         // muon
  int newton_schulz_steps = 5;  // muon
  UpdateScale update_scale = UpdateScale::Original;
  std::optional<MatrixSharding> sharding;  // not stated: as ZeRO divides the state (matrix_sharding)
  MatrixTensorMode tensor_mode = MatrixTensorMode::Duplicated;
  int block = 0;      // soap, shampoo: rows or columns that one preconditioner covers; 0: 10000 and 1024
  int interval = 10;  // soap, shampoo: steps between two updates of the preconditioners

  // Kinds of parameters (kDecayKinds), or name patterns, whose weight decay is 0.
  std::vector<std::string> no_decay;
  // Separate settings for parameters whose names match a pattern (* any text, ? one letter). The first matching group applies. A
  // stated weight decay takes precedence over `no_decay`.
  struct Group {
    std::string match;
    std::optional<double> learning_rate, weight_decay;
  };
  std::vector<Group> groups;
};

// Parameters of normalizations; parameters whose last name ends with "bias"; those of at most one dimension; embedding tables.
constexpr const char* kDecayKinds[] = {"norms", "biases", "vectors", "embeddings"};

struct TrainingRequest {
  enum class Decay { Constant, Linear, Cosine, InverseSqrt };
  Decay decay = Decay::Constant;
  int warmup_steps = 0;              // learning rate rises linearly over these updates
  int decay_steps = 0;               // updates, from the first one, after which `minimum_learning_rate` is reached
  int decay_start = 0;               // the rate stays constant until this update; at the earliest the end of the warm-up
  double minimum_learning_rate = 0;  // the rate at the end of the decay
  double clip_gradients = 0;         // largest global norm; 0 = not clipped

  enum class LossScale { Default, Fixed, Dynamic };  // Default: dynamic with fp16, else none
  LossScale loss_scale = LossScale::Default;
  double initial_scale = 65536;  // PyTorch's GradScaler starts here, and doubles after 2000 steps without overflow
  int growth_interval = 2000;

  int keep_checkpoints = 0;  // number of newest ones kept; 0 = all

  int evaluate_every = 0;  // steps; 0 = never
  int evaluate_steps = 0;  // batches of a step's size per evaluation; 0 = all whole ones in the held-out data
};

}  // namespace panpipe

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

// Defaults are PyTorch's for each optimizer.
struct OptimizerRequest {
  std::string name = "adam";  // none | sgd | momentum | adam | adamw
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;   // adam, adamw
  double epsilon = 1e-8;               // adam, adamw
  double weight_decay = 0;             // adamw: 0.01
  double momentum = 0;                 // momentum: 0.9
  std::optional<StateFormat> states;   // not stated: the format of the updated weights
  std::optional<MasterFormat> master;  // not stated: fp32 in mixed precision, otherwise none

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

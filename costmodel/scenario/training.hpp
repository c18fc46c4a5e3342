// What an executor needs to know about an optimizer step. Predictions look at the optimizer's name and at what it keeps.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace panpipe {

// What an optimizer keeps its numbers in. Int8: a byte an element, and a scale in fp32 for each block (bitsandbytes).
enum class StateFormat { Fp32, Bf16, Int8 };
// The copy of the weights that a step updates in mixed precision; None: the weights themselves, with stochastic rounding or
// without.
enum class MasterFormat { Fp32, Bf16, None };

// Defaults are PyTorch's for each optimizer.
struct OptimizerRequest {
  std::string name = "adam";  // none | sgd | momentum | adam | adamw
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;   // adam, adamw
  double epsilon = 1e-8;               // adam, adamw
  double weight_decay = 0;             // adamw: 0.01
  double momentum = 0;                 // momentum: 0.9
  std::optional<StateFormat> states;   // not stated: that of what is updated
  std::optional<MasterFormat> master;  // not stated: fp32 in mixed precision; others have none

  // Kinds of parameters (kDecayKinds), or patterns of names, whose weight decay is 0.
  std::vector<std::string> no_decay;
  // Numbers of their own for the parameters whose names match a pattern (* any text, ? one letter); of several groups that match,
  // the first counts. A stated weight decay goes before `no_decay`.
  struct Group {
    std::string match;
    std::optional<double> learning_rate, weight_decay;
  };
  std::vector<Group> groups;
};

// Parameters of normalizations; those whose last name ends with "bias"; those of at most one dimension; tables of embeddings.
constexpr const char* kDecayKinds[] = {"norms", "biases", "vectors", "embeddings"};

struct TrainingRequest {
  enum class Decay { Constant, Linear, Cosine, InverseSqrt };
  Decay decay = Decay::Constant;
  int warmup_steps = 0;              // learning rate rises linearly over these updates
  int decay_steps = 0;               // updates, from the first one, after which `minimum_learning_rate` is reached
  int decay_start = 0;               // the update until which the rate stays; at the earliest the end of the warm-up
  double minimum_learning_rate = 0;  // where the decay ends
  double clip_gradients = 0;         // largest global norm; 0 = not clipped

  enum class LossScale { Default, Fixed, Dynamic };  // Default: dynamic where the precision is fp16, else none
  LossScale loss_scale = LossScale::Default;
  double initial_scale = 65536;  // PyTorch's GradScaler starts here, and doubles after 2000 steps without overflow
  int growth_interval = 2000;

  int keep_checkpoints = 0;  // newest ones kept; 0 = all

  int evaluate_every = 0;  // steps; 0 = never
  int evaluate_steps = 0;  // batches of a step's size that an evaluation takes; 0 = as many as the data held out have whole
};

}  // namespace panpipe

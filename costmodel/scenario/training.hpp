// What an executor needs to know about an optimizer step. Predictions look at the optimizer's name alone.
#pragma once

#include <string>

namespace panpipe {

// Defaults are PyTorch's for each optimizer.
struct OptimizerRequest {
  std::string name = "adam";  // none | sgd | momentum | adam | adamw
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;  // adam, adamw
  double epsilon = 1e-8;              // adam, adamw
  double weight_decay = 0;            // adamw: 0.01
  double momentum = 0;                // momentum: 0.9
};

struct TrainingRequest {
  enum class Decay { Constant, Linear, Cosine };
  Decay decay = Decay::Constant;
  int warmup_steps = 0;              // learning rate rises linearly over these updates
  int decay_steps = 0;               // updates, from the first one, after which `minimum_learning_rate` is reached
  double minimum_learning_rate = 0;  // where the decay ends
  double clip_gradients = 0;         // largest global norm; 0 = not clipped

  enum class LossScale { Default, Fixed, Dynamic };  // Default: dynamic where the precision is fp16, else none
  LossScale loss_scale = LossScale::Default;
  double initial_scale = 65536;  // PyTorch's GradScaler starts here, and doubles after 2000 steps without overflow
  int growth_interval = 2000;

  int keep_checkpoints = 0;  // newest ones kept; 0 = all
};

}  // namespace panpipe

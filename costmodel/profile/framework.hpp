// What the training framework does that the hardware does not say: half a dozen numbers, a file each under
// scenarios/frameworks/. Values and their study: docs/models/compute.md.
#pragma once

#include <string>

#include "costmodel/base/quantity.hpp"
#include "costmodel/input/reader.hpp"

namespace panpipe {

struct Framework {
  std::string name = "megatron";
  double elementwise_factor = 1.0;  // x: traffic of element-wise operators over fully fused kernels
  double score_factor = 1.0;        // s2x: traffic of unfused attention scores
  bool flash_attention = false;
  double loss_bytes_per_logit = 20;  // traffic of the loss, forward and backward together
  int gradient_bytes = 0;            // per parameter; 0 = by precision
  int forward_operators = 28;        // host launches per transformer layer
  int backward_operators = 40;
  bool synchronous_launches = false;  // host and device add instead of overlapping
  bool blocking_transfers = true;     // a rank waits for its own pipeline sends
  bool scatter_gather = true;         // stage hand-over split over the tensor-parallel ranks, gathered at the receiver
  bool distributed_optimizer = false;
};

Framework load_framework(const std::string& name_or_path, const std::string& directory);

}  // namespace panpipe

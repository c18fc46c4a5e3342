// A GPT whose framework is changed key by key.
#pragma once

#include <memory>
#include <string>

#include "tests/costmodel/cost/priced_models.hpp"

namespace panpipe {

inline constexpr double kBandwidth = 2039e9;
inline constexpr double kHidden = 2048, kTokens = 8 * 1024;
inline constexpr double kN = kTokens * kHidden;
// Weights and biases of the four products of a GPT layer: 12 h^2 + 9 h.
inline constexpr double kWeights = 12 * kHidden * kHidden + 9 * kHidden;

// A GPT on one A100-80G, fp16, with the preset timm (eager, autocast, no dropout) and single keys changed.
inline std::unique_ptr<Made> with(const std::string& choices, const std::string& precision = "fp16",
                                  const std::string& extra = "") {
  GptCase c;
  c.hidden = static_cast<int>(kHidden);
  c.heads = 16;
  c.sequence = 1024;
  c.micro = 8;
  c.tensor = 1;
  c.precision = precision;
  c.framework = "{name: timm" + choices + "}";
  c.extra = extra;
  auto made = make_gpt(c);
  made->cost();
  return made;
}

inline double rate(const Made& made) { return made.model->calibration(0).memory_efficiency * kBandwidth; }
inline double bytes_of(const Made& made, Duration time) { return time.base() * rate(made); }

}  // namespace panpipe

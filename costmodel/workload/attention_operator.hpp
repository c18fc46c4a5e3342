// The settings of an attention operator, by whichever of its two names: aten::scaled_dot_product_attention, or
// panpipe_nn::attention, which adds a window, a soft cap, sinks and linear biases. Both take query, key and value first.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <variant>

#include "costmodel/workload/operands.hpp"

namespace panpipe {

// Arguments of panpipe_nn::attention that hold one number per head.
inline constexpr std::size_t kSinksArgument = 3, kSlopesArgument = 4;

struct AttentionSettings {
  bool own = false;             // panpipe_nn::attention
  int sinks = -1, slopes = -1;  // tensors with one number per head; -1: none
  double dropout = 0;
  bool causal = false;
  std::optional<double> scale{};  // default: 1 / sqrt(features)
  std::int64_t window = 0;        // tokens that a query sees, itself included; 0: all
  double cap = 0;                 // soft cap on scores, by tanh; 0: none
};

// Nothing if the operator is no attention.
inline std::optional<AttentionSettings> attention_settings(const Operator& op) {
  AttentionSettings found;
  found.own = op.target == "panpipe_nn::attention";
  if (!found.own && op.target != "aten::scaled_dot_product_attention") return std::nullopt;
  const auto read = [&op](std::size_t position, auto& value) {
    using Value = std::decay_t<decltype(value)>;
    if (position >= op.arguments.size()) return;
    if (const auto* given = std::get_if<Value>(&op.arguments[position])) value = *given;
  };
  const std::size_t dropout = found.own ? 5 : 4;  // then causal, scale, grouped
  read(dropout, found.dropout);
  read(dropout + 1, found.causal);
  double scale = 0;
  read(dropout + 2, scale);
  if (scale > 0) found.scale = scale;
  if (!found.own) return found;
  found.sinks = tensor_argument(op, kSinksArgument);
  found.slopes = tensor_argument(op, kSlopesArgument);
  read(9, found.window);
  read(10, found.cap);
  return found;
}

}  // namespace panpipe

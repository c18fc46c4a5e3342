// The settings of an attention operator, whichever it is: ATen's, or panpipe_nn::attention, which adds a window, a soft cap,
// sinks and linear biases. Both take query, key and value.
#pragma once

#include <cstdint>
#include <optional>

#include "costmodel/workload/operator_table.hpp"

namespace panpipe {

inline bool is_attention(const Operator& op) { return row_of(op).role == OperatorRole::Attention; }

struct AttentionSettings {
  int sinks = -1, slopes = -1;  // tensors with one number per head; -1: none
  double dropout = 0;
  bool causal = false;
  std::optional<double> scale{};  // default: 1 / sqrt(features)
  std::int64_t window = 0;        // tokens that a query sees, itself included; 0: all
  double cap = 0;                 // soft cap on scores, by tanh; 0: none
};

inline AttentionSettings attention_settings(const Operator& op) {
  AttentionSettings found;
  found.sinks = tensor_argument(op, "sinks");
  found.slopes = tensor_argument(op, "slopes");
  found.dropout = value_argument<double>(op, "dropout_p").value_or(0);
  found.causal = value_argument<bool>(op, "is_causal").value_or(false);
  found.scale = value_argument<double>(op, "scale");
  found.window = value_argument<std::int64_t>(op, "window").value_or(0);
  found.cap = value_argument<double>(op, "cap").value_or(0);
  return found;
}

}  // namespace panpipe

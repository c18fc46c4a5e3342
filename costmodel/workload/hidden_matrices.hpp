// The parameters that Muon, SOAP and Shampoo update as matrices. Predictions and the executor ask here alone.
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/workload/graph.hpp"

namespace panpipe {

struct MatrixStack {
  std::int64_t count = 0;              // on this rank: 1, or its experts; 0: the parameter is no hidden matrix
  std::int64_t rows = 0, columns = 0;  // of one, over all tensor-parallel ranks
  int shards = 1;                      // tensor-parallel parts of one
  bool by_rows = false;                // parts of its rows, else of its columns
};

// By tensor. A hidden matrix is a trained parameter of two dimensions (of experts: three) that a product multiplies with, neither
// the table of an embedding nor what makes the logits, as torch.optim.Muon documents and Megatron-LM chooses
// (megatron/core/optimizer/emerging_optimizers.py, _is_nonlinear_or_embedding). A fused matrix (query, key, value) is one.
std::vector<MatrixStack> hidden_matrices(const OperatorGraph& graph);

}  // namespace panpipe

// Optimizers that step whole matrices: Muon, SOAP, Shampoo (docs/models/optimizers.md). A row of the table is all that one needs
// here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "costmodel/cost/cost_model.hpp"
#include "costmodel/scenario/training.hpp"
#include "costmodel/workload/hidden_matrices.hpp"
#include "costmodel/workload/operator_cost.hpp"

namespace panpipe {

struct DeviceRates;

// One step of one matrix.
struct MatrixWork {
  struct Products {
    GemmShape shape;
    double times = 1;  // a step; less than one: every few steps
  };
  std::vector<Products> products;
  double traffic = 0;    // bytes that element-wise operations read and write
  int launches = 0;      // kernels
  double states = 0;     // elements of state
  double temporary = 0;  // bytes while it runs
  double gram = 0;       // elements that ranks which hold parts of the matrix sum, in each iteration
};

// True for optimizers that step whole matrices, and everything else as AdamW.
bool steps_matrices(const std::string& optimizer);
// The same, if the executor runs it.
bool executes_matrices(const std::string& optimizer);

// Of a matrix of rows x columns; `element`: bytes of the weights that the step updates. A whole matrix on one rank, or, with
// `parts` above one, the share of a rank that holds a part of its rows (`by_rows`) or columns.
MatrixWork matrix_work(const OptimizerRequest& optimizer, std::int64_t rows, std::int64_t columns, double element, int parts = 1,
                       bool by_rows = false);

// Floating-point operations of that step.
double matrix_flops(const MatrixWork& work);

// The matrices of a parameter under the scenario's choices, with the times of a device of these rates.
MatrixUse matrix_use(const Scenario& scenario, const MatrixStack& stack, const DeviceRates& rates, double element);

// How replicas divide the step: as stated, else as the effective ZeRO stage divides the state. Throws InputError where what is
// stated does not go with that stage.
MatrixSharding matrix_sharding(const Scenario& scenario, int zero);
// What does not, and what to state instead; empty: both stand together.
std::string refused_sharding(MatrixSharding sharding, int zero);
std::string_view name_of(MatrixSharding sharding);

}  // namespace panpipe

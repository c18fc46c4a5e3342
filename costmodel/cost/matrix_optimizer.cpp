#include "costmodel/cost/matrix_optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/cost/compute.hpp"

namespace panpipe {
namespace {

using Request = OptimizerRequest;

std::int64_t whole_parts(std::int64_t size, std::int64_t parts) { return (size + parts - 1) / parts; }

// A matrix with its shorter side first, and what a rank has of it.
struct Sides {
  double shorter = 0, longer = 0;    // of the whole matrix
  std::int64_t gram = 0, other = 0;  // sides of the rank's part: the one whose Gram matrix is taken, and the other
};

// Newton-Schulz by quintic steps (Jordan et al., 2024): A = X X', B = b A + c A A, X = a X + B X, on the shorter side m of m x n:
// 2 m m n + 2 m m m + 2 m m n operations in each. Where ranks hold parts, the Gram matrix is of the side that is whole, whatever
// its length (emerging_optimizers, newton_schulz_tp).
//
// Traffic of torch.optim.Muon around the products, for elements of e bytes: the momentum (3 e), the update (3 e), its copy in 2
// bytes (e + 2), norm (2), scale (4), decay (2 e) and subtraction (2 e + 2) of the weight. Temporary: the update, the copy and
// the next iterate in 2 bytes, and two Gram matrices.
MatrixWork muon_work(const Request& o, std::int64_t rows, std::int64_t columns, double e, int parts, bool by_rows) {
  const bool apart = parts > 1;
  const std::int64_t m = apart ? (by_rows ? columns : rows) : std::min(rows, columns);
  const std::int64_t n = whole_parts(rows * columns / m, parts);
  const auto held = static_cast<double>(m * n), side = static_cast<double>(m);
  MatrixWork work;
  const double steps = o.newton_schulz_steps;
  work.products = {{{1, m, m, n}, steps}, {{1, m, m, m}, steps}, {{1, m, n, m}, steps}};
  work.traffic = held * (11 * e + 10);
  constexpr int kAround = 9;
  work.launches = kAround + 3 * o.newton_schulz_steps;
  work.states = held;
  work.temporary = held * (e + 4) + 2 * 2 * side * side;
  if (apart) work.gram = side * side;
  return work;
}

// The blocks into which a preconditioned matrix is cut.
struct Blocks {
  std::int64_t count = 1, rows = 0, columns = 0;
};
Blocks blocks_of(std::int64_t rows, std::int64_t columns, std::int64_t most) {
  const std::int64_t down = whole_parts(rows, most), across = whole_parts(columns, most);
  return {down * across, whole_parts(rows, down), whole_parts(columns, across)};
}

// What both have: statistics of either side, G G' and G' G, in each step; `turns` products of the block with each side; every
// `interval` steps new bases or roots, which take `renewal` products of p^3 a side; 2 sides of state a block, and Adam's moments.
MatrixWork preconditioned(const Request& o, std::int64_t rows, std::int64_t columns, double e, std::int64_t most, double turns,
                          double renewal) {
  const auto [count, p, q] = blocks_of(rows, columns, o.block > 0 ? o.block : most);
  const auto held = static_cast<double>(rows * columns);
  const auto squares = static_cast<double>(p * p + q * q) * static_cast<double>(count);
  const double often = 1.0 / o.interval;
  MatrixWork work;
  work.products = {{{count, p, p, q}, 1},
                   {{count, q, q, p}, 1},
                   {{count, p, q, p}, turns},
                   {{count, p, q, q}, turns},
                   {{count, p, p, p}, renewal * often},
                   {{count, q, q, q}, renewal * often}};
  work.states = 2 * held + 2 * squares;
  work.temporary = 4 * (2 * held + squares);
  work.traffic = held * (20 * e);
  work.launches = 24;
  return work;
}

// SOAP (Vyas et al., arXiv 2409.11321, algorithm 3): Adam on the gradient in the eigenbasis of Shampoo's preconditioners, 2 sides
// of it a block: statistics and bases. Gradient and momentum are turned into the basis, the update back, by two products each.
// The bases follow by one power iteration, a product and a QR (4/3 + 4/3 p^3 with its factor made), every `interval` steps.
MatrixWork soap_work(const Request& o, std::int64_t rows, std::int64_t columns, double e, int, bool) {
  return preconditioned(o, rows, columns, e, 10000, 3, 1 + 4.0 / 3);
}

// Shampoo (Shi et al., arXiv 2309.06497, section 2): the update is L^-1/4 G R^-1/4, with Adam's moments for grafting; 2 sides of
// state a block: statistics and inverse roots. Roots come from an eigendecomposition (9 p^3 operations, Golub and Van Loan,
// section 8.3) and a product, every `interval` steps.
MatrixWork shampoo_work(const Request& o, std::int64_t rows, std::int64_t columns, double e, int, bool) {
  return preconditioned(o, rows, columns, e, 1024, 1, 9.0 / 2 + 1);
}

struct MatrixOptimizer {
  std::string_view name;
  MatrixWork (*work)(const Request&, std::int64_t, std::int64_t, double, int, bool);
  bool executed;
};
constexpr MatrixOptimizer kMatrixOptimizers[] = {
    {"muon", muon_work, true}, {"soap", soap_work, false}, {"shampoo", shampoo_work, false}};

const MatrixOptimizer* find_row(const std::string& name) {
  const auto found = std::find_if(std::begin(kMatrixOptimizers), std::end(kMatrixOptimizers),
                                  [&](const MatrixOptimizer& row) { return row.name == name; });
  return found == std::end(kMatrixOptimizers) ? nullptr : found;
}

}  // namespace

bool steps_matrices(const std::string& optimizer) { return find_row(optimizer) != nullptr; }

bool executes_matrices(const std::string& optimizer) {
  const MatrixOptimizer* row = find_row(optimizer);
  return row != nullptr && row->executed;
}

MatrixWork matrix_work(const OptimizerRequest& optimizer, std::int64_t rows, std::int64_t columns, double element, int parts,
                       bool by_rows) {
  return find_row(optimizer.name)->work(optimizer, rows, columns, element, parts, by_rows);
}

double matrix_flops(const MatrixWork& work) {
  double flops = 0;
  for (const auto& [g, times] : work.products)
    flops +=
        times * 2 * static_cast<double>(g.batch) * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
  return flops;
}

MatrixUse matrix_use(const Scenario& scenario, const MatrixStack& stack, const DeviceRates& rates, double element) {
  MatrixUse use;
  const OptimizerRequest& optimizer = scenario.optimizer;
  if (stack.count == 0 || !steps_matrices(optimizer.name)) return use;
  const std::int64_t part_rows = stack.by_rows ? whole_parts(stack.rows, stack.shards) : stack.rows,
                     part_columns = stack.by_rows ? stack.columns : whole_parts(stack.columns, stack.shards);
  const MatrixTensorMode mode = optimizer.tensor_mode;
  const bool shards = stack.shards > 1, alone = shards && mode == MatrixTensorMode::Blockwise,
             apart = shards && mode == MatrixTensorMode::Distributed;
  const MatrixWork work = alone   ? matrix_work(optimizer, part_rows, part_columns, element)
                          : apart ? matrix_work(optimizer, stack.rows, stack.columns, element, stack.shards, stack.by_rows)
                                  : matrix_work(optimizer, stack.rows, stack.columns, element);
  use.count = stack.count;
  use.elements = stack.rows * stack.columns;
  use.shard = part_rows * part_columns;
  use.gram = static_cast<std::int64_t>(work.gram);
  Duration time(work.traffic / (rates.memory > Bandwidth(0) ? rates.memory.base() : 1));
  if (rates.memory <= Bandwidth(0)) time = Duration(0);
  if (rates.gemm > ComputeRate(0))
    for (const auto& [shape, times] : work.products) time += gemm_cost(shape, rates).total * times;
  const bool one_of_them = shards && mode == MatrixTensorMode::Layers;  // tensor-parallel ranks take turns
  use.step = one_of_them ? time / stack.shards : time;
  use.work = Flops(matrix_flops(work) / (one_of_them ? stack.shards : 1));
  use.launches = work.launches;
  use.temporary = Bytes(static_cast<std::int64_t>(work.temporary));
  // A state of the matrix's size is divided as the matrix is, those of its sides are held by each rank that steps it.
  const double whole = static_cast<double>(use.elements), own = static_cast<double>(use.shard);
  const double sides = alone || apart ? work.states - own : work.states - whole;
  use.more_states = use.count * static_cast<std::int64_t>(own + sides - 2 * own);
  return use;
}

std::string_view name_of(MatrixSharding sharding) {
  constexpr std::string_view kNames[] = {"replicated", "layers", "gathered"};
  return kNames[static_cast<std::size_t>(sharding)];
}

std::string refused_sharding(MatrixSharding sharding, int zero) {
  if (sharding == MatrixSharding::Replicated && zero > 0) return fmt::format("ZeRO {} divides the optimizer's state", zero);
  if (sharding == MatrixSharding::Layers && zero == 0) return "without ZeRO every replica holds the state of every matrix";
  if (sharding == MatrixSharding::Gathered && zero < 2)
    return fmt::format("with zero {} whole gradients are there, so that nothing is gathered", zero);
  return {};
}

MatrixSharding matrix_sharding(const Scenario& scenario, int zero) {
  const auto usual = zero == 0 ? MatrixSharding::Replicated : zero == 1 ? MatrixSharding::Layers : MatrixSharding::Gathered;
  const MatrixSharding sharding = scenario.optimizer.sharding.value_or(usual);
  if (const std::string why = refused_sharding(sharding, zero); !why.empty())
    throw fault_at(scenario, "optimizer.sharding", fmt::format("sharding {}: {}", name_of(sharding), why),
                   "leave optimizer.sharding out, or state another parallel.zero");
  return sharding;
}

}  // namespace panpipe

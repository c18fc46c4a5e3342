#include "validation/judge/learn_prior.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/index.hpp"

namespace panpipe::validation {
namespace {

using Vector = Eigen::VectorXd;
using Matrix = Eigen::MatrixXd;

// Standard deviations of ln before anything is seen, in the order of Direction. They stand for this many sources.
constexpr Sensitivity kSpreads = {0.06, 0.10, 0.15, 0.15, 0.5, 0.3, 0.3, 0.5, 0.7};
constexpr double kBlockSpread = 0.03, kSourcesBefore = 4;
constexpr double kCellsBefore = 1.5;  // sources that the grid's cells share before
constexpr double kScales[] = {0.1, 0.3, 1, 3, 10};
constexpr double kScatters[] = {0.004, 0.008, 0.015, 0.03, 0.06, 0.12, 0.24};
// Of a class in which a term may be missing: sources before, mostly without.
constexpr MissingWeights kMissingBefore = {2, 0.3, 0.3, 0.3};
constexpr int kRounds = 25;
constexpr std::size_t kMostSteps = 60;  // of a source: more of them add little

bool may_miss(StepClass of) {
  return of == StepClass::Experts || of == StepClass::UncountedExperts || of == StepClass::Pcie || of == StepClass::Offload ||
         of == StepClass::OneGpu;
}

// A source's steps as a linear model: off = design x (directions, then blocks) + missing time + scatter.
struct SourceModel {
  Matrix design;
  Vector off, misses;  // misses: 1 for steps of the class in which a term may be missing
  StepClass of{};
  Eigen::Index blocks = 0;
};

StepClass class_of_most(const std::vector<ComparedStep>& steps) {
  std::array<int, kStepClasses> counts{};
  for (const ComparedStep& step : steps) ++counts[at(step.of)];
  return static_cast<StepClass>(std::max_element(counts.begin(), counts.end()) - counts.begin());
}

SourceModel model_of(const std::vector<ComparedStep>& all) {
  std::vector<ComparedStep> steps;
  const std::size_t count = std::min(all.size(), kMostSteps);
  for (std::size_t i = 0; i < count; ++i) steps.push_back(all[i * all.size() / count]);
  SourceModel model;
  std::vector<std::size_t> block(count), firsts;
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t b = 0;
    while (b < firsts.size() && !steps[firsts[b]].same_block(steps[i])) ++b;
    if (b == firsts.size()) firsts.push_back(i);
    block[i] = b;
  }
  const auto rows = static_cast<Eigen::Index>(count), directions = static_cast<Eigen::Index>(kDirections);
  model.blocks = static_cast<Eigen::Index>(firsts.size());
  model.design = Matrix::Zero(rows, directions + model.blocks);
  model.off = model.misses = Vector::Zero(rows);
  model.of = class_of_most(steps);
  for (Eigen::Index i = 0; i < rows; ++i) {
    const ComparedStep& step = steps[at(i)];
    for (Eigen::Index d = 0; d < directions; ++d) model.design(i, d) = step.sensitivity[at(d)];
    model.design(i, directions + static_cast<Eigen::Index>(block[at(i)])) = 1;
    model.off[i] = step.off;
    model.misses[i] = step.of == model.of ? 1 : 0;
  }
  return model;
}

// What one round sums over the sources.
struct Sums {
  Sensitivity squares{};  // of directions, over their scale
  double block_squares = 0;
  Vector scales = Vector::Zero(std::size(kScales)), scatters = Vector::Zero(std::size(kScatters));
  std::array<MissingWeights, kStepClasses> missing{};
};

// Expectations over the grid for one source. With the prior variances u of the design's columns and Z its matrix, the covariance
// of the steps is scale Z u Z' + scatter^2: one eigendecomposition serves every cell.
void add_source(const UncertaintyPrior& prior, const SourceModel& model, Sums& sums) {
  const Eigen::Index columns = model.design.cols();
  Vector variances(columns);
  for (Eigen::Index c = 0; c < columns; ++c) {
    const double spread = c < static_cast<Eigen::Index>(kDirections) ? prior.spread[at(c)] : prior.block_spread;
    variances[c] = spread * spread;
  }
  const Matrix scaled = variances.asDiagonal() * model.design.transpose();
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(model.design * scaled);
  const Vector values = solver.eigenvalues().cwiseMax(0);
  const Matrix& vectors = solver.eigenvectors();
  const Matrix pull = scaled * vectors;  // columns x steps
  struct Cell {
    std::size_t scale, scatter, missing;
    double log, block_square;
    Sensitivity squares;
  };
  std::vector<Cell> cells;
  double most = -1e300;
  for (std::size_t m = 0; m < kMissingTimes.size(); ++m) {
    const double missing = prior.missing[at(model.of)][m];
    if (missing <= 0) continue;
    const Vector along = vectors.transpose() * (model.off - kMissingTimes[m] * model.misses);
    for (std::size_t a = 0; a < prior.scale.size(); ++a)
      for (std::size_t b = 0; b < prior.scatter.size(); ++b) {
        const double scale = prior.scale[a].value, scatter = prior.scatter[b].value;
        const Vector variance = (scale * values).array() + scatter * scatter;
        Cell cell{a, b, m, std::log(prior.scale[a].weight * prior.scatter[b].weight * missing), 0, {}};
        cell.log -=
            (variance.array().log() + along.array().square() / variance.array() + std::log(2 * std::numbers::pi)).sum() / 2;
        const Vector means = scale * pull * (along.array() / variance.array()).matrix();
        const Vector spreads = scale * variances - scale * scale * (pull.array().square().matrix() * variance.cwiseInverse());
        const Vector squares = (means.array().square() + spreads.array()) / scale;
        for (std::size_t d = 0; d < kDirections; ++d) cell.squares[d] = squares[static_cast<Eigen::Index>(d)];
        cell.block_square = squares.tail(model.blocks).mean();
        most = std::max(most, cell.log);
        cells.push_back(cell);
      }
  }
  double sum = 0;
  for (const Cell& cell : cells) sum += std::exp(cell.log - most);
  for (const Cell& cell : cells) {
    const double weight = std::exp(cell.log - most) / sum;
    for (std::size_t d = 0; d < kDirections; ++d) sums.squares[d] += weight * cell.squares[d];
    sums.block_squares += weight * cell.block_square;
    sums.scales[static_cast<Eigen::Index>(cell.scale)] += weight;
    sums.scatters[static_cast<Eigen::Index>(cell.scatter)] += weight;
    sums.missing[at(model.of)][cell.missing] += weight;
  }
}

void set_weights(std::vector<Weighted>& grid, const Vector& counts) {
  const double before = kCellsBefore / static_cast<double>(grid.size());
  for (std::size_t i = 0; i < grid.size(); ++i)
    grid[i].weight = (counts[static_cast<Eigen::Index>(i)] + before) / (counts.sum() + kCellsBefore);
}

void set_missing(const std::array<MissingWeights, kStepClasses>& counts, UncertaintyPrior& prior) {
  for (std::size_t c = 0; c < kStepClasses; ++c) {
    MissingWeights& weights = prior.missing[c];
    weights = {1, 0, 0, 0};
    if (!may_miss(static_cast<StepClass>(c))) continue;
    double sum = 0;
    for (std::size_t m = 0; m < weights.size(); ++m) sum += weights[m] = counts[c][m] + kMissingBefore[m];
    for (double& weight : weights) weight /= sum;
  }
}

}  // namespace

UncertaintyPrior prior_before_learning() {
  UncertaintyPrior prior;
  prior.spread = kSpreads;
  prior.block_spread = kBlockSpread;
  for (const double scale : kScales) prior.scale.push_back({scale, 1.0 / std::size(kScales)});
  for (const double scatter : kScatters) prior.scatter.push_back({scatter, 1.0 / std::size(kScatters)});
  set_missing({}, prior);
  return prior;
}

UncertaintyPrior learn_prior(const std::vector<SourceSteps>& sources) {
  UncertaintyPrior prior = prior_before_learning();
  std::vector<SourceModel> models;
  for (const SourceSteps& source : sources) {
    if (source.steps.empty()) continue;
    models.push_back(model_of(source.steps));
    prior.steps += static_cast<int>(source.steps.size());
  }
  prior.sources = static_cast<int>(models.size());
  for (int round = 0; round < kRounds && !models.empty(); ++round) {
    Sums sums;
    for (const SourceModel& model : models) add_source(prior, model, sums);
    const auto count = static_cast<double>(models.size());
    const auto spread = [&](double squares, double before) {
      return std::sqrt((squares + kSourcesBefore * before * before) / (count + kSourcesBefore));
    };
    for (std::size_t d = 0; d < kDirections; ++d) prior.spread[d] = spread(sums.squares[d], kSpreads[d]);
    prior.block_spread = spread(sums.block_squares, kBlockSpread);
    set_weights(prior.scale, sums.scales);
    set_weights(prior.scatter, sums.scatters);
    set_missing(sums.missing, prior);
  }
  return prior;
}

}  // namespace panpipe::validation

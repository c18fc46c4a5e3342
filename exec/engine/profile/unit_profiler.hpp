// Measures time and memory of a workload's movable units with the training code, one stage per unit. A unit of a tensor-parallel
// rank is cut at its communicating operators, as in a run. Communication is measured separately (link_profiler.hpp), so no rank
// waits for another here.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/plan/plan.hpp"
#include "exec/engine/measure/device_memory.hpp"
#include "exec/engine/parameters.hpp"
#include "exec/engine/profile/operator_profiler.hpp"
#include "exec/engine/profile/stopwatch.hpp"
#include "exec/engine/stage/segments.hpp"
#include "exec/engine/stage/vocabulary_loss.hpp"
#include "exec/engine/stage/weight_copies.hpp"
#include "exec/engine/stage_layout.hpp"

namespace panpipe::exec {

// Seconds of a unit per repetition, by pass.
enum class UnitPass : std::uint8_t { Forward, Backward, InputGradient, WeightGradient };
using UnitSamples = std::array<std::vector<double>, 4>;

struct UnitMemory {
  std::int64_t saved = 0;            // made inside and kept for the backward
  std::vector<int> keeps;            // outside tensors that are also kept, as indices by the unit's first use
  std::int64_t kept_for_weight = 0;  // kept between I and W, including outside tensors
  std::int64_t temporary = 0;
};

// A plan in which every unit is a stage.
Plan plan_of_units(const OperatorGraph& graph);

// Runs of neighbouring units whose parameters, gradients and one microbatch fit into `bytes`, with at least one unit each.
// Profiling holds one run at a time, so it can measure models larger than memory.
std::vector<std::pair<int, int>> windows(const OperatorGraph& graph, const StageLayout& layout, std::int64_t bytes);

class UnitProfiler {
 public:
  // Holds units [first, end) of the layout made from plan_of_units(). `shard`: this rank's tensor-parallel index. `autocast`: as
  // in a run of this graph and precision.
  UnitProfiler(const OperatorGraph& graph, const StageLayout& layout, int first, int end, std::uint64_t seed,
               at::Device device = at::kCPU, int shard = 0, std::optional<at::ScalarType> autocast = {});

  // Runs forward through all units of the window and back, once with B and once with I and W. Calls `together` before each part,
  // so that ranks which compute side by side start together.
  void repeat(const std::function<void()>& together, std::vector<UnitSamples>& samples);

  UnitMemory memory(int unit, DeviceMemory& account) const;
  // Without communicating operators.
  std::vector<MeasuredOperator> operators(int unit, int repetitions, const DeviceMemory& memory);

  const SeededParameters& parameters() const { return parameters_; }

 private:
  // A segment, or a loss over the vocabulary; other communicating operators do not compute.
  struct Part {
    std::unique_ptr<Stage> stage;
    std::vector<at::Tensor> inputs, output_gradients;
    const Operator* loss = nullptr;
    VocabularyPart own{};
    VocabularyLoss found{};
    UnitSamples samples{};  // of one repetition, until they are read
  };
  using Parts = std::vector<Part>;  // of a unit
  Part make_part(const StageRange& stage, const StagePart& range, bool alone);
  VocabularyPart make_loss(const Operator& op) const;
  void forward(Part& part);
  void backward(Part& part, bool split);
  void add_memory(const StageRange& stage, const Part& part, DeviceMemory& account, UnitMemory& sum) const;
  void add_loss_memory(const Operator& op, DeviceMemory& account, UnitMemory& sum) const;

  const OperatorGraph& graph_;
  const StageLayout& layout_;
  std::uint64_t seed_;
  at::Device device_;
  int shard_;
  std::unique_ptr<WeightCopies> copies_;  // nullptr without autocast
  CallContext context_;
  SeededParameters parameters_;
  Stopwatch watch_;
  int first_;
  std::vector<Parts> units_;
};

}  // namespace panpipe::exec

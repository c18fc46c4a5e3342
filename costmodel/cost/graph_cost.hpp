// The costs of an operator graph's units: each distinct structure is priced once and shared by all units with it. Internal to
// this folder.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "costmodel/cost/block_recompute.hpp"
#include "costmodel/cost/matrix_optimizer.hpp"
#include "costmodel/cost/site.hpp"
#include "costmodel/cost/unit_launches.hpp"
#include "costmodel/cost/unit_template.hpp"
#include "costmodel/cost/workload_cost.hpp"

namespace panpipe {

class GraphCost {
 public:
  GraphCost(const CostModel& model, const OperatorGraph& graph, const DeviceRates& rates, const Calibration& calibration,
            const Site& site);

  WorkloadCost run();

 private:
  struct Variant {
    std::size_t shape = 0;  // index of the template
    Launches launches;
    UnitCost cost;  // without name, identity of tensors, parameters
  };

  // graph_cost.cpp
  std::vector<UnitRecompute> listed_recompute(const RecomputeScope& scope) const;
  void find_templates();
  void add_unit(std::size_t u);
  void recompute_listed(const UnitTemplate& shape, const Launches& launches, const UnitRecompute& recompute, UnitCost& unit);
  const Framework& framework() const { return model_.scenario().framework; }

  // unit_passes.cpp
  UnitCost make_unit(const UnitTemplate& shape, const Launches& launches);
  // The operators of a forward that a pass runs, those whose collectives it has, and the pause behind each that launches.
  struct ForwardPart {
    std::vector<bool> runs;
    std::function<bool(std::size_t)> sends;
    std::function<Duration(const OperatorTime&)> gap;
    bool whole = false;
  };
  void add_forward(const UnitTemplate& shape, const UnitHost& host, const ForwardPart& part, PassCost& pass);
  void add_input_gradient(PassCost& pass, const OperatorTime& op, Duration gap);
  PassCost make_backward(const UnitTemplate& shape, const UnitCost& unit, const UnitHost& host, Duration input_gap);
  Duration gap(double kernels) const;
  static void add_operator(PassCost& pass, const Breakdown& cost, Duration gap, bool weight = false, bool product = false);

  // captured.cpp
  bool captured(const UnitTemplate& shape) const;
  void refuse_capture() const;
  void launch_at_once(PassCost& pass) const;

  // expert_wait.cpp
  bool reads_counts(const UnitTemplate& shape) const;
  void add_exchange_of_counts(const UnitTemplate& shape, PassCost& pass);
  void wait_for_rows(const UnitTemplate& shape, const UnitHost& host, const ForwardPart& part, PassCost& pass);

  // pass_collectives.cpp
  int collective_of(CollectiveKind kind, Bytes size, Among among);
  void add_collective(PassCost& pass, const OperatorTime& op, CollectiveKind kind, bool backward);
  Duration add_exchange(PassCost& pass, CollectiveKind kind, Bytes size, Among among, bool hidden = false);
  static void add_exposed(PassCost& pass, Duration time);
  void count_launches(PassCost& pass, const CollectiveCost& collective) const;
  void add_over_context(PassCost& pass, const OperatorTime& op, const Breakdown& cost, Duration gap, bool backward);
  void add_ring(PassCost& pass, const OperatorTime& op, const Breakdown& cost, Duration gap, bool backward);
  bool in_ring(const PassCost& pass, std::size_t piece) const;
  int tensor_degree() const { return static_cast<int>(site_.groups.tensor().size()); }
  int tensor_chunks() const;
  void cut_products(PassCost& pass);
  int part_of_collective(int whole, int parts);

  // unit_bytes.cpp
  void add_saved(std::size_t u, UnitCost& unit, const ProfiledUnit* measured);
  void add_parameters(std::size_t u, UnitCost& unit);
  double frozen_width(std::size_t u, int t) const;
  bool is_read_narrow(std::size_t u, int t) const;
  int product_with(std::size_t u, int t) const;
  ParameterUse parameter_use(std::size_t u, int t) const;

  // measured_units.cpp
  static void take_measured(Duration time, CostSource source, PassCost& pass);
  static void use_measured(const ProfiledUnit& measured, CostSource source, UnitCost& unit);

  const CostModel& model_;
  const OperatorGraph& graph_;
  const DeviceRates& rates_;
  const Calibration& calibration_;
  const Site& site_;
  const TensorUse use_;
  const std::vector<MatrixStack> matrices_;  // per tensor; empty: the optimizer steps none
  std::vector<UnitTemplate> templates_;
  std::vector<std::size_t> shape_of_;        // per unit
  std::vector<std::uint64_t> hash_of_;       // per unit
  std::vector<std::vector<int>> externals_;  // per unit
  std::vector<Launches> launches_;           // per unit
  std::vector<Variant> variants_;
  bool captured_ = false;  // the unit that is being priced runs in a CUDA graph
  std::vector<bool> kept_, input_kept_;
  std::vector<UnitRecompute> recompute_;  // per unit, where the scenario lists operators
  WorkloadCost result_;
};

}  // namespace panpipe

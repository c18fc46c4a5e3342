#include "planner/piper/problem_of.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/error.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/cost/zero_and_optimizer.hpp"
#include "costmodel/lowering/stage_table.hpp"
#include "costmodel/plan/memory_model.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "costmodel/plan/stage_links.hpp"
#include "costmodel/scenario/recompute_modes.hpp"

namespace panpipe::planner::piper {
namespace {

constexpr int kDegrees[] = {1, 2, 4, 8};  // tensor degrees that are tried where the scenario leaves it open

// Piper's model has one bandwidth for every pair: the narrowest between neighbours.
double flat_bandwidth(const Cluster& cluster) {
  if (cluster.given || cluster.size() < 2)
    return cluster.fabric_bandwidth.base() > 0 ? cluster.fabric_bandwidth.base() : INFINITY;
  double least = INFINITY;
  for (int device = 0; device + 1 < cluster.size(); ++device)
    least = std::min(least, cluster.route(device, device + 1).bandwidth.base());
  return least;
}

bool wanted(const Scenario& scenario, bool recompute) {
  return is_open(scenario, "recompute") || recompute == (scenario.recompute != Recompute::None);
}

// Devices, memory, bandwidth, microbatches and the data degrees that are allowed.
void set_limits(const Scenario& scenario, PlanningProblem& problem) {
  const Cluster& cluster = scenario.cluster;
  problem.devices = cluster.size();
  problem.bandwidth = flat_bandwidth(cluster);
  problem.memory = static_cast<double>(memory_limit(scenario, cluster.types[cluster.devices.front().type]).base());
  problem.microbatches = scenario.degrees.microbatches * scenario.degrees.data;
  if (!is_open(scenario, "parallel.pipeline")) problem.stages = scenario.degrees.pipeline;
  if (!is_open(scenario, "parallel.data")) problem.least_data = problem.most_data = scenario.degrees.data;
}

// --- A table of profiled layers.

std::vector<double> border(const std::vector<std::pair<std::string, double>>& given, const std::vector<std::string>& neighbours) {
  if (given.empty()) return {};
  const std::map<std::string, double> by_name(given.begin(), given.end());
  std::vector<double> bytes;
  for (const std::string& name : neighbours) {
    const auto found = by_name.find(name);
    bytes.push_back(found == by_name.end() ? 0 : found->second);
  }
  return bytes;
}

Choice choice_of(const LayerProfile& profile, const std::vector<std::string>& feeders, const std::vector<std::string>& fed,
                 double state) {
  return {profile.name,
          profile.recompute,
          profile.time.base(),
          profile.parameters,
          profile.in_flight,
          profile.fixed + state * profile.parameters,
          border(profile.receive, feeders),
          border(profile.send, fed)};
}

void add_profiled_layers(const Scenario& scenario, const LayerTable& table, double state, PlanningProblem& problem) {
  std::set<int> degrees;
  for (const auto& profiles : table.profiles.of_layer)
    for (const LayerProfile& profile : profiles)
      if (is_open(scenario, "parallel.tensor") || profile.tensor == scenario.degrees.tensor) degrees.insert(profile.tensor);
  problem.degrees.assign(degrees.begin(), degrees.end());
  for (std::size_t e = 0; e < table.edges.size(); ++e)
    problem.edges.push_back({table.edges[e].from, table.edges[e].to, table.profiles.edge_bytes[e]});
  problem.layers.resize(table.layers.size());
  const Incidence edges(problem);
  for (std::size_t i = 0; i < table.layers.size(); ++i) {
    std::vector<std::string> feeders, fed;
    for (const int e : edges.into[i]) feeders.push_back(table.layers[problem.edges[e].from].name);
    for (const int e : edges.out_of[i]) fed.push_back(table.layers[problem.edges[e].to].name);
    Layer& layer = problem.layers[i];
    layer.name = table.layers[i].name;
    layer.choices.resize(problem.degrees.size());
    for (std::size_t g = 0; g < problem.degrees.size(); ++g)
      for (const LayerProfile& profile : table.profiles.of_layer[i])
        if (profile.tensor == problem.degrees[g] && wanted(scenario, profile.recompute))
          layer.choices[g].push_back(choice_of(profile, feeders, fed, state));
  }
  if (table.profiles.most_data > 0 && problem.most_data == 0) problem.most_data = table.profiles.most_data;
}

// --- The cost model.

// Time and bytes of each unit as a stage of its own, on one tensor rank.
std::vector<std::vector<Choice>> choices_of(const CostModel& model, int type, const Degrees& degrees) {
  const Scenario& scenario = model.scenario();
  const bool selective = !is_open(scenario, "recompute") && scenario.recompute == Recompute::Selective;
  std::set<Recompute> modes;
  if (wanted(scenario, false)) modes.insert(Recompute::None);
  if (wanted(scenario, true)) modes.insert(selective ? Recompute::Selective : Recompute::Full);
  const MemoryModel memory(scenario);
  const ModelCosts costs(model, degrees);
  const StateBytes state = memory.state(costs, degrees);
  const StageTable table(scenario, costs, type, modes);
  std::vector<std::vector<Choice>> choices(static_cast<std::size_t>(table.units()));
  for (int u = 0; u < table.units(); ++u)
    for (const Recompute mode : modes) {
      const HeldParameters held = table.held(u, u + 1);
      choices[u].push_back({std::string(name_of(mode)),
                            mode != Recompute::None,
                            table.time(ActionKind::F, mode, u, u + 1) + table.time(ActionKind::B, mode, u, u + 1),
                            state.gradients(held),
                            static_cast<double>(memory.kept(model.workload(type).units[u], mode).base()),
                            state.all(held),
                            {},
                            {}});
    }
  return choices;
}

// The largest activations that one block makes again, and the largest temporary: there once, whatever else a stage holds.
struct OneTime {
  double temporary = 0, again = 0;
};

OneTime one_time(const WorkloadCost& cost) {
  OneTime largest;
  std::map<std::string, double> blocks;
  for (const UnitCost& unit : cost.units) {
    largest.temporary = std::max(largest.temporary, static_cast<double>(unit.temporary.base()));
    const double again = static_cast<double>((unit.saved - unit.saved_full).base());
    double& block = blocks[unit.block.empty() ? unit.name : unit.block];
    largest.again = std::max(largest.again, block += again);
  }
  return largest;
}

// The model cut for a tensor degree, on one pipeline rank.
Degrees with_tensor(const Scenario& scenario, int degree) {
  Degrees degrees = scenario.degrees;
  degrees.tensor = degree;
  degrees.pipeline = degrees.data = degrees.virtual_stages = 1;
  degrees.zero = degrees.shard = 0;
  return degrees;
}

class FromCostModel {
 public:
  FromCostModel(const Experiment& experiment, Posed& posed) : experiment_(experiment), posed_(posed) {}

  void add() {
    const Scenario& scenario = experiment_.scenario;
    const bool open = is_open(scenario, "parallel.tensor") && !experiment_.workload.layers;
    if (!open) {
      add_degree(experiment_.workload.layers ? 1 : scenario.degrees.tensor);
    } else {
      for (const int degree : kDegrees)
        if (degree <= scenario.cluster.size()) try_degree(degree);
    }
    posed_.problem.memory -= largest_.temporary + context_;
    posed_.problem.recompute_reserve = largest_.again;
    if (scenario.recompute_scope.first > 0 || scenario.recompute_scope.chunk > 1)
      posed_.notes.emplace_back(
          "which blocks of a stage recompute, and together, is not counted: the search takes every layer as recomputed by "
          "itself");
    if (scenario.degrees.zero > 0)
      posed_.notes.emplace_back("ZeRO is not counted: optimizer state is taken as whole on every replica");
  }

 private:
  // A degree that does not divide the model's heads is left out, with a note.
  void try_degree(int degree) {
    try {
      add_degree(degree);
    } catch (const InputError& error) {
      if (degree == 1) throw;
      posed_.notes.push_back(fmt::format("tensor degree {} is left out: {}", degree, error.diagnostics().front().message));
    }
  }

  void add_degree(int degree) {
    const Scenario& scenario = experiment_.scenario;
    const Degrees degrees = with_tensor(scenario, degree);
    const Workload workload = make_workload(scenario, degrees);
    const CostModel model(scenario, workload);
    const int type = scenario.cluster.devices.front().type;
    const WorkloadCost& cost = model.workload(type);
    PlanningProblem& problem = posed_.problem;
    if (problem.layers.empty()) add_edges(cost);
    if (problem.layers.size() != cost.units.size())
      throw InputError(
          fmt::format("the model has {} units at degree {}, not {}", cost.units.size(), degree, problem.layers.size()));
    const std::vector<std::vector<Choice>> choices = choices_of(model, type, degrees);
    for (std::size_t u = 0; u < cost.units.size(); ++u) problem.layers[u].choices.push_back(choices[u]);
    problem.degrees.push_back(degree);
    const OneTime once = one_time(cost);
    largest_.temporary = std::max(largest_.temporary, once.temporary);
    largest_.again = std::max(largest_.again, once.again);
    context_ = static_cast<double>(model.framework_context().base());
  }

  void add_edges(const WorkloadCost& cost) {
    PlanningProblem& problem = posed_.problem;
    for (const UnitCost& unit : cost.units) problem.layers.push_back({unit.name, {}});
    std::vector<int> apart(cost.units.size());  // every unit a stage: several tensors of two units are one edge
    std::iota(apart.begin(), apart.end(), 0);
    for (const StageLink& link : stage_links(cost.edges, apart))
      problem.edges.push_back({link.from, link.to, static_cast<double>(link.bytes)});
  }

  const Experiment& experiment_;
  Posed& posed_;
  OneTime largest_;
  double context_ = 0;
};

}  // namespace

Posed pose(const Experiment& experiment, Objective objective) {
  Posed posed;
  const Scenario& scenario = experiment.scenario;
  set_limits(scenario, posed.problem);
  posed.profiled = experiment.workload.layers && !experiment.workload.layers->profiles.empty();
  if (posed.profiled) {
    const double state = objective == Objective::Step ? moments(scenario.optimizer.name) : 0;
    add_profiled_layers(scenario, *experiment.workload.layers, state, posed.problem);
    posed.notes.push_back(
        objective == Objective::Step
            ? fmt::format("optimizer {}: {} bytes of state for a byte of parameters", scenario.optimizer.name, state)
            : "memory as the profiles give it: no optimizer state beyond what they hold");
  } else {
    FromCostModel(experiment, posed).add();
  }
  const PlanningProblem& problem = posed.problem;
  posed.notes.push_back(
      fmt::format("tensor degrees {}; data-parallel degrees that divide {} microbatches{}; {} B of each of {} devices",
                  fmt::join(problem.degrees, ", "), problem.microbatches,
                  problem.most_data > 0 ? fmt::format(", {} to {}", problem.least_data, problem.most_data) : "",
                  static_cast<std::int64_t>(problem.memory), problem.devices));
  return posed;
}

}  // namespace panpipe::planner::piper

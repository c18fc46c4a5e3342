// A schedule prepared for evaluation with any cuts. It is lowered and compiled once for the stages that communicate (again if
// cuts add others); then only its cost tables are refilled. Step times equal those of lower + estimate.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "base/index.hpp"
#include "costmodel/estimate/compile.hpp"
#include "costmodel/estimate/path_counts.hpp"
#include "costmodel/estimate/replay.hpp"
#include "costmodel/plan/pass_rules.hpp"
#include "planner/pfeife/search_space.hpp"

namespace panpipe::planner {

// One number for each cost that can occur on a path through a step. Positions count along the chain of stages.
struct PathLayout {
  std::size_t stages = 0, ranks = 0;
  std::size_t pass(std::size_t position, ActionKind kind) const { return position * 4 + static_cast<std::size_t>(kind); }
  std::size_t forward(std::size_t position) const { return stages * 4 + position; }  // the hop before the stage
  std::size_t backward(std::size_t position) const { return stages * 5 + position; }
  std::size_t optimizer(std::size_t rank) const { return stages * 6 + rank; }
  // Not on a path, but in the same sums over cuts: bytes that count towards a memory limit, and the limit itself (a constant).
  std::size_t memory(std::size_t position, std::size_t part) const { return stages * 6 + ranks + position * 3 + part; }
  std::size_t limit() const { return stages * 9 + ranks; }
  std::size_t size() const { return stages * 9 + ranks + 1; }
};
using PathWeights = std::vector<double>;  // how often each cost occurs on the path

class CutEvaluator {
 public:
  // Throws NoAnswer if the order cannot finish. The schedule must have one chain of stages.
  CutEvaluator(const SearchSpace& space, const Schedule& schedule, const Cuts& first);

  int stages() const { return static_cast<int>(chain_.size()); }
  PathLayout layout() const { return {chain_.size(), static_cast<std::size_t>(space_.ranks())}; }
  int rank_of(int position) const { return ranks_[position]; }
  const SearchSpace& space() const { return space_; }
  const Schedule& schedule() const { return plan_.schedule; }
  bool uses(ActionKind kind) const { return uses_[at(kind)]; }
  // True for the first stage where the framework does not split its backward, which receives no gradient.
  bool all_in_weight(int position) const { return backward_all_in_weight(space_.scenario().framework, position > 0); }

  // Step times in ticks, one for each entry of `many`. `modes`: empty, one for all cuts, or one for each.
  void replay(const std::vector<Cuts>& many, std::vector<double>& times, const std::vector<Modes>& modes = {});
  double replay(const Cuts& cuts);
  // The critical path of these cuts; `time` receives their step time in ticks.
  PathWeights critical_path(const Cuts& cuts, double& time);
  // The same with given costs in the layout of a path (costs outside it as for these cuts), and softened: all paths at most a few
  // `soft` ticks shorter count. Returns approximately the step time.
  double soft_path(const Cuts& cuts, const std::vector<double>& costs, double soft, PathWeights& weights);
  // For each rank, its peak as a share of its devices' limit; it fits if at most 1.
  std::vector<double> memory_shares(const Cuts& cuts, const Modes& modes = {});
  double memory_share(const Cuts& cuts, const Modes& modes = {});  // the largest
  Plan plan(const Cuts& cuts, const Modes& modes) const { return space_.plan(plan_.schedule, cuts, modes); }
  // Links between stages that occurred for some cuts.
  const std::vector<StageLink>& known_links() const { return known_links_; }

 private:
  struct Split {
    Cuts cuts;
    Modes modes;
  };
  struct PassEntry {
    std::size_t entry = 0;
    int position = 0;
    ActionKind kind{};
    int type = 0;
    std::array<const double*, 3> plain{};  // by mode: StageTicks::plain_ticks
  };
  struct RankEntry {
    std::size_t entry = 0;
    int rank = 0;
    std::vector<int> positions;  // of the rank's stages
  };
  struct FlowEntry {  // a stage's reduction: its wire time depends on the stage's parameters
    std::size_t entry = 0;
    int position = 0;
    double latency = 0, per_element = 0;
  };
  struct LinkEntry {
    std::size_t entry = 0;
    std::size_t link = 0;  // index into the links of the cuts
    int from_rank = 0, to_rank = 0;
    bool backward = false;
    const Sums* hops = nullptr;  // of a chain: by cut
  };
  // For a set of (from, to, gradient). If each stage reads from the one before it, an extra link without delay changes nothing,
  // so one variant grows; otherwise each set has its own.
  struct Variant {
    std::vector<StageLink> links;
    std::array<Split, kBatch> lanes;  // contents of the batch tables
    Split single;                     // contents of the single table
    CompiledGraph graph;
    std::vector<PassEntry> passes;
    std::vector<RankEntry> optimizers;
    std::vector<FlowEntry> flows;
    std::vector<LinkEntry> delays;
    std::unique_ptr<BatchProgram> program;
    std::vector<Eight> costs, delay_table, values;
    std::vector<double> single_costs, single_delays, ends, by_link, counts;
  };

  void gather(const Variant& variant, const double* cost_counts, const double* delay_counts, PathWeights& weights) const;
  Variant& variant_of(const Cuts& cuts);
  std::unique_ptr<Variant> make_variant(const Cuts& cuts);
  void map_tasks(const TaskGraph& graph, Variant& variant) const;
  bool holds_links(Variant& variant) const;
  std::vector<std::array<double, 2>> message_work(const Variant& variant, const Cuts& cuts) const;
  // `before` states the contents of the tables, of which every `stride`-th entry counts; entries for unchanged cuts are kept.
  void fill(const Variant& variant, const Cuts& cuts, const Modes& modes, Split& before, double* costs, double* delays,
            std::size_t stride) const;
  void fill_single(Variant& variant, const Cuts& cuts);
  double stage_ticks(const PassEntry& pass, const Cuts& cuts, Recompute mode) const;
  double transfer(int from_rank, int to_rank, std::int64_t bytes) const;  // SearchSpace::transfer, cached
  int begin_of(const Cuts& cuts, int position) const { return position == 0 ? 0 : cuts[static_cast<std::size_t>(position) - 1]; }
  int end_of(const Cuts& cuts, int position) const { return position + 1 < stages() ? cuts[position] : space_.units(); }

  const SearchSpace& space_;
  Plan plan_;
  std::vector<int> chain_, ranks_, position_of_stage_;
  std::array<bool, 5> uses_{};
  bool messages_take_time_ = false;  // at both ends
  std::vector<std::unique_ptr<Variant>> variants_;
  std::vector<StageLink> known_links_, links_;                   // links_: scratch
  mutable std::unordered_map<std::uint64_t, double> transfers_;  // ticks, by bytes and ranks
};

}  // namespace panpipe::planner

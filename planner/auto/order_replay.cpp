#include "planner/auto/order_replay.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/parallel_for.hpp"
#include "costmodel/estimate/pipeline_order.hpp"
#include "costmodel/estimate/replay.hpp"
#include "schedule/schedule.hpp"

namespace panpipe::planner {
namespace {

constexpr std::size_t kLargest = 4'000'000;  // passes of an order that is worth a replay

using OrderKey = std::tuple<int, int, int, int>;  // family, ranks, stages a rank, microbatches
OrderKey key_of(const Configuration& c) { return {c.family, c.pipeline, c.virtual_stages, c.microbatches}; }

bool can_replay(const Priced& one, const SearchFacts& facts) {
  const FamilyForm& form = forms()[one.configuration.family];
  const std::size_t passes = 3 * at(one.configuration.stages()) * at(one.configuration.microbatches);
  return form.placement != StagePlacement::Opaque && facts.count_collectives && passes <= kLargest;
}

// One order for all that share it.
class OrderReplay {
 public:
  OrderReplay(Common& common, const Configuration& example) : common_(common), form_(forms()[example.family]) {
    order_ = pack(make_schedule(form_.name, example.pipeline, example.microbatches, form_.options(example.virtual_stages)));
    StructureBuilder builder;
    ready_ = builder.build(order_, structure_);
    if (ready_) program_.emplace(structure_, BatchProgram::Values::KeepAll);
  }

  void run(std::vector<Priced*>& group, std::map<Degrees, Pricer>& pricers) {
    if (!ready_) return;  // the estimate reports what is wrong with the order
    for (std::size_t first = 0; first < group.size(); first += kBatch) {
      const std::size_t count = std::min<std::size_t>(kBatch, group.size() - first);
      costs_.assign(structure_.cost_entries, Eight{});
      delays_.assign(structure_.delay_entries, Eight{});
      values_.resize(program_->values());
      closing_.clear();
      for (std::size_t i = 0; i < count; ++i) fill(group[first + i]->configuration, i, pricers);
      program_->replay(costs_.data(), delays_.data(), values_.data());
      for (std::size_t i = 0; i < count; ++i) {
        double longest = 0;
        for (std::size_t r = 0; r < structure_.lane_last.size(); ++r)
          longest = std::max(longest, to_duration(Ticks(values_[structure_.lane_last[r]].value[i])).base() + closing_[i][r]);
        group[first + i]->bound = std::max(group[first + i]->bound, longest);
      }
    }
  }

 private:
  void fill(const Configuration& c, std::size_t slot, std::map<Degrees, Pricer>& pricers) {
    Pricer& pricer = pricers.try_emplace(c.of_graph(), common_, c.of_graph()).first->second;
    const PlacedStages placed = pricer.place_stages(c.recompute, c.pipeline, c.virtual_stages, form_.placement);
    pricer.prepare(traffic_, placed, c);
    const double jitter = common_.facts.jitter(c.pipeline, c.device_count());
    const bool blocking = common_.facts.blocking;
    const PerParameter& per = pricer.per_parameter(c.zero, c.data);
    for (int s = 0; s < c.stages(); ++s) {
      const StageCost& stage = placed.table.stages[s];
      const double down = traffic_.down(s), up = traffic_.up(s);
      // A rank that waits for its send is busy until it has arrived.
      const auto set = [&](Pass pass, double time, double send) {
        costs_[cost_entry(pass, s)].value[slot] =
            to_ticks(Duration(time * jitter)).base() + (blocking ? to_ticks(Duration(send)).base() : 0);
      };
      const double summed = per.summed * static_cast<double>(stage.held.elements());  // what the host takes may hide it
      set(Pass::F, stage.forward, down);
      set(Pass::B, std::max(stage.backward, stage.work - stage.forward_work + summed), up);
      set(Pass::I, stage.input_gradient, up);
      set(Pass::W, std::max(stage.weight_gradient, stage.weight_work + summed), 0);
      if (form_.woven) fill_members(s, stage, slot, jitter, blocking ? down : 0, blocking ? up : 0);
      if (blocking) continue;
      if (forward_delay_entry(s) < delays_.size()) delays_[forward_delay_entry(s)].value[slot] = to_ticks(Duration(down)).base();
      if (backward_delay_entry(s) < delays_.size()) delays_[backward_delay_entry(s)].value[slot] = to_ticks(Duration(up)).base();
    }
    fill_groups(placed, slot, jitter);
    std::vector<double>& closing = closing_.emplace_back();
    for (int r = 0; r < c.pipeline; ++r) closing.push_back(traffic_.closing(r, per.zero));
  }

  // Members of woven groups. A forward or an input gradient waits for its own collectives, which neither the host nor jitter
  // makes longer; those of a full backward may stand behind its weight gradients.
  void fill_members(int s, const StageCost& stage, std::size_t slot, double jitter, double down, double up) {
    if (order_.groups.empty()) return;
    const auto set = [&](Pass pass, double time, double send) {
      costs_[member_entry(order_.stages, order_.groups.size(), pass, s)].value[slot] = to_ticks(Duration(time + send)).base();
    };
    const double longer = jitter - 1;
    set(Pass::F, stage.forward_device + stage.forward_work * longer, down);
    set(Pass::I, stage.input_device + stage.input_work * longer, up);
    set(Pass::W, stage.weight_work * jitter, 0);
    set(Pass::B, (stage.work - stage.forward_work) * jitter, up);
  }

  void fill_groups(const PlacedStages& placed, std::size_t slot, double jitter) {
    for (std::size_t g = 0; g < order_.groups.size(); ++g) {
      double work = 0;
      for (const PackedAction action : order_.groups[g]) {
        const StageCost& stage = placed.table.stages[stage_of(action)];
        const Pass pass = pass_of(action);
        work += pass == Pass::F   ? stage.forward_work
                : pass == Pass::I ? stage.input_work
                : pass == Pass::W ? stage.weight_work
                                  : stage.work - stage.forward_work;
      }
      costs_[group_entry(order_.stages, static_cast<int>(g))].value[slot] = to_ticks(Duration(work * jitter)).base();
    }
  }

  Common& common_;
  const FamilyForm& form_;
  PipelineOrder order_;
  Structure structure_;
  bool ready_ = false;
  std::optional<BatchProgram> program_;
  std::vector<Eight> costs_, delays_, values_;
  std::vector<std::vector<double>> closing_;
  StageTraffic traffic_;
};

}  // namespace

std::int64_t replay_orders(std::vector<Priced>& priced, Common& common) {
  const int threads = common.options.threads;
  std::map<OrderKey, std::vector<Priced*>> by_order;
  std::int64_t count = 0;
  for (Priced& one : priced) {
    one.replayed = true;
    if (!can_replay(one, common.facts)) continue;
    by_order[key_of(one.configuration)].push_back(&one);
    ++count;
  }
  std::vector<std::vector<Priced*>*> groups;
  for (auto& [key, group] : by_order) groups.push_back(&group);
  std::vector<std::map<Degrees, Pricer>> pricers(workers_for(groups.size(), threads));
  parallel_for(groups.size(), threads, [&](std::size_t g, std::size_t worker) {
    try {
      OrderReplay(common, groups[g]->front()->configuration).run(*groups[g], pricers[worker]);
    } catch (const InputError&) {  // no such order: the estimate will report it
    }
  });
  return count;
}

}  // namespace panpipe::planner

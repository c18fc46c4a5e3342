#include "exec/engine/stage_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "costmodel/plan/gathered_parts.hpp"
#include "costmodel/plan/stage_links.hpp"
#include "costmodel/workload/operands.hpp"
#include "costmodel/workload/unit_edges.hpp"
#include "costmodel/workload/vocabulary_apart.hpp"
#include "schedule/rolling.hpp"
#include "schedule/walk.hpp"

namespace panpipe::exec {

std::uint32_t StageLayout::tag(int message, int tensor, int slice, bool backward) const {
  return static_cast<std::uint32_t>(((message * most_tensors + tensor) * microbatches * steps_under_way * splits + slice) * 2 +
                                    (backward ? 1 : 0));
}

namespace {

void find_operators(const OperatorGraph& graph, const Plan& plan, StageLayout& layout) {
  const auto begins = [&](int unit) {
    return static_cast<int>(std::lower_bound(graph.operators.begin(), graph.operators.end(), unit,
                                             [](const Operator& op, int wanted) { return op.unit < wanted; }) -
                            graph.operators.begin());
  };
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    StageRange& stage = layout.stages[s];
    stage.first_operator = begins(plan.stages[s].first_unit);
    stage.end_operator = begins(plan.stages[s].end_unit);
    if (stage.first_operator == stage.end_operator) throw InputError(fmt::format("stage {} holds no operator; move its cut", s));
  }
}

// The stages of one forward path, over which all operators are divided; or once more over those that run its backward.
struct Cover {
  std::vector<int> stages;
  std::vector<int> of_operator, of_unit;  // -1: no operator, or of a vocabulary that all ranks share

  Cover(const OperatorGraph& graph, const StageLayout& layout, std::vector<int> of)
      : stages(std::move(of)), of_operator(graph.operators.size(), -1), of_unit(graph.operators.back().unit + 1, -1) {
    for (const int s : stages)
      for (int op = layout.stages[s].first_operator; op < layout.stages[s].end_operator; ++op) {
        of_operator[op] = s;
        of_unit[graph.operators[op].unit] = s;  // ascending with the operators
      }
  }
};

void add_operands(const OperatorGraph& graph, const Cover& cover, StageLayout& layout) {
  for (std::size_t index = 0; index < graph.operators.size(); ++index) {
    if (cover.of_operator[index] < 0) continue;
    StageRange& stage = layout.stages[cover.of_operator[index]];
    for_each_operand(graph.operators[index], [&](int tensor) {
      const TensorRole role = graph.tensors[tensor].role;
      if (role != TensorRole::Activation) (role == TensorRole::Input ? stage.data : stage.parameters).push_back(tensor);
    });
  }
}

void add_messages(const std::vector<Crossing>& crossings, bool forth, bool back, StageLayout& layout) {
  const auto first_message = layout.messages.size();
  for (const Crossing& crossing : crossings) {
    layout.stages[crossing.from].outputs.push_back(crossing.tensor);
    if (layout.messages.size() == first_message || layout.messages.back().from != crossing.from ||
        layout.messages.back().to != crossing.to) {
      layout.stages[crossing.from].outgoing.push_back(static_cast<int>(layout.messages.size()));
      layout.stages[crossing.to].incoming.push_back(static_cast<int>(layout.messages.size()));
      layout.messages.push_back({crossing.from, crossing.to, {}, {}, forth, back});
    }
    Message& message = layout.messages.back();
    message.tensors.push_back(crossing.tensor);
    message.gradient.push_back(back && crossing.gradient);
    layout.most_tensors = std::max(layout.most_tensors, static_cast<int>(message.tensors.size()));
  }
}

void sort_once_each(std::vector<int>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

// What the forward hands to stages that run backwards alone: from where the forward makes it to where the backward reads it.
std::vector<Crossing> handed_back(const std::vector<UnitEdge>& edges, const Cover& forward, const Cover& backward,
                                  const StageLayout& layout) {
  std::vector<Crossing> found;
  for (const UnitEdge& edge : edges) {
    const int from = forward.of_unit[edge.from], to = backward.of_unit[edge.to];
    if (from < 0 || to < 0 || layout.stages[to].runs_forward || backward.of_unit[edge.from] == to) continue;
    found.push_back({from, to, edge.tensor, edge.bytes, false});
  }
  const auto key = [](const Crossing& c) { return std::tie(c.from, c.to, c.tensor); };
  std::sort(found.begin(), found.end(), [&](const Crossing& a, const Crossing& b) { return key(a) < key(b); });
  found.erase(std::unique(found.begin(), found.end(), [&](const Crossing& a, const Crossing& b) { return key(a) == key(b); }),
              found.end());
  return found;
}

// The inputs and messages of the stages of one forward path, which contain all operators but those of a vocabulary apart.
void lay_out_chain(const OperatorGraph& graph, const std::vector<UnitEdge>& edges, const std::vector<int>& chain, int number,
                   StageLayout& layout) {
  std::vector<int> forward, backward;
  for (const int s : chain) {
    layout.stages[s].chain = number;
    if (layout.stages[s].runs_forward) forward.push_back(s);
    if (layout.stages[s].runs_backward) backward.push_back(s);
  }
  const bool apart = forward != backward;
  const Cover cover(graph, layout, forward);
  add_operands(graph, cover, layout);
  add_messages(crossings(edges, cover.of_unit), true, !apart, layout);
  if (apart) {
    const Cover back(graph, layout, backward);
    add_operands(graph, back, layout);
    add_messages(handed_back(edges, cover, back, layout), true, false, layout);
    std::vector<Crossing> gradients = crossings(edges, back.of_unit);
    std::erase_if(gradients, [](const Crossing& crossing) { return !crossing.gradient; });
    add_messages(gradients, false, true, layout);
  }
  const int loss_stage = cover.of_operator[graph.tensors[graph.loss].producer];
  if (loss_stage >= 0)
    layout.stages[loss_stage].has_loss = true;
  else
    layout.stages[chain.back()].outputs.push_back(vocabulary_tensors(graph).hidden);
  if (number == 0) layout.loss_stage = loss_stage < 0 ? chain.back() : loss_stage;
  for (const int s : chain) {
    StageRange& stage = layout.stages[s];
    for (std::vector<int>* list : {&stage.data, &stage.parameters, &stage.outputs}) sort_once_each(*list);
    if (stage.has_loss && !std::binary_search(stage.outputs.begin(), stage.outputs.end(), graph.loss))
      stage.outputs.push_back(graph.loss);
  }
}

}  // namespace

StageLayout make_stage_layout(const OperatorGraph& graph, const Plan& plan, std::vector<int> cut) {
  if (graph.loss < 0) throw InputError("the graph has no loss: training needs a scalar output");
  StageLayout layout;
  PANPIPE_CHECK(plan.schedule.splits == 1 || cut.size() == graph.tensors.size(), "slices run on the graph of one slice");
  layout.microbatches = plan.schedule.microbatches;
  layout.steps_under_way = rolling_of(plan.schedule) == Rolling::None ? 1 : 2;
  layout.splits = plan.schedule.splits;
  layout.cut = std::move(cut);
  for (const Tensor& tensor : graph.tensors)
    layout.needs_gradient.push_back(tensor.requires_gradient &&
                                    (tensor.role == TensorRole::Parameter || tensor.role == TensorRole::Activation));
  layout.stages.resize(plan.stages.size());
  find_operators(graph, plan, layout);
  const std::vector<std::vector<int>>& chains = plan.schedule.chains;
  layout.chains = static_cast<int>(chains.size());
  if (const std::vector<Way> ways = ways_of_stages(plan.schedule); !ways.empty())
    for (std::size_t s = 0; s < ways.size(); ++s) {
      layout.stages[s].runs_forward = ways[s] != Way::Back;
      layout.stages[s].runs_backward = ways[s] != Way::Forth;
    }
  const std::vector<UnitEdge> edges = unit_edges(graph);
  for (std::size_t c = 0; c < chains.size(); ++c) lay_out_chain(graph, edges, chains[c], static_cast<int>(c), layout);
  return layout;
}

namespace {

// Calls visit(operator, block) for the operators of the stage's blocks that recompute, with the block's number in the model, from
// 1; visit(operator, 0) for the others.
template <class Visit>
void for_each_recomputed(const OperatorGraph& graph, const RecomputeScope& scope, const StageRange& range, Visit visit) {
  int blocks = 0, of_stage = 0, now = 0;  // `now`: the block's number
  const std::string* before = nullptr;
  for (int op = 0; op < range.end_operator; ++op) {
    const auto unit = static_cast<std::size_t>(graph.operators[op].unit);
    const bool enters = op == range.first_operator;
    const std::string& block = graph.units[unit].block;
    const bool begins = before == nullptr || *before != block;
    before = &block;
    if (begins && !block.empty()) ++blocks;
    now = block.empty() ? 0 : blocks;
    if (op < range.first_operator) continue;
    if (now > 0 && (begins || enters)) ++of_stage;
    const bool runs_again = now > 0 && now % scope.every == 0 && (scope.first == 0 || of_stage <= scope.first);
    visit(op, runs_again ? now : 0);
  }
}

void choose_blocks(const OperatorGraph& graph, const RecomputeScope& scope, StageRange& range) {
  range.by_blocks = true;
  int now = 0, in_chunk = 0;
  for_each_recomputed(graph, scope, range, [&](int op, int block) {
    const bool begins = block != now;
    now = block;
    if (block == 0) {
      in_chunk = 0;
      return;
    }
    if (begins && in_chunk == scope.chunk) in_chunk = 0;
    if (in_chunk == 0) range.again.emplace_back(op, op);
    if (begins || in_chunk == 0) ++in_chunk;
    range.again.back().second = op + 1;
  });
}

}  // namespace

void choose_recomputed(const OperatorGraph& graph, const Plan& plan, const RecomputeScope& stated, StageLayout& layout) {
  std::vector<RecomputedPart> makes;
  for (std::size_t s = 0; s < layout.stages.size(); ++s) {
    StageRange& range = layout.stages[s];
    const Recompute mode = plan.stages[s].recompute;
    RecomputeScope scope = stated;
    if (plan.stages[s].recompute_first > 0) scope.first = plan.stages[s].recompute_first;
    if (mode == Recompute::Full && !scope.plain()) choose_blocks(graph, scope, range);
    if (mode != Recompute::Selective) continue;
    if (makes.empty()) makes = recomputed_operators(graph, scope);
    for_each_recomputed(graph, scope, range, [&](int op, int block) {
      if (const RecomputedPart again = makes[op]; block > 0 && again != RecomputedPart::Nothing)
        range.listed.push_back({op, again});
    });
  }
}

void lay_out_gathers(const OperatorGraph& graph, const Plan& plan, StageLayout& layout) {
  const auto block_of = [&](int unit) -> const std::string& { return graph.units[unit].block; };
  const bool blocks = std::any_of(graph.units.begin(), graph.units.end(), [](const auto& unit) { return !unit.block.empty(); });
  std::set<int> written;  // stages for which the order states when they are recomputed
  for (const auto& row : plan.schedule.order)
    for (const Action& action : row)
      if (action.kind == ActionKind::R) written.insert(action.stage);
  int groups = 0;
  for (std::size_t s = 0; s < layout.stages.size(); ++s) {
    StageRange& range = layout.stages[s];
    int end = range.first_operator, most = 0;
    for (const GatheredPart& part : gathered_parts(plan.stages[s].first_unit, plan.stages[s].end_unit, blocks, block_of)) {
      const int first = end;
      while (end < range.end_operator && graph.operators[end].unit < part.end_unit) ++end;
      most = std::max(most, part.group + 1);
      if (first == end) continue;
      range.gathered.push_back({first, end, groups + part.group, !blocks || !block_of(part.first_unit).empty()});
    }
    groups += most;
    // Cut over tensor-parallel ranks, a block made again is several segments, each with its inputs: the stage as a whole keeps
    // less.
    const bool as_a_whole = plan.stages[s].recompute == Recompute::Full && !range.by_blocks;
    if (!as_a_whole || plan.tensor > 1 || written.count(static_cast<int>(s)) > 0) continue;
    range.by_blocks = true;
    for (const GatheredRange& part : range.gathered)
      if (part.block) range.again.emplace_back(part.first_operator, part.end_operator);
  }
}

}  // namespace panpipe::exec

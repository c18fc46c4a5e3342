#include "planner/pfeife/cut_evaluator.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/lowering/peak_memory.hpp"

namespace panpipe::planner {
namespace {

bool same_links(const std::vector<StageLink>& a, const std::vector<StageLink>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const StageLink& x, const StageLink& y) {
    return x.from == y.from && x.to == y.to && x.gradient == y.gradient;
  });
}

}  // namespace

CutEvaluator::CutEvaluator(const SearchSpace& space, const Schedule& schedule, const Cuts& first)
    : space_(space), plan_(space.plan(schedule, first)) {
  PANPIPE_CHECK(schedule.chains.size() == 1, "cuts are searched along one chain of stages");
  chain_ = schedule.chains.front();
  position_of_stage_.resize(chain_.size());
  for (std::size_t k = 0; k < chain_.size(); ++k) {
    position_of_stage_[chain_[k]] = static_cast<int>(k);
    ranks_.push_back(schedule.stage_to_rank[chain_[k]]);
  }
  for (const auto& row : schedule.order)
    for (const Action& action : row)
      if (action.is_compute()) uses_[at(action.kind)] = true;
  messages_take_time_ = space.costs().message_work(gib(1)) > Duration(0);
  variant_of(first);
}

void CutEvaluator::map_tasks(const TaskGraph& graph, Variant& variant) const {
  std::vector<bool> known(variant.graph.costs.size(), false);
  const std::size_t flow_base = 1 + graph.programs.size();
  const std::vector<std::int64_t>& elements = space_.stages().elements();
  for (const Task& task : graph.tasks) {
    const std::size_t entry = task.program >= 0 ? 1 + static_cast<std::size_t>(task.program)
                              : task.flow >= 0  ? flow_base + static_cast<std::size_t>(task.flow)
                                                : 0;
    if (entry == 0 || known[entry]) continue;
    known[entry] = true;
    if (task.kind == TaskKind::Pass) {
      PassEntry pass{entry, position_of_stage_[task.action.stage], task.action.kind, 0, {}};
      pass.type = space_.site_of_rank(rank_of(pass.position));
      for (const Recompute mode : space_.stages().modes())
        pass.plain[at(mode)] = space_.stages().plain_ticks(pass.kind, pass.type, all_in_weight(pass.position), mode);
      variant.passes.push_back(pass);
    } else if (task.kind == TaskKind::Optimizer) {
      if (!space_.has_optimizer()) continue;
      RankEntry optimizer{entry, task.rank, {}};
      for (int k = 0; k < stages(); ++k)
        if (rank_of(k) == task.rank) optimizer.positions.push_back(k);
      variant.optimizers.push_back(std::move(optimizer));
    } else if (task.kind == TaskKind::Collective && task.action.stage >= 0) {
      const CollectiveFlow& flow = graph.flows[task.flow];
      const StagePlan& stage = plan_.stages[task.action.stage];
      const auto held = elements[stage.end_unit] - elements[stage.first_unit];
      variant.flows.push_back({entry, position_of_stage_[task.action.stage], flow.latency.base(),
                               held > 0 ? flow.transfer.base() / static_cast<double>(held) : 0});
    }
  }
  std::vector<bool> mapped(graph.links.size(), false);
  for (const Transfer& transfer : graph.transfers) {
    if (mapped[transfer.link]) continue;
    mapped[transfer.link] = true;
    const TransferLink& link = graph.links[transfer.link];
    const int producer = position_of_stage_[transfer.stage];
    const int consumer = position_of_stage_[graph.tasks[transfer.consumer].action.stage];
    const int from = std::min(producer, consumer), to = std::max(producer, consumer);
    const auto found = std::find_if(variant.links.begin(), variant.links.end(),
                                    [&](const StageLink& known_link) { return known_link.from == from && known_link.to == to; });
    PANPIPE_CHECK(found != variant.links.end(), "a transfer between stages that share no tensor");
    LinkEntry entry{1 + static_cast<std::size_t>(transfer.link),
                    static_cast<std::size_t>(found - variant.links.begin()),
                    link.from_rank,
                    link.to_rank,
                    transfer.backward,
                    nullptr};
    if (space_.crossings().is_chain()) entry.hops = &space_.hops(link.from_rank, link.to_rank, transfer.backward);
    variant.delays.push_back(entry);
  }
}

std::unique_ptr<CutEvaluator::Variant> CutEvaluator::make_variant(const Cuts& cuts) {
  auto variant = std::make_unique<Variant>();
  variant->links = links_;
  space_.set_cuts(plan_, cuts, {});
  const bool as_it_is = space_.crossings().is_chain() || !space_.crossings().is_connected();
  const TaskGraph graph =
      as_it_is ? lower_replica(space_.scenario(), plan_, space_.costs(), 0, true) : space_.lowered_with(plan_, links_, cuts);
  variant->graph = compile(graph);
  map_tasks(graph, *variant);
  variant->program = std::make_unique<BatchProgram>(variant->graph.structure);
  const auto broadcast = [](const std::vector<double>& table) {
    std::vector<Eight> eight(table.size());
    for (std::size_t i = 0; i < table.size(); ++i) std::fill(std::begin(eight[i].value), std::end(eight[i].value), table[i]);
    return eight;
  };
  variant->costs = broadcast(variant->graph.costs);
  variant->delay_table = broadcast(variant->graph.delays);
  variant->values.resize(variant->program->values());
  variant->single_costs = variant->graph.costs;
  variant->single_delays = variant->graph.delays;
  variant->ends.resize(static_cast<std::size_t>(variant->graph.structure.tasks) + 1);
  return variant;
}

// Whether the variant has every link of the cuts; then it takes their bytes. Both are in order.
bool CutEvaluator::holds_links(Variant& variant) const {
  auto needed = links_.begin();
  for (StageLink& link : variant.links) {
    link.bytes = link.gradient_bytes = -1;  // not there
    if (needed == links_.end() || needed->from != link.from || needed->to != link.to) continue;
    if (needed->gradient && !link.gradient) return false;
    link.bytes = needed->bytes;
    link.gradient_bytes = needed->gradient ? needed->gradient_bytes : -1;
    ++needed;
  }
  return needed == links_.end();
}

CutEvaluator::Variant& CutEvaluator::variant_of(const Cuts& cuts) {
  const CutLinks& crossings = space_.crossings();
  if (crossings.is_chain() && !variants_.empty()) return *variants_.front();
  crossings.links(cuts, links_);
  if (!crossings.is_connected()) {
    for (const auto& variant : variants_) {
      if (!same_links(variant->links, links_)) continue;
      variant->links = links_;
      return *variant;
    }
  } else if (!crossings.is_chain()) {  // the newest has the links of all before it
    if (!variants_.empty() && holds_links(*variants_.back())) return *variants_.back();
    const std::vector<StageLink> needed = links_;
    known_links_ = united(needed, united(known_links_, space_.known_links(stages())));
    links_ = known_links_;
    variants_.push_back(make_variant(cuts));
    links_ = needed;
    holds_links(*variants_.back());
    return *variants_.back();
  }
  variants_.push_back(make_variant(cuts));
  return *variants_.back();
}

double CutEvaluator::transfer(int from_rank, int to_rank, std::int64_t bytes) const {
  const auto pairs = static_cast<std::uint64_t>(space_.ranks()) * static_cast<std::uint64_t>(space_.ranks());
  const auto pair = static_cast<std::uint64_t>(from_rank * space_.ranks() + to_rank);
  const auto [entry, is_new] = transfers_.try_emplace(static_cast<std::uint64_t>(bytes) * pairs + pair, 0);
  if (is_new) entry->second = space_.transfer(from_rank, to_rank, bytes);
  return entry->second;
}

double CutEvaluator::stage_ticks(const PassEntry& pass, const Cuts& cuts, Recompute mode) const {
  const int first = begin_of(cuts, pass.position), end = end_of(cuts, pass.position);
  if (const double* const plain = pass.plain[at(mode)]) return StageTicks::rounded(plain[end] - plain[first]);
  return space_.stages().ticks(pass.kind, pass.type, first, end, all_in_weight(pass.position), mode);
}

// Ticks that the ends of messages take from the passes of each position, forward and backward. Empty where no profile states any.
std::vector<std::array<double, 2>> CutEvaluator::message_work(const Variant& variant, const Cuts& cuts) const {
  if (!messages_take_time_) return {};
  std::vector<std::array<double, 2>> work(chain_.size(), {0, 0});
  for (const LinkEntry& delay : variant.delays) {
    StageLink link = variant.links[delay.link];
    if (delay.hops != nullptr) {
      const StageLink& hop = space_.crossings().next_unit(cuts[link.from]);
      link.bytes = hop.from == 0 ? -1 : hop.bytes;
      link.gradient_bytes = hop.from == 0 || !hop.gradient ? -1 : hop.gradient_bytes;
    }
    const std::int64_t bytes = delay.backward ? link.gradient_bytes : link.bytes;
    if (bytes < 0) continue;
    const double ticks = to_ticks(space_.costs().message_work(Bytes(bytes / plan_.schedule.splits))).base();
    for (const int position : {link.from, link.to}) work[position][delay.backward ? 1 : 0] += ticks;
  }
  return work;
}

void CutEvaluator::fill(const Variant& variant, const Cuts& cuts, const Modes& modes, Split& before, double* costs,
                        double* delays, std::size_t stride) const {
  const StageTicks& stages = space_.stages();
  const Recompute fastest = stages.modes().front();
  const auto sum_of = [&](const std::vector<std::int64_t>& before_unit, int position) {
    return before_unit[end_of(cuts, position)] - before_unit[begin_of(cuts, position)];
  };
  const auto element_sum = [&](int position) { return sum_of(stages.elements(), position); };
  const bool all = before.cuts.size() != cuts.size() || before.modes.size() != modes.size();
  const auto unchanged = [&](int position) {
    return !all && begin_of(cuts, position) == begin_of(before.cuts, position) &&
           end_of(cuts, position) == end_of(before.cuts, position);
  };
  const std::vector<std::array<double, 2>> work = message_work(variant, cuts);
  const auto talk = [&](const PassEntry& pass) {
    for (const bool backward : {false, true})
      if (!work.empty() && has_messages(pass.kind, backward)) return work[pass.position][backward ? 1 : 0];
    return 0.0;
  };
  for (const PassEntry& pass : variant.passes) {
    const auto k = static_cast<std::size_t>(pass.position);
    const Recompute mode = modes.empty() ? fastest : modes[k];
    if (work.empty() && unchanged(pass.position) && (modes.empty() || mode == before.modes[k])) continue;
    costs[pass.entry * stride] = stage_ticks(pass, cuts, mode) + talk(pass);
  }
  for (const RankEntry& optimizer : variant.optimizers) {
    if (std::all_of(optimizer.positions.begin(), optimizer.positions.end(), unchanged)) continue;
    std::int64_t elements = 0, tensors = 0;
    double given = 0;
    for (const int k : optimizer.positions) {
      elements += element_sum(k);
      tensors += sum_of(stages.tensors(), k);
      given += stages.given_optimizer()[end_of(cuts, k)] - stages.given_optimizer()[begin_of(cuts, k)];
    }
    costs[optimizer.entry * stride] =
        elements == 0 && given == 0 ? 0.0 : space_.optimizer(elements, tensors, given, space_.site_of_rank(optimizer.rank));
  }
  for (const FlowEntry& flow : variant.flows)
    costs[flow.entry * stride] =
        std::nearbyint(flow.latency + flow.per_element * static_cast<double>(element_sum(flow.position)));
  for (const LinkEntry& delay : variant.delays) {
    const StageLink& link = variant.links[delay.link];
    if (delay.hops != nullptr) {
      const auto cut = static_cast<std::size_t>(link.from);
      if (all || cuts[cut] != before.cuts[cut]) delays[delay.entry * stride] = (*delay.hops)[cuts[cut]];
      continue;
    }
    const std::int64_t bytes = delay.backward ? link.gradient_bytes : link.bytes;
    delays[delay.entry * stride] = bytes < 0 ? 0 : transfer(delay.from_rank, delay.to_rank, bytes);
  }
  before.cuts = cuts;
  before.modes = modes;
}

void CutEvaluator::replay(const std::vector<Cuts>& many, std::vector<double>& times, const std::vector<Modes>& modes) {
  static const Modes kFastest;
  times.resize(many.size());
  std::vector<std::pair<Variant*, std::vector<std::size_t>>> waiting;  // up to eight of one variant
  const auto flush = [&](std::pair<Variant*, std::vector<std::size_t>>& group) {
    if (group.second.empty()) return;
    Variant& variant = *group.first;
    const Eight result = variant.program->replay(variant.costs.data(), variant.delay_table.data(), variant.values.data());
    for (std::size_t lane = 0; lane < group.second.size(); ++lane) times[group.second[lane]] = result.value[lane];
    group.second.clear();
  };
  for (std::size_t i = 0; i < many.size(); ++i) {
    Variant& variant = variant_of(many[i]);
    auto group = std::find_if(waiting.begin(), waiting.end(), [&](const auto& known) { return known.first == &variant; });
    if (group == waiting.end()) group = waiting.insert(waiting.end(), {&variant, {}});
    const std::size_t lane = group->second.size();
    const Modes& of_this = modes.empty() ? kFastest : modes[modes.size() == 1 ? 0 : i];
    fill(variant, many[i], of_this, variant.lanes[lane], &variant.costs.front().value[lane],
         &variant.delay_table.front().value[lane], kBatch);
    group->second.push_back(i);
    if (group->second.size() == static_cast<std::size_t>(kBatch)) flush(*group);
  }
  for (auto& group : waiting) flush(group);
}

void CutEvaluator::fill_single(Variant& variant, const Cuts& cuts) {
  fill(variant, cuts, {}, variant.single, variant.single_costs.data(), variant.single_delays.data(), 1);
}

double CutEvaluator::replay(const Cuts& cuts) {
  Variant& variant = variant_of(cuts);
  fill_single(variant, cuts);
  return panpipe::replay(variant.graph.structure, variant.single_costs.data(), variant.single_delays.data(), variant.ends.data());
}

PathWeights CutEvaluator::critical_path(const Cuts& cuts, double& time) {
  time = replay(cuts);
  Variant& variant = variant_of(cuts);
  const Structure& structure = variant.graph.structure;
  const CriticalPath path = panpipe::critical_path(structure, variant.single_delays.data(), variant.ends.data());
  PathWeights weights;
  gather(variant, path.counts.data(), path.counts.data() + structure.cost_entries, weights);
  return weights;
}

void CutEvaluator::gather(const Variant& variant, const double* cost_counts, const double* delay_counts,
                          PathWeights& weights) const {
  const PathLayout at = layout();
  weights.assign(at.size(), 0);
  for (const PassEntry& pass : variant.passes)
    weights[at.pass(static_cast<std::size_t>(pass.position), pass.kind)] += cost_counts[pass.entry];
  for (const RankEntry& optimizer : variant.optimizers)
    weights[at.optimizer(static_cast<std::size_t>(optimizer.rank))] += cost_counts[optimizer.entry];
  for (const LinkEntry& delay : variant.delays) {
    const StageLink& link = variant.links[delay.link];
    if (link.to != link.from + 1) continue;  // the chain of stages between takes no less than nothing
    const auto to = static_cast<std::size_t>(link.to);
    weights[delay.backward ? at.backward(to) : at.forward(to)] += delay_counts[delay.entry];
  }
}

namespace {

// max(a, b) softened, T log(e^(a/T) + e^(b/T)), and how much of it is b's. `per_soft` = 1 / T. e^-x is about 1 / q with a
// polynomial at an eighth of x, to the eighth power: that it is not exact only changes how soft the maximum is.
double soft_max(double a, double b, double soft, double per_soft, double& of_b) {
  const double apart = (a - b) * per_soft;
  constexpr double kFar = 14;  // e^-14: a millionth
  if (apart > kFar || apart < -kFar) {
    of_b = apart > 0 ? 0 : 1;
    return std::max(a, b);
  }
  const double t = std::abs(apart) / 8;
  double q = 1 + t * (1 + t * (0.5 + t * (1.0 / 6 + t / 24)));
  q *= q;
  q *= q;
  q *= q;
  // The lesser has 1 / (q + 1); log(1 + 1/q) is about (6 q + 1) / (q (6 q + 4)). One division for both.
  const double below = q * (6 * q + 4), both = 1 / (below * (q + 1));
  const double lesser = below * both;
  of_b = apart > 0 ? lesser : 1 - lesser;
  return std::max(a, b) + soft * (6 * q + 1) * (q + 1) * both;
}

}  // namespace

double CutEvaluator::soft_path(const Cuts& cuts, const std::vector<double>& costs, double soft, PathWeights& weights) {
  Variant& variant = variant_of(cuts);
  fill_single(variant, cuts);
  variant.single.cuts.clear();  // the tables are about to change
  const Structure& structure = variant.graph.structure;
  const PathLayout at = layout();
  for (const PassEntry& pass : variant.passes)
    variant.single_costs[pass.entry] = costs[at.pass(static_cast<std::size_t>(pass.position), pass.kind)];
  for (const LinkEntry& delay : variant.delays) {
    const StageLink& link = variant.links[delay.link];
    const auto to = static_cast<std::size_t>(link.to);
    if (link.to == link.from + 1) variant.single_delays[delay.entry] = costs[delay.backward ? at.backward(to) : at.forward(to)];
  }
  const double per_soft = 1 / soft;
  variant.by_link.resize(variant.ends.size());
  double* const ends = variant.ends.data();
  double* const by_link = variant.by_link.data();
  ends[0] = 0;
  for (std::uint32_t t = 1; t <= structure.tasks; ++t) {
    double start = ends[structure.lane_pred[t]];
    by_link[t] = 0;
    if (structure.src[t] != 0)
      start = soft_max(start, ends[structure.src[t]] + variant.single_delays[structure.delay[t]], soft, per_soft, by_link[t]);
    ends[t] = start + variant.single_costs[structure.cost[t]];
  }
  // From the ends of the lanes back: how much of the softened paths comes by each task. `ends` is used again for that.
  double latest = 0, sum = 0;
  for (const std::uint32_t last : structure.lane_last) latest = std::max(latest, ends[last]);
  for (const std::uint32_t last : structure.lane_last) sum += std::exp((ends[last] - latest) / soft);
  std::vector<double>& counts = variant.counts;
  counts.assign(structure.cost_entries + structure.delay_entries, 0);
  std::vector<std::pair<std::uint32_t, double>> shares;
  for (const std::uint32_t last : structure.lane_last) shares.emplace_back(last, std::exp((ends[last] - latest) / soft) / sum);
  std::fill(variant.ends.begin(), variant.ends.end(), 0);
  for (const auto& [last, share] : shares) ends[last] += share;
  for (std::uint32_t t = structure.tasks; t > 0; --t) {
    const double flow = ends[t];
    if (flow == 0) continue;
    counts[structure.cost[t]] += flow;
    const double of_link = flow * by_link[t];
    ends[structure.lane_pred[t]] += flow - of_link;
    if (of_link == 0) continue;
    ends[structure.src[t]] += of_link;
    counts[structure.cost_entries + structure.delay[t]] += of_link;
  }
  gather(variant, counts.data(), counts.data() + structure.cost_entries, weights);
  return latest;
}

std::vector<double> CutEvaluator::memory_shares(const Cuts& cuts, const Modes& modes) {
  space_.set_cuts(plan_, cuts, modes);
  std::vector<double> shares;
  for (const PeakMemory& rank : peak_memory(space_.scenario(), plan_, space_.costs()))
    shares.push_back(rank.limit > Bytes(0) ? rank.peak / rank.limit : 0);
  return shares;
}

double CutEvaluator::memory_share(const Cuts& cuts, const Modes& modes) {
  const std::vector<double> shares = memory_shares(cuts, modes);
  return *std::max_element(shares.begin(), shares.end());
}

}  // namespace panpipe::planner

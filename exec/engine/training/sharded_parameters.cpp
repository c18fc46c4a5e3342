#include "exec/engine/training/sharded_parameters.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/unflatten_dense_tensors.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "exec/engine/tensor_parallel_shards.hpp"
#include "exec/engine/training/gradients.hpp"

namespace panpipe::exec {
namespace {

// Reductions under way: as one travels the next gradients come (FSDP waits for the one before too).
constexpr std::size_t kReductionsInFlight = 1;

// Gives the memory of a tensor back, or takes it anew: without values. All that shares it is without them, or has them, too.
void give_memory_back(const at::Tensor& whole) {
  c10::StorageImpl* storage = whole.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(at::DataPtr(nullptr, whole.device()));
  storage->set_nbytes(0);
}
void take_memory(const at::Tensor& whole) {
  c10::StorageImpl* storage = whole.storage().unsafeGetStorageImpl();
  const auto bytes = static_cast<std::size_t>(whole.numel()) * whole.element_size();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
  storage->set_nbytes(bytes);
}

}  // namespace

ShardedParameters::ShardedParameters(RankSite& site, const ShardLayout& shards, Ahead ahead, bool shared_autograd)
    : site_(site),
      shards_(shards),
      members_(shards.members),
      member_(static_cast<std::size_t>(member_of(site.plan, Among::ShardGroup, site.transport.rank()))),
      ahead_(static_cast<std::size_t>(std::max(0, std::min(std::max(1, ahead.in_flight) - 1, ahead.prefetch)))),
      waits_in_hooks_(!shared_autograd) {
  const ShardLayout::Position& own = shards.positions[site_.place.position];
  for (const FlatParameters& flat : own.flats) {
    flats_.emplace_back();
    flats_.back().layout = &flat;
  }
  for (const auto& [number, group] : own.groups) {
    groups_[number] = {group.stage, group.flats, group.reports, 0};
    for (const std::size_t flat : group.flats)
      for (const FlatParameters::Entry& entry : own.flats[flat].entries)
        pieces_.try_emplace(entry.root, Piece{.flat = flat, .entry = entry, .group = number});
  }
  make_own_groups();
}

void ShardedParameters::make_own_groups() {
  std::set<std::vector<int>> wanted;
  const std::map<int, std::vector<int>> positions_of = holders_of(site_.graph, site_.layout, site_.plan);
  const auto summed_late = [&](int root, const MeshPlace& of) {
    std::vector<int> ranks;
    for (const int position : positions_of.at(root))
      for (const int peer : gradient_peers(site_.graph.tensors[root], of.shard, site_.plan))
        ranks.push_back(world_rank(site_.plan, {position, of.replica, peer}));
    return ranks;
  };
  add_groups(site_.plan, Among::ShardGroup, wanted);
  add_groups(site_.plan, Among::Holders, wanted);
  for (int rank = 0; rank < site_.transport.size(); ++rank) {
    const MeshPlace of = place_of(site_.plan, rank);
    for (const auto& [root, positions] : positions_of)
      if (std::find(positions.begin(), positions.end(), of.position) != positions.end()) wanted.insert(summed_late(root, of));
  }
  const RankGroups made = make_groups(site_.transport, wanted);
  group_ = made.at(group_of(site_.plan, Among::ShardGroup, site_.transport.rank()));
  if (site_.plan.replicas() > members_) holders_ = made.at(group_of(site_.plan, Among::Holders, site_.transport.rank()));
  std::map<std::vector<int>, std::vector<int>> late;
  for (const Flat& flat : flats_)
    for (const FlatParameters::Entry& entry : flat.layout->entries)
      if (flat.layout->trained) late[summed_late(entry.root, site_.place)].push_back(entry.root);
  for (auto& [ranks, roots] : late) {
    std::sort(roots.begin(), roots.end());
    if (ranks.size() > 1) late_.push_back({made.at(ranks), std::move(roots)});
  }
}

bool ShardedParameters::place(int root, at::Tensor& value, at::Tensor& master) {
  const at::NoGradGuard no_graph;
  const auto found = pieces_.find(root);
  if (found == pieces_.end()) return false;  // frozen, under ZeRO 2
  Piece& piece = found->second;
  const FlatParameters::Entry& entry = piece.entry;
  Flat& flat = flats_[piece.flat];
  const std::int64_t part = flat.layout->part;
  if (!flat.whole.defined()) {
    flat.whole = at::zeros({part * members_}, value.options());
    flat.own = gathers() ? at::zeros({part}, value.options()) : part_of(flat.whole, member_, group_.ranks.size());
    flat.master = value.scalar_type() == master.scalar_type() ? flat.own : at::zeros({part}, master.options());
    if (flat.layout->trained) flat.sum = at::zeros({part}, master.options());
  }
  const std::int64_t begin = static_cast<std::int64_t>(member_) * part;
  piece.first = std::clamp<std::int64_t>(begin - entry.first, 0, entry.elements);
  piece.elements = std::clamp<std::int64_t>(begin + part - entry.first, 0, entry.elements) - piece.first;
  flat.whole.narrow(0, entry.first, entry.elements).copy_(value.reshape({-1}));
  // Not a view for autograd: what is gathered into the memory is no change of the parameter.
  at::Tensor alias = at::empty({0}, value.options());
  alias.set_(flat.whole.storage(), entry.first, value.sizes());
  const auto own_of = [&](const at::Tensor& of_part) {
    return of_part.narrow(0, piece.elements > 0 ? entry.first + piece.first - begin : 0, piece.elements);
  };
  own_of(flat.own).copy_(value.reshape({-1}).narrow(0, piece.first, piece.elements));
  own_of(flat.master).copy_(master.reshape({-1}).narrow(0, piece.first, piece.elements));
  if (flat.layout->trained) piece.gradient = own_of(flat.sum);
  value = std::move(alias);
  master = own_of(flat.master);
  if (++flat.placed == flat.layout->entries.size() && gathers()) give_memory_back(flat.whole);
  return true;
}

std::int64_t ShardedParameters::parameter_bytes() const {
  std::int64_t bytes = 0;
  for (const Flat& flat : flats_) {
    bytes += static_cast<std::int64_t>(flat.whole.storage().nbytes());
    if (gathers()) bytes += static_cast<std::int64_t>(flat.own.nbytes());
  }
  return bytes;
}

std::int64_t ShardedParameters::gradient_bytes() const {
  std::int64_t bytes = 0;
  for (const Flat& flat : flats_)
    if (flat.sum.defined()) bytes += static_cast<std::int64_t>(flat.sum.nbytes());
  return bytes;
}

void ShardedParameters::watch(const std::map<int, at::Tensor>& trained) {
  for (const auto& [root, value] : trained)
    if (value.requires_grad()) hooks_.add(value, [this, root = root, value = value] { accumulated(root, value); });
}

at::Tensor ShardedParameters::own_part(int root, const at::Tensor& whole) const {
  const Piece& piece = pieces_.at(root);
  return whole.reshape({-1}).narrow(0, piece.first, piece.elements);
}

void ShardedParameters::begin(Passes passes) {
  const at::NoGradGuard no_graph;
  passes_ = passes;
  known_ = !courses_[passes].empty();
  turn_ = asked_ = 0;
  if (passes == Passes::Evaluation) return;
  for (Flat& flat : flats_)
    if (flat.sum.defined()) flat.sum.zero_();
}

void ShardedParameters::ask(int number) {
  const at::NoGradGuard no_graph;
  for (const std::size_t index : groups_.at(number).flats) {
    Flat& flat = flats_[index];
    if (flat.users++ > 0) continue;  // whole, or on its way
    take_memory(flat.whole);
    part_of(flat.whole, member_, group_.ranks.size()).copy_(flat.own);
    flat.asked = site_.spans.now();
    flat.gathering = site_.transport.all_gather(flat.whole, group_);
  }
}

void ShardedParameters::open(int number) {
  std::vector<int>& course = courses_[passes_];
  const std::size_t turn = turn_++;
  if (!known_) course.push_back(number);
  PANPIPE_CHECK(turn < course.size() && course[turn] == number, "every step opens the same groups in the same order");
  while (asked_ < std::min(turn + 1 + ahead_, course.size())) ask(course[asked_++]);
  await(groups_.at(number));
}

void ShardedParameters::await(const Group& group) {
  RecordedExchange recorded;
  for (const std::size_t index : group.flats) {
    Flat& flat = flats_[index];
    if (!flat.gathering) continue;
    SpanLog::Moment from = site_.spans.now();
    flat.gathering->wait(site_.deadline,
                         fmt::format("the parameters of stage {}, gathered over {} ranks", group.stage, group_.ranks.size()));
    site_.waits.emplace_back(std::move(from), site_.spans.now());
    add_to(recorded, static_cast<std::int64_t>(flat.whole.nbytes()), flat.asked, *flat.gathering);
    flat.gathering.reset();
  }
  record(recorded, ActionKind::Unshard, group.stage, "all_gather");
}

void ShardedParameters::close(int number, bool backward) {
  Group& group = groups_.at(number);
  for (const std::size_t index : group.flats)
    if (--flats_[index].users == 0) give_memory_back(flats_[index].whole);
  if (backward) reduce(group, true);
}

// Autograd made the gradient of a parameter in one operator's backward.
void ShardedParameters::accumulated(int root, const at::Tensor& value) {
  const at::NoGradGuard no_graph;
  const Piece& piece = pieces_.at(root);
  Flat& flat = flats_[piece.flat];
  const at::Tensor made = std::exchange(value.mutable_grad(), at::Tensor());
  if (!flat.arrived.defined()) {
    // Where nothing follows on a reduction, ranks need not finish it at the same point.
    while (!holders_ && !reductions_.empty() && reductions_.front().pending->done()) finish_first();
    flat.arrived = at::zeros({flat.layout->part * members_}, flat.sum.options());
    for (const FlatParameters::Entry& each : flat.layout->entries) flat.missing.insert(each.root);
  }
  flat.arrived.narrow(0, piece.entry.first, piece.entry.elements).view(value.sizes()).add_(made);
  flat.missing.erase(root);
  if (!gathers()) reduce(groups_.at(piece.group), false);
}

// Posts what is complete, in the same order on all ranks; `all`: what is not, too. Autograd's hooks call it without `all`: where
// ranks share its thread, a wait there would keep the other ranks from the backward that it waits for.
void ShardedParameters::reduce(Group& group, bool all) {
  for (; group.started < group.flats.size(); ++group.started) {
    Flat& flat = flats_[group.flats[group.started]];
    if (!flat.layout->trained) continue;
    if (!all && !(flat.arrived.defined() && flat.missing.empty() && flat.layout->once)) return;
    if (all || waits_in_hooks_) finish_scatters(kReductionsInFlight - 1);
    post(flat, group.stage, group.records[group.started]);
  }
  if (!all) return;
  group.started = 0;
  if (!waits_in_hooks_) finish_scatters(kReductionsInFlight);
}

// Until at most this many whole gradients are under way.
void ShardedParameters::finish_scatters(std::size_t most) {
  const auto is_scatter = [](const Reduction& reduction) { return !reduction.among_holders; };
  while (std::cmp_greater(std::count_if(reductions_.begin(), reductions_.end(), is_scatter), most)) finish_first();
}

void ShardedParameters::post(Flat& flat, int stage, bool records) {
  const at::NoGradGuard no_graph;
  Reduction reduction;
  reduction.flat = &flat;
  reduction.stage = stage;
  reduction.records = records;
  reduction.whole = flat.arrived.defined() ? std::exchange(flat.arrived, at::Tensor())
                                           : at::zeros({flat.layout->part * members_}, flat.sum.options());
  reduction.part = part_of(reduction.whole, member_, group_.ranks.size());
  flat.missing.clear();
  reduction.posted = site_.spans.now();
  reduction.pending = site_.transport.reduce_scatter(reduction.whole, group_);
  reductions_.push_back(std::move(reduction));
}

// The one that was posted first; where other groups hold the same part, their sum follows behind those that are under way.
void ShardedParameters::finish_first() {
  const at::NoGradGuard no_graph;
  Reduction reduction = std::move(reductions_.front());
  reductions_.pop_front();
  const at::Tensor& moved = reduction.among_holders ? reduction.part : reduction.whole;
  const std::size_t ranks = (reduction.among_holders ? *holders_ : group_).ranks.size();
  reduction.pending->wait(site_.deadline, fmt::format("the sum of gradients of stage {} over {} ranks", reduction.stage, ranks));
  RecordedExchange& recorded = reduction.among_holders ? among_holders_ : scattered_;
  add_to(recorded, static_cast<std::int64_t>(moved.nbytes()), reduction.posted, *reduction.pending);
  if (reduction.records)
    record(recorded, ActionKind::ReduceGrad, reduction.stage, reduction.among_holders ? "all_reduce" : "reduce_scatter");
  if (holders_ && !reduction.among_holders) {
    reduction.part = reduction.part.clone();
    reduction.whole = at::Tensor();
    reduction.among_holders = true;
    reduction.posted = site_.spans.now();
    reduction.pending = site_.transport.all_reduce(reduction.part, *holders_);
    reductions_.push_back(std::move(reduction));
    return;
  }
  reduction.flat->sum.add_(reduction.part);
}

void ShardedParameters::after_action(const Action& action) {
  if (gathers() || (action.kind != ActionKind::B && action.kind != ActionKind::W)) return;
  reduce(groups_.at(action.stage), true);
}

void ShardedParameters::finish() {
  const at::NoGradGuard no_graph;
  while (!reductions_.empty()) finish_first();
  struct Sum {
    std::vector<at::Tensor> own;
    at::Tensor flat;
    PendingPtr pending;
    SpanLog::Moment posted;
  };
  std::vector<Sum> sums;
  for (const LateSum& late : late_) {
    Sum& sum = sums.emplace_back();
    for (const int root : late.roots) sum.own.push_back(gradient(root));
    sum.flat = at::cat(sum.own);
    sum.posted = site_.spans.now();
    sum.pending = site_.transport.all_reduce(sum.flat, late.group);
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i].pending->wait(site_.deadline, fmt::format("the sum of gradients over the {} holders", late_[i].group.ranks.size()));
    RecordedExchange recorded;
    add_to(recorded, static_cast<std::int64_t>(sums[i].flat.nbytes()), sums[i].posted, *sums[i].pending);
    record(recorded, ActionKind::ReduceGrad, -1, "all_reduce");
    at::_foreach_copy_(sums[i].own, at::unflatten_dense_tensors(sums[i].flat, sums[i].own));
  }
}

void ShardedParameters::updated() {
  const at::NoGradGuard no_graph;
  for (Flat& flat : flats_)
    if (!flat.master.is_same(flat.own)) flat.own.copy_(flat.master);
  if (gathers()) return;
  std::set<std::size_t> gathered;
  for (const auto& [number, group] : groups_)
    for (const std::size_t flat : group.flats) {
      if (!gathered.insert(flat).second) continue;
      flats_[flat].asked = site_.spans.now();
      flats_[flat].gathering = site_.transport.all_gather(flats_[flat].whole, group_);
    }
  for (const auto& [number, group] : groups_) await(group);
  site_.waits.clear();  // of no pass
}

void ShardedParameters::add_to(RecordedExchange& recorded, std::int64_t bytes, const SpanLog::Moment& start,
                               const Pending& pending) const {
  recorded.bytes += bytes;
  recorded.starts.push_back(start);
  recorded.ends.push_back(site_.spans.done(pending));
}

void ShardedParameters::record(RecordedExchange& recorded, ActionKind kind, int stage, const char* label) {
  if (recorded.starts.empty()) return;
  Span span = span_on(site_.transport.rank(), Lane::Data, {.kind = kind, .stage = stage}, recorded.bytes, label);
  site_.spans.note(std::move(span), recorded.starts.front(), std::move(recorded.ends));
  recorded = {};
}

}  // namespace panpipe::exec

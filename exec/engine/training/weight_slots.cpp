#include "exec/engine/training/weight_slots.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"
#include "exec/engine/measure/memory_account.hpp"
#include "exec/engine/stage/autocast_region.hpp"
#include "exec/engine/stage/copy_stream.hpp"

namespace panpipe::exec {
namespace {

constexpr std::int64_t kAlignment = 64;  // of a weight in a slot: what kernels expect

at::Tensor on_host(const at::Tensor& value, bool pinned) {
  const at::Tensor copy = at::empty(value.sizes(), value.options().device(at::kCPU).pinned_memory(pinned));
  copy.copy_(value.detach());
  return copy;
}

// A tensor whose memory is given later.
at::Tensor without_memory(const at::Tensor& like, at::Device device) {
  at::Tensor made = at::empty({0}, like.options().device(device));
  made.set_(c10::Storage(c10::Storage::use_byte_size_t(), like.nbytes(), at::DataPtr(nullptr, device), nullptr, false), 0,
            like.sizes(), like.strides());
  return made;
}

at::Tensor bytes_of(const at::Tensor& tensor) { return tensor.detach().reshape({-1}).view(at::kByte); }

}  // namespace

void check_hosted_state(const Scenario& scenario, const Plan& plan, const OperatorGraph& graph) {
  const HostedState& hosted = scenario.offload;
  if (weights_go_round(scenario, plan))
    throw fault_at(scenario, "schedule",
                   fmt::format("the executor does not send weights round the ranks, as {} does", plan.schedule.name),
                   "run with 'offload: {optimizer: cpu, parameters: cpu}', which brings them from the host in the same order");
  if (!hosted.any()) return;
  if (!hosted.parameters || !weights_on_host(scenario, plan) || hosted.gradients || hosted.streams_activations())
    throw fault_at(scenario, "offload",
                   "the executor keeps optimizer and parameters on the devices, or both on the host, for one replica",
                   "run without offload, or with {optimizer: cpu, parameters: cpu} and one replica");
  if (autocast_of(graph, scenario.precision))
    throw fault_at(scenario, "offload.parameters",
                   fmt::format("the exported model is of float32: precision {} keeps a copy of every weight on the device",
                               name_of(scenario.precision)),
                   "run with precision fp32, or export the model in two bytes");
}

WeightSlots::WeightSlots(RankSite& site)
    : site_(site), turns_(weight_turns(site.plan.schedule.order[panpipe::at(site.place.position)])) {
  if (!site.device.is_cpu()) {
    coming_.emplace(guard_of(site.device).getStreamFromGlobalPool(site.device));
    going_.emplace(guard_of(site.device).getStreamFromGlobalPool(site.device));
  }
  turn_of_.assign(site.plan.schedule.order[panpipe::at(site.place.position)].size(), -1);
  std::size_t used = 0;
  std::array<std::int64_t, 2> rooms{};  // of the slots: each as large as the largest stage that it takes
  for (std::size_t t = 0; t < turns_.size(); ++t) {
    const WeightTurn& turn = turns_[t];
    const auto last = home_.find(turn.stage);
    slot_of_.push_back(!turn.comes ? last->second : turn.room_after < 0 ? used++ : slot_of_[panpipe::at(turn.room_after)]);
    home_[turn.stage] = slot_of_.back();
    for (std::size_t i = turn.first; i <= turn.last; ++i) turn_of_[i] = static_cast<int>(t);
    const StageRange& range = site.layout.stages[panpipe::at(turn.stage)];
    StageWeights weights{.adds = range.runs_backward};
    std::set<int> roots;
    for (const int tensor : range.parameters)
      if (const int root = root_of(site.graph, tensor); site.graph.tensors[root].role == TensorRole::Parameter)
        roots.insert(root);
    for (const int root : roots) {
      const Tensor& parameter = site.graph.tensors[panpipe::at(root)];
      const std::int64_t bytes = parameter.elements() * size_of(parameter.dtype).base();
      weights.parts.push_back({root, weights.room, bytes});
      weights.bytes += bytes;
      weights.room += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
    std::int64_t& room = rooms[slot_of_.back()];
    room = std::max(room, weights.room);
    stages_[turn.stage] = std::move(weights);
  }
  for (std::size_t i = 0; i < slots_.size(); ++i)
    slots_[i].memory = at::empty({rooms[i]}, at::TensorOptions(at::kByte).device(site.device));
}

bool WeightSlots::place(int root, at::Tensor& value, at::Tensor& master) {
  const at::NoGradGuard no_graph;
  const UncountedMemory host;
  Weight& weight = weights_[root];
  const bool wider = master.scalar_type() != value.scalar_type();
  weight.host = on_host(value, !site_.device.is_cpu());
  weight.master = wider ? on_host(master, false) : weight.host.detach();
  weight.value = without_memory(weight.host, site_.device);
  value = weight.value;
  master = weight.master;
  return true;
}

at::Tensor WeightSlots::zeros_on_host(const at::Tensor& like) const {
  const UncountedMemory host;
  return at::zeros(like.sizes(), like.options().device(at::kCPU).pinned_memory(!site_.device.is_cpu()));
}

std::int64_t WeightSlots::parameter_bytes() const {
  std::int64_t bytes = 0;
  for (const Slot& slot : slots_) bytes += slot.memory.numel();
  return bytes;
}

std::int64_t WeightSlots::gradient_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [root, weight] : weights_)
    if (weight.sum.defined()) bytes += static_cast<std::int64_t>(weight.sum.nbytes());
  return bytes;
}

void WeightSlots::begin_step() {
  begun_ = false;
  for (Slot& slot : slots_) slot.stage = -1;
  for (auto& [root, weight] : weights_) weight.fresh = true;
}

void WeightSlots::before_action(std::size_t index, bool evaluates) {
  const int t = turn_of_[index];
  if (t < 0) return;
  if (evaluates) return bring(turns_[panpipe::at(t)].stage);
  if (!std::exchange(begun_, true))
    for (std::size_t first = 0; first < turns_.size(); ++first)
      if (turns_[first].comes && turns_[first].room_after < 0) fetch(turns_[first].stage, slots_[slot_of_[first]]);
  const WeightTurn& turn = turns_[panpipe::at(t)];
  if (index != turn.first) return;
  Slot& slot = slots_[slot_of_[panpipe::at(t)]];
  PANPIPE_CHECK(slot.stage == turn.stage, "at most two stages run in a group of passes");
  open(slot);
}

void WeightSlots::after_action(std::size_t index, bool evaluates) {
  const int t = turn_of_[index];
  if (evaluates || t < 0 || index != turns_[panpipe::at(t)].last || !turns_[panpipe::at(t)].leaves) return;
  Slot& slot = slots_[slot_of_[panpipe::at(t)]];
  take_gradients_away(slot.stage);
  leave(slot);
  for (std::size_t next = panpipe::at(t) + 1; next < turns_.size(); ++next)
    if (turns_[next].comes && turns_[next].room_after == t) return fetch(turns_[next].stage, slot);
}

// For a forward of an evaluation, between steps.
void WeightSlots::bring(int stage) {
  Slot& slot = slots_[home_.at(stage)];
  if (slot.stage == stage) return;
  if (slot.stage >= 0) leave(slot);
  fetch(stage, slot);
  open(slot);
}

// In pieces, as predicted.
void WeightSlots::fetch(int stage, Slot& slot) {
  const at::NoGradGuard no_graph;
  const StageWeights& weights = stages_.at(stage);
  slot.stage = stage;
  if (weights.bytes == 0) return;
  std::optional<OnCopyStream> on_copies;
  if (coming_) on_copies.emplace(site_.device, *coming_);
  SpanLog::Moment start = moment_on(coming_);
  for (std::size_t piece = 0; piece < kWeightPieces; ++piece) {
    const std::int64_t first = bytes_of_pieces(weights.bytes, piece), end = bytes_of_pieces(weights.bytes, piece + 1);
    copy_piece(weights, first, end, slot);
    SpanLog::Moment done = moment_on(coming_);
    const Action brought{.kind = ActionKind::Unshard, .stage = stage};
    site_.spans.note(span_on(site_.transport.rank(), Lane::Copy, brought, end - first), std::move(start), {done});
    start = std::move(done);
  }
  if (coming_) slot.arrived.emplace(timed(*coming_));
}

// Bytes [first, end) of the stage's weights, one behind another.
void WeightSlots::copy_piece(const StageWeights& weights, std::int64_t first, std::int64_t end, const Slot& slot) {
  std::int64_t begins = 0;
  for (const Part& part : weights.parts) {
    const std::int64_t from = std::max(first - begins, std::int64_t{0}), to = std::min(end - begins, part.bytes);
    if (from < to)
      slot.memory.narrow(0, part.offset + from, to - from)
          .copy_(bytes_of(weights_.at(part.root).host).narrow(0, from, to - from), /*non_blocking=*/true);
    begins += part.bytes;
  }
}

void WeightSlots::point(const Part& part, const Slot& slot) {
  auto* const memory = static_cast<char*>(slot.memory.data_ptr()) + part.offset;
  weights_.at(part.root).value.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr(memory, site_.device));
}

void WeightSlots::open(Slot& slot) {
  if (slot.arrived) slot.arrived->block(guard_of(site_.device).getStream(site_.device));
  for (const Part& part : stages_.at(slot.stage).parts) point(part, slot);
}

// Weights of the other slot's stage too point to that one's copy.
void WeightSlots::leave(Slot& slot) {
  slot.stage = -1;
  if (poisons_) slot.memory.fill_(0xff);
  for (const Slot& other : slots_)
    if (other.stage >= 0)
      for (const Part& part : stages_.at(other.stage).parts) point(part, other);
}

void WeightSlots::add_gradient(int root, at::Tensor arrived) {
  Weight& weight = weights_.at(root);
  if (!weight.sum.defined())
    weight.sum = arrived.to(weight.gradient.scalar_type());
  else
    weight.sum.add_(arrived);
}

// A stage that runs forwards alone leaves what others added to weights that it reads too.
void WeightSlots::take_gradients_away(int stage) {
  if (!stages_.at(stage).adds) return;
  const at::NoGradGuard no_graph;
  std::optional<OnCopyStream> on_copies;
  SpanLog::Moment start;
  std::int64_t bytes = 0;
  for (const Part& part : stages_.at(stage).parts) {
    Weight& weight = weights_.at(part.root);
    if (!weight.sum.defined()) continue;
    if (bytes == 0) {
      if (going_) on_copies.emplace(site_.device, *going_);
      start = moment_on(going_);
    }
    bytes += static_cast<std::int64_t>(weight.sum.nbytes());
    take_away(weight, part.root);
  }
  if (bytes == 0) return;
  const Action taken{.kind = ActionKind::Offload, .stage = stage};
  site_.spans.note(span_on(site_.transport.rank(), Lane::Data, taken, bytes), std::move(start), {moment_on(going_)});
  on_copies.reset();
  add_arrived(false);
}

void WeightSlots::take_away(Weight& weight, int root) {
  const at::Tensor sum = std::exchange(weight.sum, at::Tensor());
  if (std::exchange(weight.fresh, false)) {
    weight.gradient.copy_(sum, /*non_blocking=*/true);
  } else if (!going_) {
    weight.gradient.add_(sum);
  } else {
    Arriving& arriving = arriving_.emplace_back();
    arriving.root = root;
    arriving.value = at::empty(sum.sizes(), sum.options().device(at::kCPU).pinned_memory(true));
    arriving.value.copy_(sum, /*non_blocking=*/true);
    arriving.there = std::make_shared<c10::Event>(timed(*going_));
  }
  if (going_) guard_of(site_.device).recordDataPtrOnStream(sum.storage().data_ptr(), *going_);
}

// In order, so that sums do not depend on times. An earlier copy of the same gradient is there when a later one is.
void WeightSlots::add_arrived(bool all) {
  std::size_t added = 0;
  for (; added < arriving_.size() && (all || arriving_[added].there->query()); ++added)
    weights_.at(arriving_[added].root).gradient.add_(arriving_[added].value);
  arriving_.erase(arriving_.begin(), arriving_.begin() + static_cast<std::ptrdiff_t>(added));
}

void WeightSlots::finish() {
  const at::NoGradGuard no_graph;
  if (going_) {
    const c10::Stream computing = guard_of(site_.device).getStream(site_.device);
    timed(*going_).block(computing);
    timed(*coming_).block(computing);
    site_.transport.settle(site_.device, site_.deadline, "gradients on their way to the host's memory");
  }
  add_arrived(true);
}

void WeightSlots::updated() {
  const at::NoGradGuard no_graph;
  for (auto& [root, weight] : weights_)
    if (weight.host.scalar_type() != weight.master.scalar_type()) weight.host.copy_(weight.master);
}

}  // namespace panpipe::exec

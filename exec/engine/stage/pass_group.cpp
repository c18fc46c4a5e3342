#include "exec/engine/stage/pass_group.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "costmodel/lowering/collective_label.hpp"
#include "exec/engine/rank_groups.hpp"

namespace panpipe::exec {
namespace {

// Messages between stages have smaller tags, gradient dumps larger ones (0x80000000). Each kind of group counts its own: two
// kinds may have two ranks in common. Numbers come again after 2^26 messages, which is more than a step has.
constexpr std::uint32_t kPassTag = 0x40000000U, kTagsOfGroup = 1U << 26;

// Nobody else sees this memory: not another tensor, not autograd.
bool is_exclusive(const at::Tensor& value) {
  return value.use_count() == 1 && value.storage().use_count() == 1 && value.is_contiguous();
}

TensorSpec spec_of(const at::Tensor& value) { return {value.sizes().vec(), value.scalar_type(), value.device()}; }

}  // namespace

PassGroup::PassGroup(RankSite& site, Among among, Group group, int member)
    : site_(site), among_(among), group_(std::move(group)), member_(member) {}

std::uint32_t PassGroup::next_tag() {
  return kPassTag + static_cast<std::uint32_t>(index_of(among_)) * kTagsOfGroup + messages_++ % kTagsOfGroup;
}

PassGroup::PostedPtr PassGroup::begin(CollectiveKind kind) {
  auto posted = std::make_shared<Posted>();
  posted->kind = kind;
  posted->action = site_.action;
  posted->at = site_.spans.now();
  return posted;
}

PassGroup::PostedPtr PassGroup::post(CollectiveKind kind, at::Tensor value, std::int64_t dimension) {
  const at::NoGradGuard no_graph;
  if (kind == CollectiveKind::AllToAll) {
    PANPIPE_CHECK(value.size(0) == degree(), "one row for each member");
    const std::vector<std::int64_t> ones(degree(), 1);
    return exchange(kind, value, ones, ones);
  }
  PostedPtr posted = begin(kind);
  posted->dimension = dimension;
  const bool gathers = kind == CollectiveKind::AllGather, scatters = kind == CollectiveKind::ReduceScatter;
  if (gathers) {
    std::vector<std::int64_t> shape = value.sizes().vec();
    shape.insert(shape.begin(), degree());
    posted->value = at::empty(shape, value.options());
    posted->value.select(0, member_).copy_(value);
  } else if (scatters) {
    posted->value = at::stack(value.chunk(degree(), dimension));
  } else {
    posted->value = is_exclusive(value) ? std::move(value) : value.clone(at::MemoryFormat::Contiguous);
  }
  posted->bytes = static_cast<std::int64_t>(posted->value.nbytes());
  posted->at = site_.spans.now();
  Transport& transport = site_.transport;
  posted->pending = {gathers    ? transport.all_gather(posted->value, group_)
                     : scatters ? transport.reduce_scatter(posted->value, group_)
                                : transport.all_reduce(posted->value, group_)};
  return posted;
}

PassGroup::PostedPtr PassGroup::exchange(CollectiveKind kind, const at::Tensor& rows, const std::vector<std::int64_t>& sent,
                                         const std::vector<std::int64_t>& received) {
  const at::NoGradGuard no_graph;
  PostedPtr posted = begin(kind);
  if (swapped_) posted->at = *std::exchange(swapped_, std::nullopt);
  const std::int64_t arriving = std::accumulate(received.begin(), received.end(), std::int64_t{0});
  const std::int64_t bytes_of_row = rows.element_size() * (rows.size(0) > 0 ? rows.numel() / rows.size(0) : 0);
  posted->bytes = std::max(static_cast<std::int64_t>(rows.nbytes()), arriving * bytes_of_row);
  posted->exchanged = site_.transport.all_to_all(rows.contiguous(), sent, received, group_);
  posted->pending = {posted->exchanged};
  return posted;
}

at::Tensor PassGroup::swap_numbers(const at::Tensor& numbers) {
  swapped_ = site_.spans.now();
  const std::string what =
      fmt::format("{}, waiting for the row counts of the {}-parallel ranks", to_text(site_.action), name_of(among_));
  site_.transport.settle(numbers.device(), site_.deadline, what);  // the host is about to read them
  const std::vector<std::int64_t> ones(degree(), 1);
  const PendingPtr pending = site_.transport.all_to_all(numbers.to(at::kCPU).contiguous(), ones, ones, group_);
  pending->wait(site_.deadline, what);
  site_.waits.emplace_back(*swapped_, site_.spans.now());
  return pending->value;
}

PassGroup::PostedPtr PassGroup::pass_on(const std::vector<at::Tensor>& values, int by) {
  const at::NoGradGuard no_graph;
  PostedPtr posted = begin(CollectiveKind::SendReceive);
  const auto rank_at = [&](int distance) { return group_.ranks[(member_ + distance + degree()) % degree()]; };
  for (const at::Tensor& value : values) {
    const at::Tensor sent = value.contiguous();
    const std::uint32_t tag = next_tag();
    posted->bytes += static_cast<std::int64_t>(sent.nbytes());
    posted->arriving.push_back(site_.transport.receive(spec_of(sent), rank_at(-by), tag));
    posted->pending.push_back(site_.transport.send(sent, rank_at(by), tag));
  }
  posted->pending.insert(posted->pending.end(), posted->arriving.begin(), posted->arriving.end());
  return posted;
}

void PassGroup::await(Posted& posted) {
  const std::string what = fmt::format("{}, waiting for the {} of the {}-parallel ranks", to_text(posted.action),
                                       collective_label(posted.kind), name_of(among_));
  SpanLog::Moment asked = site_.spans.now();
  std::vector<SpanLog::Moment> ends;
  for (const PendingPtr& one : posted.pending) one->wait(site_.deadline, what);
  site_.waits.emplace_back(std::move(asked), site_.spans.now());
  ends.push_back(posted.at);
  for (const PendingPtr& one : posted.pending) ends.push_back(site_.spans.done(*one));
  Span span = span_on(site_.transport.rank(), Lane::Tensor, posted.action, posted.bytes);
  span.label = collective_label(posted.kind, among_);
  site_.spans.note(std::move(span), posted.at, std::move(ends));
  posted.pending.clear();
}

at::Tensor PassGroup::take(Posted& posted) {
  await(posted);
  if (const PendingPtr exchanged = std::exchange(posted.exchanged, nullptr)) {
    at::Tensor rows = std::move(exchanged->value);
    if (posted.kind != CollectiveKind::ReduceScatter) return rows;
    const at::NoGradGuard no_graph;
    std::vector<std::int64_t> shape = rows.sizes().vec();
    shape[0] /= degree();
    shape.insert(shape.begin(), degree());
    return rows.view(shape).sum(0);
  }
  const at::NoGradGuard no_graph;
  at::Tensor value = std::move(posted.value);
  if (posted.kind == CollectiveKind::ReduceScatter) return value.select(0, member_).clone();
  if (posted.kind != CollectiveKind::AllGather) return value;
  return posted.dimension == 0 ? value.flatten(0, 1) : at::cat(value.unbind(0), posted.dimension);
}

std::vector<at::Tensor> PassGroup::take_all(Posted& posted) {
  await(posted);
  std::vector<at::Tensor> values;
  for (const PendingPtr& one : std::exchange(posted.arriving, {})) values.push_back(std::move(one->value));
  return values;
}

at::Tensor PassGroup::own_part(const at::Tensor& value, std::int64_t dimension) const {
  const at::NoGradGuard no_graph;
  const std::int64_t part = value.size(dimension) / degree();
  return value.narrow(dimension, part * member_, part).clone(at::MemoryFormat::Contiguous);
}

PassGroups::PassGroups(RankSite& site) {
  for (const Among among : kAmongInPasses) {
    if (site.plan.group(among).members == 1) continue;
    groups_[index_of(among)] = std::make_unique<PassGroup>(site, among, make_own_group(site.transport, site.plan, among),
                                                           member_of(site.plan, among, site.transport.rank()));
    any_ = true;
  }
}

}  // namespace panpipe::exec

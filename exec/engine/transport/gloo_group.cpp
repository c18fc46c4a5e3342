#include "exec/engine/transport/gloo_group.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>

#include <functional>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/error.hpp"
#include "exec/engine/device.hpp"
#include "exec/engine/transport/gloo_links.hpp"

namespace panpipe::exec {
namespace {

// A collective on a CPU tensor of a type that Gloo sums, whose result goes to where it is wanted.
struct Joined : Pending {
  std::shared_ptr<Mailbox> mailbox;
  std::shared_ptr<Mailbox::Flag> flag = std::make_shared<Mailbox::Flag>();
  std::shared_ptr<std::string> fault = std::make_shared<std::string>();
  at::Tensor wanted, used;
  std::function<void()> last;  // after it, before what was used goes to where it is wanted
  bool finished = false;
  bool done() override { return mailbox->get(*flag); }
  void wait(Clock::duration deadline, const std::string& what) override {
    completed = mailbox->wait(*flag, deadline, what);
    if (!fault->empty()) {
      // A member is gone: the watch reports which. Only without such a report is this the reason.
      const Mailbox::Flag never;
      mailbox->broken(-1, *fault);
      mailbox->wait(never, deadline, what);
    }
    if (finished) return;
    finished = true;
    if (last) std::exchange(last, nullptr)();
    if (!used.is_same(wanted)) {
      const at::NoGradGuard no_graph;
      wanted.copy_(used);
    }
  }
};

at::Tensor as_bytes(const at::Tensor& value) { return bytes_of(value, 0, static_cast<std::int64_t>(value.nbytes())); }

at::ScalarType summed_as(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kInt:
    case at::kLong:
      return dtype;
    case at::kBFloat16:
      return at::kFloat;  // rounded once, at the end
    case at::kShort:
    case at::kByte:
    case at::kChar:
      return at::kInt;
    default:
      throw InternalError(fmt::format("tensors of type {} are not summed over ranks", c10::toString(dtype)));
  }
}

// A collective on a tensor: on its own memory where that will do, else on a copy.
std::shared_ptr<Joined> joined_on(const at::Tensor& value, bool in_place, std::shared_ptr<Mailbox> mailbox) {
  auto joined = std::make_shared<Joined>();
  joined->mailbox = std::move(mailbox);
  joined->wanted = value.detach();
  joined->used = in_place && value.device().is_cpu() ? joined->wanted : on_host(value);
  return joined;
}

// Options of a collective that Gloo never gives up.
template <class Options>
Options patient() {
  Options options;
  options.timeout = kNever;
  return options;
}

PendingPtr when_done(const c10::intrusive_ptr<c10d::Work>& work, const std::shared_ptr<Joined>& joined) {
  // The work must live until its own callback, which holds only what the waiting side holds too.
  work->getFuture()->addCallback(
      [mailbox = joined->mailbox, flag = joined->flag, fault = joined->fault](c10::ivalue::Future& future) {
        if (future.hasError()) {
          const std::string text = future.tryRetrieveErrorMessage();
          *fault = text.empty() ? "the collective failed" : text.substr(0, text.find('\n'));
        }
        mailbox->set(*flag);
      });
  return joined;
}

}  // namespace

GlooGroup::GlooGroup(c10::intrusive_ptr<c10d::ProcessGroupGloo> connected, Group group, std::size_t own,
                     std::shared_ptr<Mailbox> mailbox)
    : connected_(std::move(connected)), group_(std::move(group)), own_(own), mailbox_(std::move(mailbox)) {}
GlooGroup::GlooGroup(GlooGroup&&) = default;
GlooGroup::~GlooGroup() = default;

PendingPtr GlooGroup::all_reduce(const at::Tensor& value) const {
  if (value.numel() == 0) return std::make_shared<Nothing>();
  const at::ScalarType type = summed_as(value.scalar_type());
  const auto pending = joined_on(value, value.is_contiguous() && type == value.scalar_type(), mailbox_);
  pending->used = pending->used.to(type);
  std::vector<at::Tensor> tensors{pending->used};
  return when_done(connected_->allreduce(tensors, patient<c10d::AllreduceOptions>()), pending);
}

PendingPtr GlooGroup::broadcast(const at::Tensor& value, int root) const {
  if (value.numel() == 0) return std::make_shared<Nothing>();
  const auto pending = joined_on(value, value.is_contiguous(), mailbox_);
  auto options = patient<c10d::BroadcastOptions>();
  options.rootRank = static_cast<std::int64_t>(member_of(group_, root));
  std::vector<at::Tensor> tensors{as_bytes(pending->used)};
  return when_done(connected_->broadcast(tensors, options), pending);
}

PendingPtr GlooGroup::all_gather(const at::Tensor& whole) const {
  if (whole.numel() == 0) return std::make_shared<Nothing>();
  const auto pending = joined_on(whole, true, mailbox_);
  at::Tensor bytes = as_bytes(pending->used);
  at::Tensor own = part_of(bytes, own_, group_.ranks.size()).clone();
  return when_done(connected_->_allgather_base(bytes, own, patient<c10d::AllgatherOptions>()), pending);
}

// Gloo's own is an all-reduce of the whole. Here each member's part comes to it, as many bytes as a ring moves, and is summed in
// the order of the ranks: to the same bits as threads sum.
PendingPtr GlooGroup::reduce_scatter(const at::Tensor& whole) const {
  if (whole.numel() == 0) return std::make_shared<Nothing>();
  const auto pending = std::make_shared<Joined>();
  pending->mailbox = mailbox_;
  const std::size_t members = group_.ranks.size();
  pending->wanted = part_of(whole.detach(), own_, members);
  const at::Tensor given = on_host(whole), parts = at::empty_like(given);
  pending->used = part_of(parts, 0, members);
  pending->last = [given, parts, members, raw = pending.get()] {
    const at::NoGradGuard no_graph;
    const at::ScalarType type = summed_as(parts.scalar_type());
    at::Tensor sum = part_of(parts, 0, members).to(type, /*non_blocking=*/false, /*copy=*/true);
    for (std::size_t member = 1; member < members; ++member) sum.add_(part_of(parts, member, members).to(type));
    raw->used = std::move(sum);
  };
  at::Tensor to = as_bytes(parts), from = as_bytes(given);
  std::vector<std::int64_t> equal;
  return when_done(connected_->alltoall_base(to, from, equal, equal, patient<c10d::AllToAllOptions>()), pending);
}

}  // namespace panpipe::exec

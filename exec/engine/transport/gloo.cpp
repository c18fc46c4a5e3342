#include "exec/engine/transport/gloo.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/error.hpp"
#include "exec/engine/transport/device_order.hpp"
#include "exec/engine/transport/row_exchange.hpp"

namespace panpipe::exec {
namespace {

using namespace std::chrono_literals;
constexpr std::chrono::milliseconds kNever = 24h * 365;  // the watch decides, not Gloo

struct Sent : Pending {
  std::shared_ptr<Mailbox> mailbox;
  Watch* watch = nullptr;
  std::shared_ptr<Mailbox::Flag> flag;
  at::Tensor kept;
  int to = 0;
  bool done() override { return mailbox->get(*flag); }
  void wait(Clock::duration deadline, const std::string& what) override {
    completed = mailbox->wait(*flag, *watch, deadline, what, to);
  }
};

struct Arriving : Pending {
  std::shared_ptr<Mailbox> mailbox;
  Watch* watch = nullptr;
  TensorSpec expected;
  Mailbox::Key key;
  bool taken = false;
  bool done() override { return taken || mailbox->has(key); }
  void wait(Clock::duration deadline, const std::string& what) override {
    if (taken) return;
    Mailbox::Message message = mailbox->take(key, *watch, deadline, what);
    check_arrived(expected, message.value, std::get<0>(key), what);
    value = expected.device.is_cpu() ? std::move(message.value) : message.value.to(expected.device);
    completed = message.arrived;
    taken = true;
  }
};

// A collective on a CPU tensor of a type that Gloo sums; `finish` brings the result to where it is wanted.
struct Joined : Pending {
  std::shared_ptr<Mailbox> mailbox;
  Watch* watch = nullptr;
  std::shared_ptr<Mailbox::Flag> flag = std::make_shared<Mailbox::Flag>();
  std::shared_ptr<std::string> fault = std::make_shared<std::string>();
  at::Tensor wanted, used;
  std::function<void()> last;  // after it, before what was used goes to where it is wanted
  bool finished = false;
  bool done() override { return mailbox->get(*flag); }
  void wait(Clock::duration deadline, const std::string& what) override {
    completed = mailbox->wait(*flag, *watch, deadline, what);
    if (!fault->empty()) {
      // A member is gone: the watch reports which. Only without such a report is this the reason.
      const Mailbox::Flag never;
      mailbox->broken(-1, *fault);
      mailbox->wait(never, *watch, deadline, what);
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

struct Nothing : Pending {
  bool done() override { return true; }
  void wait(Clock::duration, const std::string&) override {}
};

// A contiguous CPU tensor with the same values.
at::Tensor on_cpu(const at::Tensor& value) { return value.detach().to(at::kCPU).contiguous(); }

at::Tensor as_bytes(const at::Tensor& value) {
  return at::from_blob(
      value.data_ptr(), {static_cast<std::int64_t>(value.nbytes())}, [value](void*) {}, at::kByte);
}

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

void when_done(const c10::intrusive_ptr<c10d::Work>& work, const std::shared_ptr<Joined>& joined) {
  // The work must live until its own callback, which holds only what the waiting side holds too.
  work->getFuture()->addCallback(
      [mailbox = joined->mailbox, flag = joined->flag, fault = joined->fault](c10::ivalue::Future& future) {
        if (future.hasError()) {
          const std::string text = future.tryRetrieveErrorMessage();
          *fault = text.empty() ? "the collective failed" : text.substr(0, text.find('\n'));
        }
        mailbox->set(*flag);
      });
}

}  // namespace

GlooTransport::GlooTransport(const ProcessOptions& options)
    : options_(options),
      mailbox_(std::make_shared<Mailbox>()),
      rendezvous_(hold_rendezvous(options,
                                  [mailbox = mailbox_](const std::string& reason, bool input) { mailbox->end(reason, input); })) {
  if (!options_.world.local_reported) {
    options_.world.local_rank = rendezvous_.local_rank;
    options_.world.local_size = rendezvous_.local_size;
  }
  auto group = make_gloo_group(rendezvous_.store, "world", rank(), size(), rendezvous_.address, options.deadline);
  links_ = std::make_unique<GlooLinks>(std::move(group), rank(), size(), *mailbox_, *rendezvous_.watch);
  // Gloo connects each with all: a rank that left as soon as it was connected itself would break the others' connecting, and
  // they would report that, not its reason.
  try {
    GlooTransport::barrier(options.deadline, "waiting until all ranks are connected");
  } catch (const InputError&) {
    // A rank that refuses has this behind it, so all are connected. This rank sees for itself, or hears it in its next wait.
  }
}

GlooTransport::~GlooTransport() {
  links_.reset();
  connected_.clear();
}

c10::intrusive_ptr<c10d::Store> GlooTransport::store() const {
  c10::intrusive_ptr<c10d::Store> own = rendezvous_.store->clone();
  own->setTimeout(rendezvous_.store->getTimeout());
  return own;
}

PendingPtr GlooTransport::send(at::Tensor value, int to, std::uint32_t tag) { return give(value, to, Channel::User, tag); }

PendingPtr GlooTransport::receive(const TensorSpec& expected, int from, std::uint32_t tag) {
  return take(expected, from, Channel::User, tag);
}

PendingPtr GlooTransport::give(const at::Tensor& value, int to, Channel channel, std::uint32_t tag) {
  auto pending = std::make_shared<Sent>();
  pending->mailbox = mailbox_;
  pending->watch = rendezvous_.watch.get();
  pending->kept = on_cpu(value);
  pending->to = to;
  pending->flag = links_->send(pending->kept, to, channel, tag);
  return pending;
}

PendingPtr GlooTransport::take(const TensorSpec& expected, int from, Channel channel, std::uint32_t tag) {
  auto pending = std::make_shared<Arriving>();
  pending->mailbox = mailbox_;
  pending->watch = rendezvous_.watch.get();
  pending->expected = expected;
  pending->key = {from, channel, tag};
  return pending;
}

Group GlooTransport::make_group(const std::vector<int>& ranks) {
  if (const auto known = groups_.find(ranks); known != groups_.end()) return known->second;
  const Group group{ranks, static_cast<int>(groups_.size())};
  groups_[ranks] = group;
  const auto mine = std::find(ranks.begin(), ranks.end(), rank());
  if (mine == ranks.end()) return group;
  await_members(ranks);
  const std::string name = fmt::format("group-{}", fmt::join(ranks, "-"));
  connected_[group.id] = make_gloo_group(rendezvous_.store, name, static_cast<int>(mine - ranks.begin()),
                                         static_cast<int>(ranks.size()), rendezvous_.address, options_.deadline);
  return group;
}

void GlooTransport::await_members(const std::vector<int>& ranks) {
  const std::string names = fmt::format("{}", fmt::join(ranks, ", "));
  const std::string what = fmt::format("waiting for the group of ranks {}", names);
  const auto tag = static_cast<std::uint32_t>(std::hash<std::string>()(names));
  const at::Tensor nothing = at::empty({0}, at::kByte);
  const int first = ranks.front();
  if (rank() != first) {
    links_->send(nothing, first, Channel::Arrival, tag);
    mailbox_->take({first, Channel::Arrival, tag}, *rendezvous_.watch, options_.deadline, what);
    return;
  }
  for (const int other : ranks)
    if (other != first) mailbox_->take({other, Channel::Arrival, tag}, *rendezvous_.watch, options_.deadline, what);
  for (const int other : ranks)
    if (other != first) links_->send(nothing, other, Channel::Arrival, tag);
}

PendingPtr GlooTransport::all_reduce(at::Tensor value, const Group& group) {
  if (value.numel() == 0) return std::make_shared<Nothing>();
  auto pending = std::make_shared<Joined>();
  pending->mailbox = mailbox_;
  pending->watch = rendezvous_.watch.get();
  pending->wanted = value.detach();
  const at::ScalarType type = summed_as(value.scalar_type());
  const bool in_place = value.device().is_cpu() && value.is_contiguous() && type == value.scalar_type();
  pending->used = in_place ? pending->wanted : on_cpu(value).to(type);
  c10d::AllreduceOptions options;
  options.timeout = kNever;
  std::vector<at::Tensor> tensors{pending->used};
  when_done(connected_.at(group.id)->allreduce(tensors, options), pending);
  return pending;
}

PendingPtr GlooTransport::broadcast(at::Tensor value, int root, const Group& group) {
  if (value.numel() == 0) return std::make_shared<Nothing>();
  auto pending = std::make_shared<Joined>();
  pending->mailbox = mailbox_;
  pending->watch = rendezvous_.watch.get();
  pending->wanted = value.detach();
  pending->used = value.device().is_cpu() && value.is_contiguous() ? pending->wanted : on_cpu(value);
  c10d::BroadcastOptions options;
  options.rootRank = std::find(group.ranks.begin(), group.ranks.end(), root) - group.ranks.begin();
  options.timeout = kNever;
  std::vector<at::Tensor> tensors{as_bytes(pending->used)};
  when_done(connected_.at(group.id)->broadcast(tensors, options), pending);
  return pending;
}

PendingPtr GlooTransport::all_gather(at::Tensor whole, const Group& group) {
  if (whole.numel() == 0) return std::make_shared<Nothing>();
  auto pending = std::make_shared<Joined>();
  pending->mailbox = mailbox_;
  pending->watch = rendezvous_.watch.get();
  pending->wanted = whole.detach();
  pending->used = whole.device().is_cpu() ? pending->wanted : on_cpu(whole);
  at::Tensor bytes = as_bytes(pending->used);
  at::Tensor own = part_of(bytes, member_of(group, rank()), group.ranks.size()).clone();
  c10d::AllgatherOptions options;
  options.timeout = kNever;
  when_done(connected_.at(group.id)->_allgather_base(bytes, own, options), pending);
  return pending;
}

// Gloo's own is an all-reduce of the whole. Here each member's part comes to it, as many bytes as a ring moves, and is summed in
// the order of the ranks: to the same bits as threads sum.
PendingPtr GlooTransport::reduce_scatter(at::Tensor whole, const Group& group) {
  if (whole.numel() == 0) return std::make_shared<Nothing>();
  auto pending = std::make_shared<Joined>();
  pending->mailbox = mailbox_;
  pending->watch = rendezvous_.watch.get();
  const std::size_t members = group.ranks.size();
  pending->wanted = part_of(whole.detach(), member_of(group, rank()), members);
  const at::Tensor given = on_cpu(whole), parts = at::empty_like(given);
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
  c10d::AllToAllOptions options;
  options.timeout = kNever;
  when_done(connected_.at(group.id)->alltoall_base(to, from, equal, equal, options), pending);
  return pending;
}

PendingPtr GlooTransport::all_to_all(at::Tensor rows, const std::vector<std::int64_t>& sent,
                                     const std::vector<std::int64_t>& received, const Group& group) {
  // A number for each exchange of each group. Numbers repeat after a million exchanges, of which few are under way at a time.
  constexpr int kTurnBits = 20;
  const std::uint32_t turn = exchanges_[group.id]++ & ((1U << kTurnBits) - 1);
  PANPIPE_CHECK(group.id < 1 << (32 - kTurnBits), "the tags of exchanges tell so many groups apart");
  const std::uint32_t tag = static_cast<std::uint32_t>(group.id) << kTurnBits | turn;
  return exchange_rows(
      rows, sent, received, group, rank(), [&](const at::Tensor& part, int to) { return give(part, to, Channel::Exchange, tag); },
      [&](const TensorSpec& expected, int from) { return take(expected, from, Channel::Exchange, tag); });
}

void GlooTransport::barrier(Clock::duration deadline, const std::string& what) { all_gather("", deadline, what); }

// While the device computes, the rank makes progress.
void GlooTransport::settle(at::Device device, Clock::duration deadline, const std::string& what) {
  const DeviceMark end = DeviceMark::on(device);
  if (end.reached()) return;
  mailbox_->poll(
      [&] {
        if (!device_waits()) rendezvous_.watch->progress();
        return end.reached();
      },
      *rendezvous_.watch, deadline, what);
}

// Over rank 0: everybody's bytes to it, all of them back. Two messages deep, and the one way in which waits are ended by the
// watch.
std::vector<std::string> GlooTransport::all_gather(const std::string& bytes, Clock::duration deadline, const std::string& what) {
  const std::uint32_t turn = gathers_++;
  const auto tensor_of = [](const std::string& text) {
    const at::Tensor tensor = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
    if (!text.empty()) std::memcpy(tensor.data_ptr(), text.data(), text.size());
    return tensor;
  };
  const auto text_from = [&](int from) {
    const at::Tensor tensor = mailbox_->take({from, Channel::Control, turn}, *rendezvous_.watch, deadline, what).value;
    return std::string(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
  };
  std::vector<std::string> all;
  if (rank() != 0) {
    links_->send(tensor_of(bytes), 0, Channel::Control, turn);
    for (int other = 0; other < size(); ++other) all.push_back(text_from(0));
    return all;
  }
  all.push_back(bytes);
  for (int other = 1; other < size(); ++other) all.push_back(text_from(other));
  for (int other = 1; other < size(); ++other)
    for (const std::string& part : all) links_->send(tensor_of(part), other, Channel::Control, turn);
  return all;
}

void GlooTransport::set_action(const std::string& action) {
  action_ = action;
  rendezvous_.watch->set_action(action);
}

void GlooTransport::abort(const std::string& reason) noexcept {
  mailbox_->end(fmt::format("rank {} ended the run: {}", rank(), reason));
  rendezvous_.watch->abort(reason);
}

// The others' text names this rank where they may have been given other files; the ranks of panpipe run are of one host, and a
// message of all of them is printed once.
void GlooTransport::refuse(const InputError& error) noexcept {
  const std::string text = error.what();
  mailbox_->end(text, true);
  rendezvous_.watch->refuse(options_.world.launcher == "panpipe run" ? text : fmt::format("rank {}: {}", rank(), text));
}

void GlooTransport::leave(Clock::duration deadline, const std::string& what) {
  const auto through = std::make_shared<Mailbox::Flag>();
  rendezvous_.watch->leave([mailbox = mailbox_, through] { mailbox->set(*through); });
  mailbox_->wait(*through, *rendezvous_.watch, deadline, what);
  rendezvous_.watch->farewell(deadline);
}

std::unique_ptr<Transport> make_gloo_transport(const ProcessOptions& options) { return std::make_unique<GlooTransport>(options); }

}  // namespace panpipe::exec

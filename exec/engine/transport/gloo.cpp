#include "exec/engine/transport/gloo.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
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

struct Sent : WatchedPending {
  using WatchedPending::WatchedPending;
  std::shared_ptr<Mailbox::Flag> flag;
  at::Tensor kept;
  int to = 0;
  bool done() override { return mailbox->get(*flag); }
  void wait(Clock::duration deadline, const std::string& what) override {
    completed = mailbox->wait(*flag, watch, deadline, what, to);
  }
};

struct Arriving : WatchedPending {
  using WatchedPending::WatchedPending;
  TensorSpec expected;
  Mailbox::Key key;
  bool taken = false;
  bool done() override { return taken || mailbox->has(key); }
  void wait(Clock::duration deadline, const std::string& what) override {
    if (taken) return;
    Mailbox::Message message = mailbox->take(key, watch, deadline, what);
    check_arrived(expected, message.value, std::get<0>(key), what);
    value = expected.device.is_cpu() ? std::move(message.value) : message.value.to(expected.device);
    completed = message.arrived;
    taken = true;
  }
};

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
  links_ = std::make_unique<GlooLinks>(std::move(group), rank(), size(), *mailbox_, watch());
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
  auto pending = std::make_shared<Sent>(mailbox_, watch());
  pending->kept = value.detach().to(at::kCPU).contiguous();
  pending->to = to;
  pending->flag = links_->send(pending->kept, to, channel, tag);
  return pending;
}

PendingPtr GlooTransport::take(const TensorSpec& expected, int from, Channel channel, std::uint32_t tag) {
  auto pending = std::make_shared<Arriving>(mailbox_, watch());
  pending->expected = expected;
  pending->key = {from, channel, tag};
  return pending;
}

Group GlooTransport::make_group(const std::vector<int>& ranks) {
  if (const auto known = groups_.find(ranks); known != groups_.end()) return known->second;
  const Group group{ranks, static_cast<int>(groups_.size())};
  groups_[ranks] = group;
  if (std::find(ranks.begin(), ranks.end(), rank()) == ranks.end()) return group;
  await_members(ranks);
  const std::string name = fmt::format("group-{}", fmt::join(ranks, "-"));
  const auto own = member_of(group, rank());
  auto connected = make_gloo_group(rendezvous_.store, name, static_cast<int>(own), static_cast<int>(ranks.size()),
                                   rendezvous_.address, options_.deadline);
  connected_.try_emplace(group.id, GlooGroup(std::move(connected), group, own, mailbox_, watch()));
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
    mailbox_->take({first, Channel::Arrival, tag}, watch(), options_.deadline, what);
    return;
  }
  for (const int other : ranks)
    if (other != first) mailbox_->take({other, Channel::Arrival, tag}, watch(), options_.deadline, what);
  for (const int other : ranks)
    if (other != first) links_->send(nothing, other, Channel::Arrival, tag);
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
        if (!device_waits()) watch().progress();
        return end.reached();
      },
      watch(), deadline, what);
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
    const at::Tensor tensor = mailbox_->take({from, Channel::Control, turn}, watch(), deadline, what).value;
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
  watch().set_action(action);
}

void GlooTransport::abort(const std::string& reason) noexcept {
  mailbox_->end(fmt::format("rank {} ended the run: {}", rank(), reason));
  watch().abort(reason);
}

// The others' text names this rank where they may have been given other files; the ranks of panpipe run are of one host, and a
// message of all of them is printed once.
void GlooTransport::refuse(const InputError& error) noexcept {
  const std::string text = error.what();
  mailbox_->end(text, true);
  watch().refuse(options_.world.launcher == "panpipe run" ? text : fmt::format("rank {}: {}", rank(), text));
}

void GlooTransport::leave(Clock::duration deadline, const std::string& what) {
  const auto through = std::make_shared<Mailbox::Flag>();
  watch().leave([mailbox = mailbox_, through] { mailbox->set(*through); });
  mailbox_->wait(*through, watch(), deadline, what);
  watch().farewell(deadline);
}

std::unique_ptr<Transport> make_gloo_transport(const ProcessOptions& options) { return std::make_unique<GlooTransport>(options); }

}  // namespace panpipe::exec

#include "exec/engine/transport/mail_transport.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <utility>

namespace panpipe::exec {
namespace {

// "Float[2, 3]"
std::string described(at::ScalarType dtype, at::IntArrayRef shape) {
  std::ostringstream text;
  text << dtype << shape;
  return text.str();
}

struct Arriving : Pending {
  std::shared_ptr<Mailbox> mailbox;
  TensorSpec expected;
  Mailbox::Key key;
  bool taken = false;

  bool done() override { return taken || mailbox->has(key); }
  void wait(Clock::duration deadline, const std::string& what) override {
    if (taken) return;
    Mailbox::Message message = mailbox->take(key, deadline, what);
    if (message.filling) {
      message.filling->wait(deadline, what);
      landed = message.filling->landed;
    }
    at::Tensor& came = message.value;
    if (came.sizes() != expected.shape || came.scalar_type() != expected.dtype)
      throw InternalError(fmt::format("{}: rank {} sent {}, expected {}", what, std::get<0>(key),
                                      described(came.scalar_type(), came.sizes()), described(expected.dtype, expected.shape)));
    message.written.before(expected.device, came);
    if (came.is_cpu()) completed = message.arrived;  // a GPU is behind its host
    value = came.device() == expected.device ? std::move(came) : came.to(expected.device);
    taken = true;
  }
};

// The rows of several members, one after another, and the pending messages.
struct RowExchange : Pending {
  std::vector<PendingPtr> arriving;  // by member; null for this rank's own rows
  std::vector<PendingPtr> sends;
  at::Tensor own;

  bool done() override {
    const auto is_done = [](const PendingPtr& one) { return !one || one->done(); };
    return std::all_of(arriving.begin(), arriving.end(), is_done) && std::all_of(sends.begin(), sends.end(), is_done);
  }
  void wait(Clock::duration deadline, const std::string& what) override {
    if (value.defined()) return;
    std::vector<at::Tensor> parts;
    for (const PendingPtr& one : arriving) {
      if (one) one->wait(deadline, what);
      parts.push_back(one ? one->value : own);
      if (one) completed = std::max(completed, one->completed);
    }
    for (const PendingPtr& send : sends) send->wait(deadline, what);
    value = at::cat(parts);
    arriving.clear();
  }
};

}  // namespace

PendingPtr MailTransport::take(const TensorSpec& expected, const Mailbox::Key& key) const {
  auto pending = std::make_shared<Arriving>();
  pending->mailbox = mailbox_;
  pending->expected = expected;
  pending->key = key;
  return pending;
}

Group MailTransport::make_group(const std::vector<int>& ranks) {
  return groups_.try_emplace(ranks, Group{ranks, static_cast<int>(groups_.size())}).first->second;
}

// A message to each member, also where it has no rows.
PendingPtr MailTransport::all_to_all(at::Tensor rows, const std::vector<std::int64_t>& sent,
                                     const std::vector<std::int64_t>& received, const Group& group) {
  // A number for each exchange of each group. Numbers repeat after a million exchanges, of which few are under way at a time.
  constexpr int kTurnBits = 20;
  const std::uint32_t turn = exchanges_[group.id]++ & ((1U << kTurnBits) - 1);
  PANPIPE_CHECK(group.id < 1 << (32 - kTurnBits), "the tags of exchanges tell so many groups apart");
  const std::uint32_t tag = static_cast<std::uint32_t>(group.id) << kTurnBits | turn;
  auto exchange = std::make_shared<RowExchange>();
  std::int64_t first = 0;
  for (std::size_t i = 0; i < group.ranks.size(); ++i) {
    const at::Tensor part = rows.detach().narrow(0, first, sent.at(i));
    first += sent[i];
    if (group.ranks[i] == rank()) {
      exchange->own = part;
      exchange->arriving.push_back(nullptr);
      continue;
    }
    exchange->sends.push_back(post(part, group.ranks[i], Channel::Exchange, tag));
    TensorSpec expected{rows.sizes().vec(), rows.scalar_type(), rows.device()};
    expected.shape[0] = received.at(i);
    exchange->arriving.push_back(take(expected, {group.ranks[i], Channel::Exchange, tag}));
  }
  return exchange;
}

// Over rank 0: everybody's bytes to it, all of them back. Two messages deep, and the one way in which waits are ended by the
// detector.
std::vector<std::string> MailTransport::all_gather(const std::string& bytes, Clock::duration deadline, const std::string& what) {
  const std::uint32_t turn = gathers_++;
  const auto tensor_of = [](const std::string& text) {
    const at::Tensor tensor = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
    if (!text.empty()) std::memcpy(tensor.data_ptr(), text.data(), text.size());
    return tensor;
  };
  const auto text_from = [&](int from) {
    const at::Tensor tensor = mailbox_->take({from, Channel::Control, turn}, deadline, what).value;
    return std::string(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
  };
  std::vector<std::string> all;
  if (rank() != 0) {
    post(tensor_of(bytes), 0, Channel::Control, turn);
    for (int other = 0; other < size(); ++other) all.push_back(text_from(0));
    return all;
  }
  all.push_back(bytes);
  for (int other = 1; other < size(); ++other) all.push_back(text_from(other));
  for (const std::string& part : all) {
    const at::Tensor given = tensor_of(part);
    for (int other = 1; other < size(); ++other) post(given, other, Channel::Control, turn);
  }
  return all;
}

// While the device computes, the rank makes progress.
void MailTransport::settle(at::Device device, Clock::duration deadline, const std::string& what) {
  const DeviceMark end = DeviceMark::on(device);
  if (end.reached()) return;
  mailbox_->poll(
      [&] {
        if (!device_waits()) detector_->progress();
        return end.reached();
      },
      deadline, what);
}

void MailTransport::set_action(const std::string& action) {
  action_ = action;
  detector_->set_action(action);
}

}  // namespace panpipe::exec

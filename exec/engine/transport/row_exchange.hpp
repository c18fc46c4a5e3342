// Pending operations made of others: none, and an all-to-all made of messages, for transports whose messages are cheap to post.
#pragma once

#include <ATen/ops/cat.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// Done at once.
struct Nothing : Pending {
  bool done() override { return true; }
  void wait(Clock::duration, const std::string&) override {}
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

// `send(rows, member's rank)` and `receive(spec, member's rank)` post one message each. Every member gets one, even without rows.
template <class Send, class Receive>
PendingPtr exchange_rows(const at::Tensor& rows, const std::vector<std::int64_t>& sent, const std::vector<std::int64_t>& received,
                         const Group& group, int rank, Send send, Receive receive) {
  auto exchange = std::make_shared<RowExchange>();
  std::int64_t first = 0;
  for (std::size_t i = 0; i < group.ranks.size(); ++i) {
    const at::Tensor part = rows.detach().narrow(0, first, sent.at(i));
    first += sent[i];
    if (group.ranks[i] == rank) {
      exchange->own = part;
      exchange->arriving.push_back(nullptr);
      continue;
    }
    exchange->sends.push_back(send(part, group.ranks[i]));
    TensorSpec expected{rows.sizes().vec(), rows.scalar_type(), rows.device()};
    expected.shape[0] = received.at(i);
    exchange->arriving.push_back(receive(expected, group.ranks[i]));
  }
  return exchange;
}

}  // namespace panpipe::exec

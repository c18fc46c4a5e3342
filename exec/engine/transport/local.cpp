// Ranks as threads of one process: tensors are passed on in memory, and the last rank to arrive computes a sum.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "base/error.hpp"
#include "exec/engine/transport/common_end.hpp"
#include "exec/engine/transport/device_order.hpp"
#include "exec/engine/transport/row_exchange.hpp"
#include "exec/engine/transport/transport.hpp"
#include "exec/engine/transport/wait_limit.hpp"

namespace panpipe::exec {
namespace {

struct Message {
  at::Tensor value;
  DeviceOrder written;  // on a GPU: when the sender's stream has written it
  Clock::time_point sent = Clock::now();
};

// One collective of one group. Sums are made in rank order, so that the result does not depend on who was first.
struct Collective {
  std::map<int, Message> parts;  // by rank
  DeviceOrder written;
  Clock::time_point finished{};
  bool done = false;
};

struct Hub {
  explicit Hub(int size)
      : ranks(size), at(static_cast<std::size_t>(size), "not yet started"), waits(static_cast<std::size_t>(size)) {}
  int ranks;
  std::mutex lock;
  std::condition_variable changed;
  std::map<std::tuple<int, int, std::uint64_t>, std::deque<Message>> mail;          // (from, to, tag)
  std::map<std::pair<int, std::int64_t>, std::shared_ptr<Collective>> collectives;  // (group, sequence number)
  std::map<std::vector<int>, int> groups;
  std::map<std::int64_t, std::map<int, std::string>> gathers;
  std::vector<std::string> at;  // by rank: what it does
  std::vector<bool> waits;      // by rank: does it wait for another
  bool aborted = false;
  std::string reason;
  std::optional<InputError> refusal;

  std::string others(int rank) const {
    std::string text;
    for (int other = 0; other < ranks; ++other) {
      if (other == rank) continue;
      const auto i = static_cast<std::size_t>(other);
      text += fmt::format("; rank {} {}: {}", other, waits[i] ? "waits too" : "is at", at[i]);
    }
    return text;
  }

  // Is the run over? Under the lock, as all of these.
  void throw_end(const std::string& what) const {
    if (refusal) throw *refusal;
    if (aborted) throw PeerLost(fmt::format("{}: {}", what, reason));
  }
  void end() {
    aborted = true;
    changed.notify_all();
  }

  // Waits for `ready` under the lock. PeerLost when aborted, or when nothing of this process computed for the deadline.
  template <class Ready>
  void wait(std::unique_lock<std::mutex>& hold, int rank, Clock::duration deadline, const std::string& what, Ready ready) {
    if (ready()) return;
    const auto i = static_cast<std::size_t>(rank);
    const std::string before = std::exchange(at[i], what);
    waits[i] = true;
    Quiet quiet(deadline);
    while (!ready()) {
      throw_end(what);
      if (quiet.over(process_cpu_time()))
        throw PeerLost(fmt::format("{}: nothing arrived and no rank computed for {:.3g} s{}", what,
                                   std::chrono::duration<double>(deadline).count(), others(rank)));
      changed.wait_for(hold, quiet.slice());
    }
    waits[i] = false;
    at[i] = before;
  }
};

struct Receive : Pending {
  std::shared_ptr<Hub> hub;
  int rank = 0;
  TensorSpec expected;
  std::tuple<int, int, std::uint64_t> key;
  bool taken = false;

  bool done() override {
    const std::lock_guard hold(hub->lock);
    return taken || hub->mail.count(key) > 0;
  }
  void wait(Clock::duration deadline, const std::string& what) override {
    if (taken) return;
    Message message;
    {
      std::unique_lock hold(hub->lock);
      hub->wait(hold, rank, deadline, what, [&] { return hub->mail.count(key) > 0; });
      auto& arrived = hub->mail.at(key);
      message = std::move(arrived.front());
      arrived.pop_front();
      if (arrived.empty()) hub->mail.erase(key);
    }
    check_arrived(expected, message.value, std::get<0>(key), what);
    message.written.before(expected.device, message.value);
    if (message.value.is_cpu()) completed = message.sent;  // a GPU is behind its host
    value = message.value.device() == expected.device ? std::move(message.value) : message.value.to(expected.device);
    taken = true;
  }
};

struct Joined : Pending {
  std::shared_ptr<Hub> hub;
  std::shared_ptr<Collective> collective;
  int rank = 0;
  at::Tensor mine;
  bool done() override {
    const std::lock_guard hold(hub->lock);
    return collective->done;
  }
  void wait(Clock::duration deadline, const std::string& what) override {
    std::unique_lock hold(hub->lock);
    hub->wait(hold, rank, deadline, what, [&] { return collective->done; });
    collective->written.before(mine.device(), mine);
    if (mine.is_cpu()) completed = collective->finished;
  }
};

using Values = std::vector<at::Tensor>;  // of the members, in rank order

// Each of these returns the tensor behind whose stream the results are there.
at::Tensor summed(const Values& values) {
  at::Tensor sum = values.front().clone();
  for (std::size_t member = 1; member < values.size(); ++member) sum.add_(values[member].to(sum.device()));
  return sum;
}

at::Tensor sum_up(const Values& values) {
  at::Tensor sum = summed(values);
  for (const at::Tensor& value : values) value.copy_(sum);
  return sum;
}

at::Tensor spread(const Values& values, std::size_t root) {
  for (std::size_t member = 0; member < values.size(); ++member)
    if (member != root) values[member].copy_(values[root]);
  return values[root];
}

at::Tensor gather(const Values& values) {
  for (std::size_t member = 0; member < values.size(); ++member)
    for (std::size_t other = 0; other < values.size(); ++other)
      if (other != member) part_of(values[other], member, values.size()).copy_(part_of(values[member], member, values.size()));
  return values.front();
}

at::Tensor sum_parts(const Values& values) {
  for (std::size_t member = 0; member < values.size(); ++member) {
    Values parts;
    for (const at::Tensor& value : values) parts.push_back(part_of(value, member, values.size()));
    parts[member].copy_(summed(parts));
  }
  return values.front();
}

class LocalTransport : public Transport, public Ending {
 public:
  LocalTransport(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return hub_->ranks; }
  const char* name() const override { return "local"; }

  PendingPtr send(at::Tensor value, int to, std::uint32_t tag) override { return give(value, to, tag); }
  PendingPtr receive(const TensorSpec& expected, int from, std::uint32_t tag) override { return take(expected, from, tag); }

  Group make_group(const std::vector<int>& ranks) override {
    const std::lock_guard hold(hub_->lock);
    return {ranks, hub_->groups.emplace(ranks, static_cast<int>(hub_->groups.size())).first->second};
  }

  PendingPtr all_reduce(at::Tensor value, const Group& group) override { return join(std::move(value), group, sum_up); }

  PendingPtr broadcast(at::Tensor value, int root, const Group& group) override {
    return join(std::move(value), group, [&](const Values& values) { return spread(values, member_of(group, root)); });
  }

  PendingPtr all_gather(at::Tensor whole, const Group& group) override { return join(std::move(whole), group, gather); }

  PendingPtr reduce_scatter(at::Tensor whole, const Group& group) override { return join(std::move(whole), group, sum_parts); }

  PendingPtr all_to_all(at::Tensor rows, const std::vector<std::int64_t>& sent, const std::vector<std::int64_t>& received,
                        const Group& group) override {
    // Beyond the tags of messages; of each exchange of each group its own.
    const std::uint64_t tag = (static_cast<std::uint64_t>(group.id) + 1) << 32 | exchanges_[group.id]++;
    return exchange_rows(
        rows, sent, received, group, rank_, [&](const at::Tensor& part, int to) { return give(part.clone(), to, tag); },
        [&](const TensorSpec& expected, int from) { return take(expected, from, tag); });
  }

  void barrier(Clock::duration deadline, const std::string& what) override { all_gather("", deadline, what); }

  // A device that computes is no loss, however long it takes; only the others' ends are.
  void settle(at::Device device, Clock::duration, const std::string& what) override {
    const DeviceMark end = DeviceMark::on(device);
    for (Pauses pauses; !end.reached(); pauses.next()) {
      const std::lock_guard hold(hub_->lock);
      hub_->throw_end(what);
    }
  }

  std::vector<std::string> all_gather(const std::string& bytes, Clock::duration deadline, const std::string& what) override {
    std::unique_lock hold(hub_->lock);
    const std::int64_t turn = gathers_++;
    auto& parts = hub_->gathers[turn];
    parts.emplace(rank_, bytes);
    hub_->gathers.erase(turn - 2);  // everybody has left the one before the last
    hub_->changed.notify_all();
    hub_->wait(hold, rank_, deadline, what, [&] { return parts.size() == static_cast<std::size_t>(hub_->ranks); });
    std::vector<std::string> all;
    for (const auto& [rank, part] : parts) all.push_back(part);
    return all;
  }

  void set_action(const std::string& action) override {
    action_ = action;
    const std::lock_guard hold(hub_->lock);
    hub_->at[rank_] = action;
  }

  void abort(const std::string& reason) noexcept override {
    const std::lock_guard hold(hub_->lock);
    if (!hub_->aborted) hub_->reason = fmt::format("rank {} ended the run: {}", rank_, reason);
    hub_->end();
  }

  void refuse(const InputError& error) noexcept override {
    const std::lock_guard hold(hub_->lock);
    if (!hub_->aborted) hub_->refusal = error;
    hub_->end();
  }

  void leave(Clock::duration deadline, const std::string& what) override { barrier(deadline, what); }

 private:
  PendingPtr give(const at::Tensor& value, int to, std::uint64_t tag) {
    Message message{value.detach(), DeviceOrder::now(value), Clock::now()};
    const std::lock_guard hold(hub_->lock);
    hub_->mail[{rank_, to, tag}].push_back(std::move(message));
    hub_->changed.notify_all();
    return std::make_shared<Nothing>();
  }

  PendingPtr take(const TensorSpec& expected, int from, std::uint64_t tag) {
    auto pending = std::make_shared<Receive>();
    pending->hub = hub_;
    pending->rank = rank_;
    pending->expected = expected;
    pending->key = {from, rank_, tag};
    return pending;
  }

  template <class Finish>
  PendingPtr join(at::Tensor value, const Group& group, Finish finish) {
    auto pending = std::make_shared<Joined>();
    pending->hub = hub_;
    pending->rank = rank_;
    pending->mine = value;
    Message message{value, DeviceOrder::now(value), Clock::now()};
    const std::lock_guard hold(hub_->lock);
    const std::pair key(group.id, sequence_[group.id]++);
    auto& slot = hub_->collectives[key];
    if (!slot) slot = std::make_shared<Collective>();
    pending->collective = slot;
    slot->parts.emplace(rank_, std::move(message));
    if (slot->parts.size() < group.ranks.size()) return pending;
    const at::NoGradGuard no_graph;
    Values values;
    for (auto& [rank, part] : slot->parts) {
      part.written.before(part.value.device(), part.value);
      values.push_back(part.value);
    }
    slot->written = DeviceOrder::now(finish(values));
    slot->finished = Clock::now();
    slot->done = true;
    hub_->collectives.erase(key);
    hub_->changed.notify_all();
    return pending;
  }

  std::shared_ptr<Hub> hub_;
  int rank_;
  std::map<int, std::int64_t> sequence_;
  std::map<int, std::uint32_t> exchanges_;  // by group
  std::int64_t gathers_ = 0;
};

}  // namespace

void leave(Transport& transport, Clock::duration deadline, const std::string& what) {
  dynamic_cast<Ending&>(transport).leave(deadline, what);
}

void refuse(Transport& transport, const InputError& error) noexcept { dynamic_cast<Ending&>(transport).refuse(error); }

std::vector<std::unique_ptr<Transport>> make_local_transports(int size) {
  auto hub = std::make_shared<Hub>(size);
  std::vector<std::unique_ptr<Transport>> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(std::make_unique<LocalTransport>(hub, rank));
  return all;
}

}  // namespace panpipe::exec

// Ranks as threads of one process: tensors are passed on in memory, and the last rank to arrive computes a sum.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "exec/engine/transport/mail_transport.hpp"

namespace panpipe::exec {
namespace {

// What a member gives to a collective, and where it waits for the result.
struct Part {
  at::Tensor value;
  DeviceMark written;
  Mailbox::Key result;
};
using Parts = std::map<int, Part>;  // by rank: sums are made in rank order, so that they do not depend on who was first

// What the ranks share.
struct Hub {
  std::vector<std::shared_ptr<Mailbox>> mailboxes;  // by rank
  std::mutex lock;
  std::map<std::pair<int, std::int64_t>, Parts> collectives;  // (group, sequence number)
  struct Rank {
    std::string at = "not yet started";
    bool waits = false;  // for another rank
  };
  std::mutex watching;
  std::vector<Rank> ranks;

  template <class Reason>
  void end(const Reason& reason) {
    const std::lock_guard hold(lock);
    for (const auto& mailbox : mailboxes) mailbox->end(reason);
  }
  // The parts of all members, for the last one that comes.
  Parts add(const Group& group, std::int64_t turn, int rank, Part part) {
    const std::lock_guard hold(lock);
    const auto collective = collectives.try_emplace({group.id, turn}).first;
    collective->second.emplace(rank, std::move(part));
    return collective->second.size() < group.ranks.size() ? Parts() : std::move(collectives.extract(collective).mapped());
  }
};

// Nobody has got on when nothing of the process computes.
class WatchOfThreads : public FailureDetector {
 public:
  WatchOfThreads(Hub& hub, std::size_t rank) : hub_(hub), rank_(rank) {}

  void set_action(const std::string& action) override {
    const std::lock_guard hold(hub_.watching);
    hub_.ranks[rank_].at = action;
  }
  void begin_wait(const std::string& what, bool for_another) override {
    quiet_.reset();
    const std::lock_guard hold(hub_.watching);
    before_ = std::exchange(hub_.ranks[rank_], {what, for_another});
  }
  void end_wait(bool came) override {
    if (!came) return;
    const std::lock_guard hold(hub_.watching);
    hub_.ranks[rank_] = std::move(before_);
  }
  void progress() override { quiet_.reset(); }
  std::string standstill(Clock::duration deadline) override {
    if (!quiet_) quiet_.emplace(deadline);
    if (!quiet_->over(process_cpu_time())) return "";
    std::string text = fmt::format("no rank computed for {:.3g} s", in_seconds(deadline));
    const std::lock_guard hold(hub_.watching);
    for (std::size_t other = 0; other < hub_.ranks.size(); ++other)
      if (const Hub::Rank& one = hub_.ranks[other]; other != rank_)
        text += fmt::format("; rank {} {}: {}", other, one.waits ? "waits too" : "is at", one.at);
    return text;
  }

 private:
  Hub& hub_;
  std::size_t rank_;
  Hub::Rank before_;
  std::optional<Quiet> quiet_;
};

using Values = std::vector<at::Tensor>;  // of the members, in rank order

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

class LocalTransport : public MailTransport {
 public:
  LocalTransport(std::shared_ptr<Hub> hub, int rank)
      : hub_(std::move(hub)), rank_(rank), watch_(*hub_, static_cast<std::size_t>(rank)) {
    watch_with(watch_);
    hub_->mailboxes.push_back(mailbox_);
    hub_->ranks.emplace_back();
  }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(hub_->ranks.size()); }
  const char* name() const override { return "local"; }

  PendingPtr all_reduce(at::Tensor value, const Group& group) override { return join(value, group, sum_up); }

  PendingPtr broadcast(at::Tensor value, int root, const Group& group) override {
    return join(value, group, [&](const Values& values) { return spread(values, member_of(group, root)); });
  }

  using MailTransport::all_gather;
  PendingPtr all_gather(at::Tensor whole, const Group& group) override { return join(whole, group, gather); }

  PendingPtr reduce_scatter(at::Tensor whole, const Group& group) override { return join(whole, group, sum_parts); }

  void abort(const std::string& reason) noexcept override { hub_->end(fmt::format("rank {} ended the run: {}", rank_, reason)); }
  void refuse(const InputError& error) noexcept override { hub_->end(error); }
  void leave(Clock::duration deadline, const std::string& what) override { barrier(deadline, what); }

 private:
  // Rows may change once their exchange is posted; a message's tensor is its receiver's.
  PendingPtr post(const at::Tensor& value, int to, Channel channel, std::uint32_t tag) override {
    const at::Tensor given = channel == Channel::Exchange ? value.clone() : value.detach();
    hub_->mailboxes.at(static_cast<std::size_t>(to))->put({rank_, channel, tag}, {given, DeviceMark::on(given.device())});
    return std::make_shared<Nothing>();
  }

  // `finish` leaves the results in the members' tensors, and returns the tensor behind whose stream they are there.
  template <class Finish>
  PendingPtr join(const at::Tensor& value, const Group& group, Finish finish) {
    const Mailbox::Key result{rank_, Channel::Joined, joined_++};
    const PendingPtr pending = take({value.sizes().vec(), value.scalar_type(), value.device()}, result);
    const Parts parts = hub_->add(group, sequence_[group.id]++, rank_, {value, DeviceMark::on(value.device()), result});
    if (parts.empty()) return pending;
    const at::NoGradGuard no_graph;
    Values values;
    for (const auto& [rank, part] : parts) {
      part.written.before(part.value.device(), part.value);
      values.push_back(part.value);
    }
    const DeviceMark written = DeviceMark::on(finish(values).device());
    for (const auto& [rank, part] : parts)
      hub_->mailboxes.at(static_cast<std::size_t>(rank))->put(part.result, {part.value, written});
    return pending;
  }

  std::shared_ptr<Hub> hub_;
  int rank_;
  WatchOfThreads watch_;
  std::map<int, std::int64_t> sequence_;  // by group
  std::uint32_t joined_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_local_transports(int size) {
  const auto hub = std::make_shared<Hub>();
  std::vector<std::unique_ptr<Transport>> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(std::make_unique<LocalTransport>(hub, rank));
  return all;
}

}  // namespace panpipe::exec

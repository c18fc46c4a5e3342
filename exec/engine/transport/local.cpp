// Ranks as threads of one process: tensors are handed over, sums are done by the last to arrive.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <sstream>
#include <tuple>

#include "costmodel/base/error.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {
namespace {

std::string describe(at::ScalarType dtype, at::IntArrayRef shape) {
  std::ostringstream text;
  text << dtype << shape;
  return text.str();
}

// One all-reduce of one group: filled by its members, summed in rank order so that the result does not depend on who was first.
struct Reduction {
  std::map<int, at::Tensor> parts;
  bool done = false;
};

struct Hub {
  explicit Hub(int size) : ranks(size) {}
  int ranks;
  std::mutex lock;
  std::condition_variable changed;
  std::map<std::tuple<int, int, std::uint32_t>, at::Tensor> mail;                 // (from, to, tag)
  std::map<std::pair<int, std::int64_t>, std::shared_ptr<Reduction>> reductions;  // (group, sequence number)
  std::map<std::vector<int>, int> groups;
  std::map<std::int64_t, std::map<int, std::string>> gathers;
  bool aborted = false;
  std::string reason;

  // Waits for `ready` under the lock; PeerLost when aborted or late.
  template <class Ready>
  void wait(std::unique_lock<std::mutex>& hold, Clock::duration deadline, const std::string& what, Ready ready) {
    const bool in_time = changed.wait_for(hold, deadline, [&] { return aborted || ready(); });
    if (ready()) return;
    if (aborted) throw PeerLost(reason);
    if (!in_time)
      throw PeerLost(fmt::format("{}: nothing arrived within {:.3g} s", what, std::chrono::duration<double>(deadline).count()));
  }
};

struct Done : Pending {
  bool done() override { return true; }
  void wait(Clock::duration, const std::string&) override {}
};

struct Receive : Pending {
  std::shared_ptr<Hub> hub;
  TensorSpec expected;
  std::tuple<int, int, std::uint32_t> key;
  bool taken = false;

  bool done() override {
    const std::lock_guard hold(hub->lock);
    return taken || hub->mail.count(key) > 0;
  }
  void wait(Clock::duration deadline, const std::string& what) override {
    if (taken) return;
    {
      std::unique_lock hold(hub->lock);
      hub->wait(hold, deadline, what, [&] { return hub->mail.count(key) > 0; });
      value = std::move(hub->mail.extract(key).mapped());
    }
    if (value.sizes() != expected.shape || value.scalar_type() != expected.dtype)
      throw InternalError(fmt::format("{}: rank {} sent {}, expected {}", what, std::get<0>(key),
                                      describe(value.scalar_type(), value.sizes()), describe(expected.dtype, expected.shape)));
    taken = true;
  }
};

struct Reduce : Pending {
  std::shared_ptr<Hub> hub;
  std::shared_ptr<Reduction> reduction;
  bool done() override {
    const std::lock_guard hold(hub->lock);
    return reduction->done;
  }
  void wait(Clock::duration deadline, const std::string& what) override {
    std::unique_lock hold(hub->lock);
    hub->wait(hold, deadline, what, [&] { return reduction->done; });
  }
};

class LocalTransport : public Transport {
 public:
  LocalTransport(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return hub_->ranks; }
  const char* name() const override { return "local"; }

  PendingPtr send(at::Tensor value, int to, std::uint32_t tag) override {
    const std::lock_guard hold(hub_->lock);
    const bool fresh = hub_->mail.emplace(std::tuple(rank_, to, tag), value.detach()).second;
    PANPIPE_CHECK(fresh, fmt::format("rank {} sends tag {} to rank {} twice", rank_, tag, to));
    hub_->changed.notify_all();
    return std::make_shared<Done>();
  }

  PendingPtr receive(const TensorSpec& expected, int from, std::uint32_t tag) override {
    auto pending = std::make_shared<Receive>();
    pending->hub = hub_;
    pending->expected = expected;
    pending->key = {from, rank_, tag};
    return pending;
  }

  Group make_group(const std::vector<int>& ranks) override {
    const std::lock_guard hold(hub_->lock);
    return {ranks, hub_->groups.emplace(ranks, static_cast<int>(hub_->groups.size())).first->second};
  }

  PendingPtr all_reduce(at::Tensor value, const Group& group) override {
    auto pending = std::make_shared<Reduce>();
    pending->hub = hub_;
    const std::lock_guard hold(hub_->lock);
    auto& slot = hub_->reductions[{group.id, sequence_[group.id]++}];
    if (!slot) slot = std::make_shared<Reduction>();
    pending->reduction = slot;
    slot->parts.emplace(rank_, std::move(value));
    if (slot->parts.size() == group.ranks.size()) {
      const at::NoGradGuard no_graph;
      at::Tensor sum = slot->parts.begin()->second.clone();
      for (auto part = std::next(slot->parts.begin()); part != slot->parts.end(); ++part) sum.add_(part->second);
      for (auto& [rank, part] : slot->parts) part.copy_(sum);
      slot->done = true;
      hub_->reductions.erase({group.id, sequence_[group.id] - 1});
      hub_->changed.notify_all();
    }
    return pending;
  }

  void barrier(Clock::duration deadline, const std::string& what) override { all_gather("", deadline, what); }

  std::vector<std::string> all_gather(const std::string& bytes, Clock::duration deadline, const std::string& what) override {
    std::unique_lock hold(hub_->lock);
    const std::int64_t turn = gathers_++;
    auto& parts = hub_->gathers[turn];
    parts.emplace(rank_, bytes);
    hub_->gathers.erase(turn - 2);  // everybody has left the one before the last
    hub_->changed.notify_all();
    hub_->wait(hold, deadline, what, [&] { return parts.size() == static_cast<std::size_t>(hub_->ranks); });
    std::vector<std::string> all;
    for (const auto& [rank, part] : parts) all.push_back(part);
    return all;
  }

  void abort(const std::string& reason) noexcept override {
    const std::lock_guard hold(hub_->lock);
    if (!hub_->aborted) hub_->reason = reason;
    hub_->aborted = true;
    hub_->changed.notify_all();
  }

 private:
  std::shared_ptr<Hub> hub_;
  int rank_;
  std::map<int, std::int64_t> sequence_;
  std::int64_t gathers_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_local_transports(int size) {
  auto hub = std::make_shared<Hub>(size);
  std::vector<std::unique_ptr<Transport>> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(std::make_unique<LocalTransport>(hub, rank));
  return all;
}

}  // namespace panpipe::exec

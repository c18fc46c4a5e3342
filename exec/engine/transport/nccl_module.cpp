// The transport over NCCL, in a module of its own (panpipe_nccl.so) because it needs CUDA's symbols.
//
// NCCL matches sends and receives by their order alone. So a message is announced over Gloo, in the order in which the sender
// calls NCCL, and the receiver's background thread makes room for it and calls NCCL in the same order. Each direction of each
// pair has a communicator (and thereby a stream) of its own: two ranks that send to each other at once do not block each other.
// Everything that is not on a GPU goes the way of Gloo.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "costmodel/base/error.hpp"
#include "exec/engine/transport/device_order.hpp"
#include "exec/engine/transport/gloo.hpp"

namespace panpipe::exec {
namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using NcclPtr = c10::intrusive_ptr<c10d::ProcessGroupNCCL>;

// On the GPU things are done in the order of streams: wait() returns when the current stream will see the result.
struct OnStream : Pending {
  WorkPtr work;
  at::Tensor kept;
  bool done() override { return work->isCompleted(); }
  void wait(Clock::duration, const std::string&) override { work->wait(); }
};

struct Nothing : Pending {
  bool done() override { return true; }
  void wait(Clock::duration, const std::string&) override {}
};

class NcclTransport : public GlooTransport {
 public:
  explicit NcclTransport(const ProcessOptions& options) : GlooTransport(options), device_(options.world.local_rank) {
    c10::cuda::set_device(device_);
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank()) takers_.emplace_back([this, peer] { take_from(peer); });
  }
  ~NcclTransport() override {
    closing_ = true;
    for (std::thread& taker : takers_) taker.join();
  }
  const char* name() const override { return "nccl"; }

  PendingPtr send(at::Tensor value, int to, std::uint32_t tag) override {
    if (!value.is_cuda()) return GlooTransport::send(std::move(value), to, tag);
    auto pending = std::make_shared<OnStream>();
    pending->kept = value.detach().contiguous();
    std::vector<std::int64_t> words{tag, static_cast<std::int64_t>(value.scalar_type())};
    words.insert(words.end(), value.sizes().begin(), value.sizes().end());
    announce(at::tensor(words, at::kLong), to, sent_[to]++);
    if (value.numel() == 0) return std::make_shared<Nothing>();
    std::vector<at::Tensor> tensors{pending->kept};
    pending->work = pair(rank(), to)->send(tensors, 1, 0);
    return pending;
  }

  PendingPtr receive(const TensorSpec& expected, int from, std::uint32_t tag) override;

  PendingPtr all_reduce(at::Tensor value, const Group& group) override {
    if (!value.is_cuda() || value.scalar_type() == at::kShort) return GlooTransport::all_reduce(std::move(value), group);
    if (value.numel() == 0) return std::make_shared<Nothing>();
    return collective(std::move(value), [&](std::vector<at::Tensor>& tensors) { return members(group)->allreduce(tensors); });
  }

  PendingPtr broadcast(at::Tensor value, int root, const Group& group) override {
    if (!value.is_cuda()) return GlooTransport::broadcast(std::move(value), root, group);
    if (value.numel() == 0) return std::make_shared<Nothing>();
    c10d::BroadcastOptions options;
    options.rootRank = std::find(group.ranks.begin(), group.ranks.end(), root) - group.ranks.begin();
    return collective(std::move(value),
                      [&](std::vector<at::Tensor>& tensors) { return members(group)->broadcast(tensors, options); });
  }

  // The work that fills a tensor which has been put into the mailbox; called once per message.
  WorkPtr work_of(const Mailbox::Key& key) {
    const std::lock_guard hold(lock_);
    auto& works = arriving_.at(key);
    WorkPtr work = works.front();
    works.pop_front();
    if (works.empty()) arriving_.erase(key);
    return work;
  }

 private:
  template <class Call>
  PendingPtr collective(at::Tensor value, Call call) {
    struct Copied : OnStream {
      at::Tensor wanted;
      void wait(Clock::duration deadline, const std::string& what) override {
        OnStream::wait(deadline, what);
        const at::NoGradGuard no_graph;
        if (wanted.defined()) wanted.copy_(kept);
        wanted.reset();
      }
    };
    auto pending = std::make_shared<Copied>();
    pending->kept = value.detach().contiguous();
    if (!pending->kept.is_same(value) && pending->kept.data_ptr() != value.data_ptr()) pending->wanted = value.detach();
    std::vector<at::Tensor> tensors{pending->kept};
    pending->work = call(tensors);
    return pending;
  }

  NcclPtr make_pair_or_group(const std::string& name, int place, int count) {
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = std::chrono::hours(24 * 365);  // who gives up, and when, is the watch's matter
    return c10::make_intrusive<c10d::ProcessGroupNCCL>(c10::make_intrusive<c10d::PrefixStore>(name, store()), place, count,
                                                       options);
  }
  // The communicator of one direction; the sender is its rank 0.
  NcclPtr pair(int from, int to) {
    const std::lock_guard hold(lock_);
    NcclPtr& group = pairs_[{from, to}];
    if (!group) group = make_pair_or_group(fmt::format("nccl-{}-to-{}", from, to), rank() == from ? 0 : 1, 2);
    return group;
  }
  NcclPtr members(const Group& asked) {
    NcclPtr& group = groups_[asked.id];
    if (!group) {
      meet_members(asked.ranks);
      const auto mine = std::find(asked.ranks.begin(), asked.ranks.end(), rank());
      group = make_pair_or_group(fmt::format("nccl-group-{}", fmt::join(asked.ranks, "-")),
                                 static_cast<int>(mine - asked.ranks.begin()), static_cast<int>(asked.ranks.size()));
    }
    return group;
  }

  // One thread per peer: room for what is announced, then NCCL, in the order of the announcements.
  void take_from(int peer) {
    try {
      c10::cuda::set_device(device_);
      for (std::uint32_t turn = 0;; ++turn) {
        const auto words = mailbox().take_unless({peer, Channel::Announced, turn}, closing_);
        if (!words) return;
        const auto* word = words->data_ptr<std::int64_t>();
        const at::IntArrayRef shape(word + 2, static_cast<std::size_t>(words->numel() - 2));
        const at::Tensor value =
            at::empty(shape, at::TensorOptions(static_cast<at::ScalarType>(word[1])).device(at::kCUDA, device_));
        const Mailbox::Key key{peer, Channel::Device, static_cast<std::uint32_t>(word[0])};
        WorkPtr work;
        if (value.numel() > 0) {
          std::vector<at::Tensor> tensors{value};
          work = pair(peer, rank())->recv(tensors, 0, 0);
        }
        {
          const std::lock_guard hold(lock_);
          arriving_[key].push_back(work);
        }
        mailbox().put(key, value);
      }
    } catch (const std::exception& error) {
      mailbox().broken(peer, error.what());
    }
  }

  c10::DeviceIndex device_;
  std::mutex lock_;
  std::map<std::pair<int, int>, NcclPtr> pairs_;
  std::map<int, NcclPtr> groups_;
  std::map<int, std::uint32_t> sent_;
  std::map<Mailbox::Key, std::deque<WorkPtr>> arriving_;
  std::atomic<bool> closing_{false};
  std::vector<std::thread> takers_;
};

struct ArrivingOnDevice : Pending {
  NcclTransport* transport = nullptr;
  TensorSpec expected;
  Mailbox::Key key;
  bool taken = false;
  bool done() override { return taken || transport->mailbox().has(key); }
  void wait(Clock::duration deadline, const std::string& what) override {
    if (taken) return;
    value = transport->mailbox().take(key, transport->watch(), deadline, what).value;
    if (const WorkPtr work = transport->work_of(key)) {
      work->wait();
      c10::cuda::CUDACachingAllocator::recordStream(value.storage().data_ptr(), c10::cuda::getCurrentCUDAStream());
    }
    check_arrived(expected, value, std::get<0>(key), what);
    taken = true;
  }
};

PendingPtr NcclTransport::receive(const TensorSpec& expected, int from, std::uint32_t tag) {
  if (!expected.device.is_cuda()) return GlooTransport::receive(expected, from, tag);
  auto pending = std::make_shared<ArrivingOnDevice>();
  pending->transport = this;
  pending->expected = expected;
  pending->key = {from, Channel::Device, tag};
  return pending;
}

}  // namespace
}  // namespace panpipe::exec

extern "C" panpipe::exec::Transport* panpipe_make_nccl_transport(const panpipe::exec::ProcessOptions& options) {
  const int gpus = c10::cuda::device_count();
  if (options.world.local_rank >= gpus)
    throw panpipe::MachineError(
        fmt::format("--transport nccl needs a GPU for every rank: rank {} is number {} on this host, which has {}",
                    options.world.rank, options.world.local_rank + 1, gpus));
  return new panpipe::exec::NcclTransport(options);
}

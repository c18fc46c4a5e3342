// The transport over NCCL, in a module of its own (panpipe_nccl.so) because it needs CUDA's symbols.
//
// NCCL matches sends and receives by their order alone. So a message is announced over Gloo, in the order in which the sender
// calls NCCL, and the receiver's background thread makes room for it and calls NCCL in the same order. Each direction of each
// pair has a communicator (and thereby a stream) of its own: two ranks that send to each other at once do not block each other.
// Everything that is not on a GPU is sent over Gloo.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <numeric>
#include <thread>

#include "base/error.hpp"
#include "exec/engine/transport/device_ledger.hpp"
#include "exec/engine/transport/gloo.hpp"
#include "exec/engine/transport/nccl_communicators.hpp"
#include "exec/launch/visible_gpus.hpp"

namespace panpipe::exec {
namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

constexpr std::uint32_t kFirstTag = 0xFFFFFE00U;  // of connect(); far from the tags of a step's messages

// On the GPU things are done in the order of streams: wait() returns when the current stream will see the result.
struct OnStream : Pending {
  WorkPtr work;
  at::Tensor kept;
  at::Tensor wanted;   // gets the values of `kept` afterwards, if it is another tensor
  at::Tensor arrived;  // the value afterwards, of a message or an exchange of rows
  DeviceLedger* ledger = nullptr;
  DeviceLedger::OperationPtr noted;
  bool done() override { return work->isCompleted(); }
  void wait(Clock::duration, const std::string&) override {
    if (value.defined()) return;
    ledger->about_to_wait(noted);
    work->wait();
    landed = noted->landed;
    const at::NoGradGuard no_graph;
    if (const at::Tensor to = std::exchange(wanted, {}); to.defined()) to.copy_(kept);
    value = std::move(arrived);
  }
};

// A message into memory of this rank's GPU.
struct ArrivingOnDevice : OnStream {
  void wait(Clock::duration deadline, const std::string& what) override {
    OnStream::wait(deadline, what);
    c10::cuda::CUDACachingAllocator::recordStream(value.storage().data_ptr(), c10::cuda::getCurrentCUDAStream());
  }
};

std::string fault_of(const WorkPtr& work) {
  if (!work->isCompleted() || !work->exception()) return "";
  try {
    std::rethrow_exception(work->exception());
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return text.substr(0, text.find('\n'));
  }
}

class NcclTransport : public GlooTransport {
 public:
  explicit NcclTransport(const ProcessOptions& options)
      : GlooTransport(options),
        device_(static_cast<c10::DeviceIndex>(gpu_of_rank(local_rank(), c10::cuda::device_count()))),
        communicators_(rank(), [this] { return store(); }) {
    c10::cuda::set_device(device_);
    check_own_gpu(*this, device_, options.deadline);
    ledger_ = std::make_unique<DeviceLedger>(at::Device(at::kCUDA, device_), watch(), options.deadline,
                                             [this](const std::string& why) { abort(why); });
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank()) takers_.emplace_back([this, peer] { take_from(peer); });
  }
  ~NcclTransport() override {
    closing_ = true;
    for (std::thread& taker : takers_) taker.join();
    mailbox_->clear();  // of a run that failed: operations of the communicators, which go with this class
    ledger_.reset();
  }
  const char* name() const override { return "nccl"; }

  PendingPtr send(at::Tensor value, int to, std::uint32_t tag) override {
    if (!value.is_cuda()) return GlooTransport::send(std::move(value), to, tag);
    auto pending = std::make_shared<OnStream>();
    pending->kept = value.detach().contiguous();
    std::vector<std::int64_t> words{tag, static_cast<std::int64_t>(value.scalar_type())};
    words.insert(words.end(), value.sizes().begin(), value.sizes().end());
    post(at::tensor(words, at::kLong), to, Channel::Announced, sent_[to]++);
    if (value.numel() == 0) return std::make_shared<Nothing>();
    std::vector<at::Tensor> tensors{as_bytes(pending->kept)};
    give(*pending,
         {fmt::format("{}>{}", rank(), to), 2, fmt::format("rank {} is stuck: its message to rank {} at {}", rank(), to, action_),
          fmt::format("rank {} to take a message", to)},
         [&] { return communicators_.of_pair(rank(), to)->send(tensors, 1, 0); });
    return pending;
  }

  PendingPtr receive(const TensorSpec& expected, int from, std::uint32_t tag) override {
    return take(expected, {from, expected.device.is_cuda() ? Channel::Device : Channel::User, tag});
  }

  PendingPtr all_reduce(at::Tensor value, const Group& group) override {
    if (!takes(value) || !nccl_sums(value.scalar_type())) return GlooTransport::all_reduce(std::move(value), group);
    return collective(std::move(value), group, "sum",
                      [&](std::vector<at::Tensor>& tensors) { return members(group)->allreduce(tensors); });
  }

  PendingPtr broadcast(at::Tensor value, int root, const Group& group) override {
    if (!takes(value)) return GlooTransport::broadcast(std::move(value), root, group);
    c10d::BroadcastOptions options;
    options.rootRank = static_cast<std::int64_t>(member_of(group, root));
    return collective(std::move(value), group, "broadcast", [&](std::vector<at::Tensor>& tensors) {
      std::vector<at::Tensor> bytes{as_bytes(tensors.front())};
      return members(group)->broadcast(bytes, options);
    });
  }

  using GlooTransport::all_gather;
  PendingPtr all_gather(at::Tensor whole, const Group& group) override {
    if (!takes(whole)) return GlooTransport::all_gather(std::move(whole), group);
    return collective(std::move(whole), group, "gathering", [&](std::vector<at::Tensor>& tensors) {
      at::Tensor bytes = as_bytes(tensors.front());
      at::Tensor own = part_of(bytes, member_of(group, rank()), group.ranks.size());
      return members(group)->_allgather_base(bytes, own);  // in place: NCCL takes the own part where it belongs
    });
  }

  PendingPtr reduce_scatter(at::Tensor whole, const Group& group) override {
    if (!takes(whole) || !nccl_sums(whole.scalar_type())) return GlooTransport::reduce_scatter(std::move(whole), group);
    return collective(std::move(whole), group, "sum of parts", [&](std::vector<at::Tensor>& tensors) {
      at::Tensor own = part_of(tensors.front(), member_of(group, rank()), group.ranks.size());
      return members(group)->_reduce_scatter_base(own, tensors.front());
    });
  }

  PendingPtr all_to_all(at::Tensor rows, const std::vector<std::int64_t>& sent, const std::vector<std::int64_t>& received,
                        const Group& group) override {
    if (!rows.is_cuda()) return GlooTransport::all_to_all(std::move(rows), sent, received, group);
    auto pending = std::make_shared<OnStream>();
    pending->kept = rows.detach().contiguous();
    std::vector<std::int64_t> shape = rows.sizes().vec();
    shape[0] = std::accumulate(received.begin(), received.end(), std::int64_t{0});
    pending->arrived = at::empty(shape, rows.options());
    // c10d splits along the first dimension: into rows of so many bytes.
    const std::int64_t width =
        std::accumulate(shape.begin() + 1, shape.end(), static_cast<std::int64_t>(rows.element_size()), std::multiplies<>());
    at::Tensor from = as_bytes(pending->kept).view({rows.size(0), width});
    at::Tensor to = as_bytes(pending->arrived).view({shape[0], width});
    std::vector<std::int64_t> give_rows = sent, take_rows = received;
    give(*pending, operation_of(group, "exchange"),
         [&] { return members(group)->alltoall_base(to, from, take_rows, give_rows); });
    return pending;
  }

  Group make_group(const std::vector<int>& ranks) override {
    Group group = GlooTransport::make_group(ranks);
    made_[group.id] = group;
    return group;
  }

  void connect(const std::vector<std::pair<int, int>>& ways, at::Device device, Clock::duration deadline) override {
    if (!device.is_cuda()) return;
    const std::string what = "connecting the GPUs";
    const at::Tensor word = at::zeros({1}, at::TensorOptions(at::kFloat).device(device));
    std::vector<PendingPtr> pending;
    for (const auto& [from, to] : ways)
      if (to == rank()) pending.push_back(receive({{1}, at::kFloat, device}, from, kFirstTag));
    for (const auto& [from, to] : ways)
      if (from == rank()) pending.push_back(send(word, to, kFirstTag));
    for (const PendingPtr& one : pending) one->wait(deadline, what);
    for (const auto& [id, group] : made_)
      if (std::find(group.ranks.begin(), group.ranks.end(), rank()) != group.ranks.end())
        all_reduce(at::zeros_like(word), group)->wait(deadline, what);
    settle(device, deadline, what);
    barrier(deadline, what);
  }

 private:
  bool device_waits() override { return ledger_->device_waits(); }

  // Collectives of the others are Gloo's, which does nothing for an empty one.
  static bool takes(const at::Tensor& value) { return value.is_cuda() && value.numel() > 0; }

  // Calls NCCL, and enters it into the ledger. When an operation is done is seen from a stream that does nothing else, one per
  // communicator: nothing of the rank's own work delays the mark.
  template <class Call>
  void give(OnStream& pending, DeviceLedger::Operation operation, Call call) {
    operation.ready = DeviceMark::on({at::kCUDA, device_});
    pending.work = call();
    {
      const c10::cuda::CUDAStreamGuard guard(marks_of(operation.channel));
      pending.work->wait();
      operation.landed = DeviceMark::on({at::kCUDA, device_});
    }
    operation.fault = [work = pending.work] { return fault_of(work); };
    pending.ledger = ledger_.get();
    pending.noted = ledger_->add(std::move(operation));
  }
  c10::cuda::CUDAStream marks_of(const std::string& channel) {
    // Neither of the pool that ranks compute on nor of NCCL's.
    constexpr int kPriority = -1;
    const std::lock_guard hold(lock_);
    return marks_.try_emplace(channel, c10::cuda::getStreamFromPool(kPriority, device_)).first->second;
  }

  template <class Call>
  PendingPtr collective(at::Tensor value, const Group& group, const char* kind, Call call) {
    auto pending = std::make_shared<OnStream>();
    pending->kept = value.detach().contiguous();
    if (!pending->kept.is_same(value) && pending->kept.data_ptr() != value.data_ptr()) pending->wanted = value.detach();
    std::vector<at::Tensor> tensors{pending->kept};
    give(*pending, operation_of(group, kind), [&] { return call(tensors); });
    return pending;
  }
  DeviceLedger::Operation operation_of(const Group& group, const char* kind) const {
    const std::string ranks = fmt::format("{}", fmt::join(group.ranks, ", "));
    return {
        fmt::format("group {}", group.id), static_cast<int>(group.ranks.size()),
        rank() == group.ranks.front() ? fmt::format("ranks {} are stuck: their {} at {}", ranks, kind, action_) : std::string(),
        fmt::format("the {} over ranks {}", kind, ranks)};
  }

  NcclPtr members(const Group& group) {
    if (!communicators_.has(group)) await_members(group.ranks);
    return communicators_.of_group(group);
  }

  // One thread per peer: room for what is announced, then NCCL, in the order of the announcements.
  void take_from(int peer) {
    try {
      c10::cuda::set_device(device_);
      for (std::uint32_t turn = 0;; ++turn) {
        const auto words = mailbox_->take_unless({peer, Channel::Announced, turn}, closing_);
        if (!words) return;
        if (words->scalar_type() != at::kLong || words->numel() < 2)
          throw MachineError("an announcement came that is not one of this version of panpipe");
        const auto* word = words->data_ptr<std::int64_t>();
        const at::IntArrayRef shape(word + 2, static_cast<std::size_t>(words->numel() - 2));
        const at::Tensor value =
            at::empty(shape, at::TensorOptions(static_cast<at::ScalarType>(word[1])).device(at::kCUDA, device_));
        std::shared_ptr<ArrivingOnDevice> work;
        if (value.numel() > 0) {
          std::vector<at::Tensor> tensors{lent_bytes(value)};
          work = std::make_shared<ArrivingOnDevice>();
          work->arrived = value;
          give(*work, {fmt::format("{}>{}", peer, rank()), 2, "", fmt::format("a message from rank {}", peer)},
               [&] { return communicators_.of_pair(peer, rank())->recv(tensors, 0, 0); });
        }
        mailbox_->put({peer, Channel::Device, static_cast<std::uint32_t>(word[0])}, {value, {}, work});
      }
    } catch (const std::exception& error) {
      mailbox_->broken(peer, error.what());
    }
  }

  c10::DeviceIndex device_;
  std::mutex lock_;
  NcclCommunicators communicators_;
  std::map<int, Group> made_;  // by id: in the order in which all ranks made them
  std::map<int, std::uint32_t> sent_;
  std::map<std::string, c10::cuda::CUDAStream> marks_;  // by channel
  std::unique_ptr<DeviceLedger> ledger_;
  std::atomic<bool> closing_{false};
  std::vector<std::thread> takers_;
};

}  // namespace
}  // namespace panpipe::exec

extern "C" panpipe::exec::Transport* panpipe_make_nccl_transport(const panpipe::exec::ProcessOptions& options) {
  if (c10::cuda::device_count() == 0)
    throw panpipe::MachineError("--transport nccl needs an NVIDIA GPU for every rank, and this process sees none");
  panpipe::exec::check_nccl();
  // The run's own watch reports who is lost, and ends the processes; c10d's would end them before that, with pages of its state.
  for (const char* own : {"TORCH_NCCL_ENABLE_MONITORING", "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_ASYNC_ERROR_HANDLING"})
    setenv(own, "0", 0);
  return new panpipe::exec::NcclTransport(options);
}

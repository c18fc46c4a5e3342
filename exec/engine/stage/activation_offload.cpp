#include "exec/engine/stage/activation_offload.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "exec/engine/stage/copy_stream.hpp"

namespace panpipe::exec {
namespace {

thread_local SavingAnswers* answering = nullptr;

// Autograd asks its engine how saved tensors are packed: this one passes the question on, and is LibTorch's engine in everything
// else.
struct ParkingEngine : torch::autograd::Engine {
  SavingHooks get_default_saved_variable_hooks() override { return saving_hooks(); }
  // Lives as long as the process: its threads may outlast everything else.
  static torch::autograd::Engine& the() {
    static ParkingEngine* const engine = new ParkingEngine;
    return *engine;
  }
};

template <class Work>
CopyNote copied(at::Device device, const std::optional<c10::Stream>& copies, Work work) {
  const at::NoGradGuard no_graph;
  std::optional<OnCopyStream> on_copies;
  if (copies) on_copies.emplace(device, *copies);
  CopyNote note{.start = moment_on(copies)};
  work(note);
  note.end = moment_on(copies);
  return note;
}

}  // namespace

torch::autograd::Engine& autograd_engine() {
  static torch::autograd::Engine& engine = []() -> torch::autograd::Engine& {
    torch::autograd::set_default_engine_stub(&ParkingEngine::the);
    return ParkingEngine::the();
  }();
  return engine;
}

SavingHooks hooks_of(const SavingAnswers* answers) {
  return answers == nullptr || !answers->asks_ ? nullptr : answers->asks_(hooks_of(answers->before_));
}
SavingHooks saving_hooks() { return hooks_of(answering); }

SavingAnswers::SavingAnswers(Asks asks) : asks_(std::move(asks)), before_(std::exchange(answering, this)) {
  autograd_engine();  // asked how to save before any backward
}
SavingAnswers::~SavingAnswers() { answering = before_; }

// Outlives the owner as long as autograd may come back for something.
struct ParkedActivations::Shelf {
  // One tensor that autograd saved.
  struct Saved {
    at::Tensor tensor;  // undefined while it is away
  };
  struct Hooks;
  // A piece of memory that is away, with the tensors that lie in it.
  struct Moved {
    at::Tensor host;  // its bytes
    struct View {
      std::weak_ptr<Saved> saved;
      at::TensorOptions options;
      std::vector<std::int64_t> sizes, strides;
      std::int64_t offset;
    };
    std::vector<View> views;
  };

  at::Device device;
  std::optional<c10::Stream> copies;  // on a GPU
  std::vector<std::weak_ptr<Saved>> saved{};
  std::vector<Moved> away{};
  std::optional<c10::Event> back{};  // of the last reload: computation waits for it once

  CopyNote offload();
  CopyNote reload();
  void move_out(std::vector<std::shared_ptr<Saved>> tensors, CopyNote& note);
};

struct ParkedActivations::Shelf::Hooks : torch::autograd::SavedVariableHooks {
  explicit Hooks(std::shared_ptr<Shelf> to) : shelf(std::move(to)) {}
  void call_pack_hook(const at::Tensor& tensor) override {
    saved->tensor = tensor.detach();
    shelf->saved.push_back(saved);
  }
  at::Tensor call_unpack_hook() override {
    if (!saved->tensor.defined()) shelf->reload();
    if (shelf->copies) {
      const auto guard = guard_of(shelf->device);
      const c10::Stream computing = guard.getStream(shelf->device);
      if (shelf->back) shelf->back->block(computing);
      guard.recordDataPtrOnStream(saved->tensor.storage().data_ptr(), computing);
    }
    return saved->tensor;
  }
  std::shared_ptr<Shelf> shelf;
  std::shared_ptr<Saved> saved = std::make_shared<Saved>();
};

void ParkedActivations::Shelf::move_out(std::vector<std::shared_ptr<Saved>> tensors, CopyNote& note) {
  const c10::Storage storage = tensors.front()->tensor.storage();
  const auto bytes = static_cast<std::int64_t>(storage.nbytes());
  Moved moved;
  at::Tensor flat = at::empty({0}, at::TensorOptions().dtype(at::kByte).device(device));
  flat.set_(storage, 0, {bytes}, {1});
  moved.host = at::empty({bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(!device.is_cpu()));
  moved.host.copy_(flat, /*non_blocking=*/true);
  // The memory may be used again only when the copy is done.
  if (copies) guard_of(device).recordDataPtrOnStream(storage.data_ptr(), *copies);
  for (const auto& one : tensors) {
    const at::Tensor& tensor = one->tensor;
    moved.views.push_back({one, tensor.options(), tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset()});
    one->tensor = at::Tensor();
  }
  away.push_back(std::move(moved));
  note.bytes += bytes;
}

CopyNote ParkedActivations::Shelf::offload() {
  std::map<const c10::StorageImpl*, std::vector<std::shared_ptr<Saved>>> by_memory;
  for (const auto& weak : saved)
    if (auto one = weak.lock(); one && one->tensor.defined() && one->tensor.has_storage())
      by_memory[one->tensor.storage().unsafeGetStorageImpl()].push_back(std::move(one));
  return copied(device, copies, [&](CopyNote& note) {
    for (auto& [memory, tensors] : by_memory)
      if (tensors.front()->tensor.storage().use_count() == tensors.size() && memory->nbytes() > 0)
        move_out(std::move(tensors), note);
  });
}

CopyNote ParkedActivations::Shelf::reload() {
  if (const SpanLog::Moment now{Clock::now(), {}}; away.empty()) return {0, now, now};
  return copied(device, copies, [&](CopyNote& note) {
    for (Moved& moved : std::exchange(away, {})) {
      const at::Tensor flat = at::empty(moved.host.sizes(), at::TensorOptions().dtype(at::kByte).device(device));
      flat.copy_(moved.host, /*non_blocking=*/true);
      note.bytes += static_cast<std::int64_t>(moved.host.nbytes());
      for (const Moved::View& view : moved.views) {
        const auto one = view.saved.lock();
        if (!one) continue;
        one->tensor = at::empty({0}, view.options);
        one->tensor.set_(flat.storage(), view.offset, view.sizes, view.strides);
      }
    }
    if (copies) back = timed(*copies);
  });
}

ParkedActivations::ParkedActivations(at::Device device) : shelf_(std::make_shared<Shelf>(Shelf{device, {}})) {
  if (!device.is_cpu()) shelf_->copies.emplace(guard_of(device).getStreamFromGlobalPool(device));
}

ParkedActivations::Capture::Capture(const ParkedActivations* owner)
    : SavingAnswers(owner == nullptr ? Asks() : [shelf = owner->shelf_](const SavingHooks&) -> SavingHooks {
        return std::make_unique<Shelf::Hooks>(shelf);
      }) {}

CopyNote ParkedActivations::offload() { return shelf_->offload(); }
CopyNote ParkedActivations::reload() { return shelf_->reload(); }

}  // namespace panpipe::exec

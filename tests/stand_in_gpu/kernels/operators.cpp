#include "tests/stand_in_gpu/kernels/operators.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/stand_in_gpu/cuda/work.hpp"
#include "tests/stand_in_gpu/kernels/draws.hpp"
#include "tests/stand_in_gpu/kernels/host_views.hpp"
#include "tests/stand_in_gpu/settings.hpp"

namespace panpipe::stand_in {
namespace {

using Stack = torch::jit::Stack;

// A thread that runs kernels: no autograd, no graph.
struct KernelGuard {
  at::AutoDispatchBelowADInplaceOrView below;
  c10::NoGradGuard no_graph;
};

void call_on(const c10::OperatorHandle& op, c10::DispatchKey key, Stack& stack) {
  op.redispatchBoxed(c10::DispatchKeySet(key), &stack);
}

// One call of an operator: what it was given, and which of its results are arguments that it writes into.
class Call {
 public:
  Call(const c10::OperatorHandle& op, Stack given)
      : op_(op), given_(std::move(given)), device_(find_device()), draws_(op, given_, device_) {
    find_written();
  }

  c10::cuda::CUDAStream stream() const { return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device_)); }
  std::string name() const { return op_.schema().name(); }

  // Pushes results that are filled later; false where that cannot be.
  bool enqueue(Stack& results) {
    if (!can_wait() || !make_results()) return false;
    Stack arguments = mapped(on_host, c10::kCPU);
    std::vector<std::vector<at::Tensor>> into;
    for (const c10::IValue& result : made_) {
      into.emplace_back();
      for (const at::Tensor& tensor : tensors_in(result)) into.back().push_back(on_host(tensor));
    }
    const int slower = slower_by_ms(name());
    enqueue_on(stream(), [op = op_, draws = draws_, arguments, into, written = written_, slower]() mutable {
      std::this_thread::sleep_for(std::chrono::milliseconds(slower));
      const KernelGuard guard;
      try {
        draws.during(arguments, [&] { call_on(op, c10::DispatchKey::CPU, arguments); });
        for (std::size_t i = 0; i < into.size(); ++i)
          if (written[i] < 0) fill(into[i], tensors_in(arguments[i]), op);
      } catch (const std::exception& error) {
        stand_in_break((op.schema().name() + " failed: " + error.what()).c_str());
      }
    });
    for (std::size_t i = 0; i < made_.size(); ++i) results.push_back(written_[i] < 0 ? made_[i] : given_[as_size(written_[i])]);
    return true;
  }

  // Waits for the stream, and computes at once.
  void run_now(Stack& results) {
    stand_in_count("waiting_kernels");
    stand_in_drain(device_, stream().stream());
    Stack values = mapped(on_host, c10::kCPU);
    draws_.during(values, [&] { call_on(op_, c10::DispatchKey::CPU, values); });
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (written_[i] < 0) {
        results.push_back(on_device(values[i]));
        continue;
      }
      const c10::IValue& argument = given_[as_size(written_[i])];
      if (argument.isTensor() && values[i].isTensor() && argument.toTensor().sizes() != values[i].toTensor().sizes()) {
        const at::Tensor grown = argument.toTensor();
        grown.resize_(values[i].toTensor().sizes());
        write_now(grown, values[i].toTensor());
      }
      results.push_back(argument);
    }
  }

 private:
  static std::size_t as_size(int index) { return static_cast<std::size_t>(index); }

  Stack mapped(TensorMap map, c10::DeviceType device) const {
    Stack values;
    for (const c10::IValue& value : given_) values.push_back(map_tensors(value, map, device));
    return values;
  }

  int find_device() const {
    for (const c10::IValue& value : given_) {
      for (const at::Tensor& tensor : tensors_in(value))
        if (tensor.defined() && tensor.is_cuda()) return tensor.device().index();
      if (value.isDevice() && value.toDevice().is_cuda() && value.toDevice().has_index()) return value.toDevice().index();
    }
    return c10::cuda::current_device();
  }

  void find_written() {
    for (const c10::Argument& result : op_.schema().returns()) {
      int found = -1;
      const auto* alias = result.alias_info();
      for (std::size_t a = 0; alias && alias->isWrite() && a < given_.size(); ++a) {
        const auto* argument = op_.schema().arguments()[a].alias_info();
        if (argument && argument->isWrite() && argument->beforeSets() == alias->beforeSets()) found = static_cast<int>(a);
      }
      written_.push_back(found);
    }
  }

  // In stream order: the memory may have had another owner, whose work is not done yet.
  void write_now(const at::Tensor& to, const at::Tensor& values) const {
    if (to.numel() == 0) return;
    enqueue_on(stream(), [to = on_host(to), values]() mutable {
      const KernelGuard guard;
      to.copy_(values);
    });
    stand_in_drain(device_, stream().stream());
  }

  // A kernel must not read what the host may change meanwhile, and numbers are wanted at once.
  bool can_wait() const {
    for (const c10::IValue& value : given_)
      for (const at::Tensor& tensor : tensors_in(value))
        if (tensor.defined() && tensor.is_cpu() && tensor.numel() > 1) return false;
    for (std::size_t i = 0; i < written_.size(); ++i) {
      const auto kind = op_.schema().returns()[i].type()->kind();
      if (written_[i] < 0 && kind != c10::TypeKind::TensorType && kind != c10::TypeKind::ListType) return false;
    }
    return true;
  }

  // An empty output is made as large as what is written into it.
  bool may_grow(std::size_t result) const {
    return written_[result] >= 0 && given_[as_size(written_[result])].isTensor() &&
           given_[as_size(written_[result])].toTensor().numel() == 0;
  }

  // Memory for the results, of the shapes that the operator's meta kernel gives; where it has none, those of the CPU's on zeros.
  bool make_results() {
    made_.assign(written_.size(), c10::IValue());
    bool known = true;
    for (std::size_t i = 0; i < written_.size(); ++i) known = known && written_[i] >= 0 && !may_grow(i);
    if (known) return true;
    for (const bool of_meta : {true, false}) {
      try {
        Stack shapes = of_meta ? mapped(as_meta, c10::kMeta) : mapped(zeros_on_host, c10::kCPU);
        if (of_meta)
          call_on(op_, c10::DispatchKey::Meta, shapes);
        else
          draws_.during(shapes, [&] { call_on(op_, c10::DispatchKey::CPU, shapes); });
        for (std::size_t i = 0; i < shapes.size(); ++i) {
          if (written_[i] < 0)
            made_[i] = room_for(shapes[i]);
          else if (may_grow(i))
            given_[as_size(written_[i])].toTensor().resize_(shapes[i].toTensor().sizes());
        }
        return true;
      } catch (const std::exception&) {
      }
    }
    return false;
  }

  at::Tensor room_for(const at::Tensor& shape) const {
    if (!shape.defined()) return shape;
    return at::empty_strided(shape.sizes(), shape.strides(),
                             shape.options().device(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device_))));
  }
  c10::IValue room_for(const c10::IValue& value) const {
    if (value.isTensor()) return room_for(value.toTensor());
    c10::List<at::Tensor> all;
    for (const at::Tensor& tensor : value.toTensorList()) all.push_back(room_for(tensor));
    return all;
  }

  static void fill(std::vector<at::Tensor>& into, const std::vector<at::Tensor>& values, const c10::OperatorHandle& op) {
    for (std::size_t i = 0; i < into.size(); ++i) {
      // A result that the CPU leaves empty is one that nobody reads: statistics of a batch norm in evaluation.
      if (!into[i].defined() || into[i].numel() == 0 || values.at(i).numel() == 0) continue;
      TORCH_CHECK(into[i].sizes() == values.at(i).sizes(), op.schema().name(),
                  " has another shape on the CPU than in LibTorch's meta kernel");
      into[i].copy_(values[i]);
    }
  }

  c10::IValue on_device(const c10::IValue& value) const {
    const auto moved = [this](const at::Tensor& tensor) {
      at::Tensor result = room_for(tensor);
      if (tensor.defined()) write_now(result, tensor);
      return result;
    };
    if (value.isTensor()) return moved(value.toTensor());
    if (!value.isTensorList()) return value;
    c10::List<at::Tensor> all;
    for (const at::Tensor& tensor : value.toTensorList()) all.push_back(moved(tensor));
    return all;
  }

  const c10::OperatorHandle op_;
  Stack given_;
  const int device_;
  const Draws draws_;
  std::vector<int> written_;       // by result: the argument that it is, -1 where it is new
  std::vector<c10::IValue> made_;  // by result: its room, where it is new
};

}  // namespace

void enqueue_on(const c10::cuda::CUDAStream& stream, std::function<void()> work) {
  enqueue(stream.device_index(), stream.stream(), std::move(work));
}

void run_operator(const c10::OperatorHandle& op, Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView below;
  stand_in_count("kernels");
  const auto first = stack->end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  Call call(op, Stack(first, stack->end()));
  stack->erase(first, stack->end());
  if (!call.enqueue(*stack)) call.run_now(*stack);
}

}  // namespace panpipe::stand_in

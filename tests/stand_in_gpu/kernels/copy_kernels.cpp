#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include "tests/stand_in_gpu/cuda/work.hpp"
#include "tests/stand_in_gpu/kernels/host_views.hpp"
#include "tests/stand_in_gpu/kernels/operators.hpp"

namespace panpipe::stand_in {
namespace {

void enqueue_copy(const c10::cuda::CUDAStream& stream, const at::Tensor& to, const at::Tensor& from) {
  // A tensor of the host is kept until the copy is done; memory of a device is its owner's matter.
  const auto same_bytes = [](const at::Tensor& tensor) { return tensor.is_cuda() ? on_host(tensor) : tensor; };
  enqueue_on(stream, [to = same_bytes(to), from = same_bytes(from)]() mutable {
    const at::AutoDispatchBelowADInplaceOrView below;
    const c10::NoGradGuard no_graph;
    to.copy_(from);
  });
}

// `stream` goes on when everything that is on `other` now is done. A stream is named together with its current device: the
// default streams of all devices have one handle.
void wait_for(const c10::cuda::CUDAStream& stream, const c10::cuda::CUDAStream& other) {
  c10::cuda::CUDAGuard guard(other.device_index());
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  cudaEventRecord(event, other.stream());
  guard.set_index(stream.device_index());
  cudaStreamWaitEvent(stream.stream(), event, 0);
  cudaEventDestroy(event);
}

}  // namespace

at::Tensor& copy_tensor(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  if (to.numel() == 0) return to;
  stand_in_count("copies");
  if (to.is_cuda() && from.is_cuda()) {
    // As LibTorch copies between devices: on the source's current stream, and the target's current stream waits on both sides.
    const auto on = c10::cuda::getCurrentCUDAStream(from.device().index());
    const auto target = c10::cuda::getCurrentCUDAStream(to.device().index());
    if (to.device() != from.device()) wait_for(on, target);
    enqueue_copy(on, to, from);
    if (to.device() != from.device()) wait_for(target, on);
    return to;
  }
  const at::Tensor& host = to.is_cuda() ? from : to;
  const auto stream = c10::cuda::getCurrentCUDAStream((to.is_cuda() ? to : from).device().index());
  enqueue_copy(stream, to, from);
  if (non_blocking && host.is_pinned()) {
    // Pinned memory is used again when the stream has come past the copy.
    at::getHostAllocator(at::kCUDA)->record_event(const_cast<void*>(host.const_data_ptr()),
                                                  host.storage().data_ptr().get_context(), stream.unwrap());
    return to;
  }
  stand_in_count("pageable_copies");
  stream.synchronize();
  return to;
}

}  // namespace panpipe::stand_in

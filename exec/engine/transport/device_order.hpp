// Order between streams of GPUs where ranks hand tensors over within a process, and the check of what arrived.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

namespace c10 {
struct Event;
}

namespace panpipe::exec {

struct TensorSpec;

// A point in the work of a stream. Nothing on CPU, where what was called is done.
class DeviceOrder {
 public:
  // After everything posted so far on the current stream of the tensor's device.
  static DeviceOrder now(const at::Tensor& value);
  // Makes the current stream of `device` wait for it, and of the tensor's own device, on which a copy to another one runs; keeps
  // the tensor's memory until that one is past.
  void before(at::Device device, const at::Tensor& value) const;

 private:
  std::shared_ptr<c10::Event> event_;
};

// "Float[2, 3]"
std::string describe(at::ScalarType dtype, at::IntArrayRef shape);

// InternalError that names what was sent and what was expected, on both sides, when they differ.
void check_arrived(const TensorSpec& expected, const at::Tensor& value, int from, const std::string& what);

}  // namespace panpipe::exec

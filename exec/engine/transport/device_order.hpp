// Orders GPU streams when ranks pass tensors within a process, and checks arrived tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

namespace c10 {
struct Event;
}

namespace panpipe::exec {

struct TensorSpec;

// A point in the work of a stream. Empty on a CPU, where calls are synchronous.
class DeviceOrder {
 public:
  // After all work posted so far on the current stream of the tensor's device.
  static DeviceOrder now(const at::Tensor& value);
  // Makes the current streams of `device` and of the tensor's own device wait for this point; a copy to another device runs on
  // the latter. Keeps the tensor's memory until that stream has passed.
  void before(at::Device device, const at::Tensor& value) const;

 private:
  std::shared_ptr<c10::Event> event_;
};

// "Float[2, 3]"
std::string describe(at::ScalarType dtype, at::IntArrayRef shape);

// Throws InternalError with the sent and the expected description, on both sides, if they differ.
void check_arrived(const TensorSpec& expected, const at::Tensor& value, int from, const std::string& what);

}  // namespace panpipe::exec

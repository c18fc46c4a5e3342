#include "exec/engine/training/synthetic_data.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>

#include "costmodel/workload/input_limits.hpp"
#include "exec/engine/stage/scalar_types.hpp"

namespace panpipe::exec {

DataSource synthetic_data(const OperatorGraph& graph, std::uint64_t seed) {
  return [&graph, seed, ranges = integer_ranges(graph)](int input, std::int64_t sample) {
    const Tensor& tensor = graph.tensors[input];
    // Any mixing does: neighbouring samples and inputs must not draw the same numbers.
    at::Generator generator = at::detail::createCPUGenerator((seed * 0x9e3779b97f4a7c15ULL) ^
                                                             (static_cast<std::uint64_t>(sample) * 0xbf58476d1ce4e5b9ULL) ^
                                                             static_cast<std::uint64_t>(input));
    const at::ScalarType type = scalar_type(tensor.dtype);
    if (tensor.dtype == DType::Bool) return at::randint(0, 2, tensor.shape, generator, at::kLong).to(type);
    if (!at::isFloatingType(type)) {
      const std::int64_t most = ranges[input].limit;
      return at::randint(0, most > 0 ? most : 2, tensor.shape, generator, at::TensorOptions().dtype(at::kLong)).to(type);
    }
    return at::randn(tensor.shape, generator, at::TensorOptions().dtype(at::kFloat)).to(type);
  };
}

}  // namespace panpipe::exec

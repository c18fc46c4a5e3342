#include "exec/engine/parameters.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "base/error.hpp"
#include "exec/engine/mixed_bits.hpp"
#include "exec/engine/stage/scalar_types.hpp"
#include "exec/engine/tensor_parallel_shards.hpp"
#include "exec/engine/vocabulary_parts.hpp"
#include "exec/engine/weights/published_weights.hpp"

namespace panpipe::exec {
namespace {

// "rotary_cos(10000 llama3 8 1 4 8192)": a kind, and the words behind it.
struct Init {
  std::string kind;
  std::vector<std::string> words;

  double number(std::size_t word, double otherwise = 0) const {
    double value = otherwise;
    if (word < words.size()) std::from_chars(words[word].data(), words[word].data() + words[word].size(), value);
    return value;
  }
};

Init parse(const std::string& text) {
  Init init{text.substr(0, text.find('(')), {}};
  if (init.kind.size() == text.size()) return init;
  std::istringstream words(text.substr(init.kind.size() + 1, text.rfind(')') - init.kind.size() - 1));
  for (std::string word; words >> word;) init.words.push_back(word);
  return init;
}

// Llama 3.1 (arXiv 2407.21783, and transformers' rope type "llama3"): waves longer than trained / low positions are stretched by
// the factor, those shorter than trained / high stay, and between them both are mixed.
at::Tensor scaled(const at::Tensor& frequency, const Init& init) {
  const std::string kind = init.words.size() > 1 ? init.words[1] : "";
  const double factor = init.number(2, 1), low = init.number(3, 1), high = init.number(4, 4), trained = init.number(5, 8192);
  if (kind == "linear") return frequency / factor;
  if (kind != "llama3") return frequency;
  const at::Tensor waves_in_training = trained / (2 * M_PI / frequency);
  const at::Tensor smooth = ((waves_in_training - low) / (high - low)).clamp(0, 1);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

// Rotary position embedding (Su et al., arXiv 2104.09864): angle of position p and pair i is p / base^(2i/d); the halves repeat.
at::Tensor rotary_angles(const Shape& shape, const Init& init) {
  const std::int64_t half = shape[1] / 2;
  const at::Tensor frequency = at::pow(init.number(0), at::arange(half, at::kDouble) * (-2.0 / static_cast<double>(shape[1])));
  const at::Tensor angles = at::outer(at::arange(shape[0], at::kDouble), scaled(frequency, init));
  return at::cat({angles, angles}, 1);
}

// "zeros", "ones", "normal(S)", "uniform(A)", "arange(A)" ...
at::Tensor initial_value(const Tensor& tensor, std::uint64_t seed) {
  const at::TensorOptions options = at::TensorOptions().dtype(scalar_type(tensor.dtype));
  const Init init = parse(tensor.init);
  // A weight's values depend on its name and the seed, not on where or when it is made.
  at::Generator generator = at::detail::createCPUGenerator(hash_of(tensor.name) ^ (seed * 0x9e3779b97f4a7c15ULL));
  // Drawn in fp32 for every type, so that every precision starts from the same values.
  const at::Tensor values = at::empty(tensor.shape, at::kFloat);
  if (init.kind == "zeros") return at::zeros(tensor.shape, options);
  if (init.kind == "ones") return at::ones(tensor.shape, options);
  if (init.kind == "normal")
    return at::normal_out(const_cast<at::Tensor&>(values), 0.0, init.number(0), tensor.shape, generator).to(options.dtype());
  if (init.kind == "uniform") return values.uniform_(-init.number(0), init.number(0), generator).to(options.dtype());
  if (init.kind == "arange")
    return (at::arange(tensor.elements(), options) + init.number(0)).to(options.dtype()).reshape(tensor.shape);
  if (init.kind == "rotary_cos") return rotary_angles(tensor.shape, init).cos().to(options.dtype());
  if (init.kind == "rotary_sin") return rotary_angles(tensor.shape, init).sin().to(options.dtype());
  if (init.kind == "sinusoid_frequencies") {
    const double step = -std::log(init.number(0)) / static_cast<double>(tensor.elements());
    return at::exp(at::arange(tensor.elements(), at::kDouble) * step).to(options.dtype()).reshape(tensor.shape);
  }
  throw InputError(fmt::format("{}: the executor does not know the initial values '{}'", tensor.name, tensor.init));
}

// Attention with linear biases (Press et al., arXiv 2108.12409): of 2^n heads head i has 2^(-8 (i + 1) / 2^n); other numbers of
// heads take the rest from every second one of twice as many.
at::Tensor alibi_slopes(std::int64_t heads) {
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  const auto slope = [](double i, double of) { return std::exp2(-8 * i / of); };
  std::vector<float> slopes;
  for (std::int64_t i = 1; i <= power; ++i)
    slopes.push_back(static_cast<float>(slope(static_cast<double>(i), static_cast<double>(power))));
  for (std::int64_t i = 1; power + i <= heads; ++i)
    slopes.push_back(static_cast<float>(slope(static_cast<double>(2 * i - 1), static_cast<double>(2 * power))));
  return at::tensor(slopes);
}

// Lightning attention's decays (MiniMax-01, arXiv 2501.08313): slopes as above, smaller from layer to layer.
at::Tensor lightning_slopes(const Init& init) {
  const double heads = init.number(0, 1), layer = init.number(1), layers = init.number(2, 1);
  const at::Tensor rates = at::pow(std::exp2(-8.0 / heads), at::arange(1, heads + 1, at::kFloat));
  return rates * (1 - layer / (layers - 1 + 1e-5) + 1e-5);
}

// Values of a buffer that differs from rank to rank of a tensor-parallel group.
std::optional<at::Tensor> value_of_the_rank(const Tensor& tensor, int shard) {
  const Init init = parse(tensor.init);
  if (init.kind == "tensor_rank_times") return at::full({}, init.number(0) * shard, at::kLong);
  if (init.kind == "alibi_slopes")
    return alibi_slopes(static_cast<std::int64_t>(init.number(0))).narrow(0, shard * tensor.shape[0], tensor.shape[0]).clone();
  if (init.kind == "lightning_slopes") return lightning_slopes(init).narrow(0, shard * tensor.shape[0], tensor.shape[0]).clone();
  return std::nullopt;
}

// Only the bytes from the tensor's first to its last element are read.
at::Tensor stored_value(const OperatorGraph& graph, const Tensor& tensor) {
  const StoredValues& stored = graph.stored[tensor.stored];
  const auto type = scalar_type(tensor.dtype);
  if (tensor.elements() == 0) return at::empty(tensor.shape, type);
  const auto width = static_cast<std::int64_t>(c10::elementSize(type));
  std::int64_t span = 1;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) span += (tensor.shape[d] - 1) * stored.strides[d];
  const std::int64_t first = stored.offset + stored.first_element * width;
  if ((stored.first_element + span) * width > stored.bytes)
    throw InputError(fmt::format("{}: the values of '{}' are not in the archive", graph.values_file, tensor.name));
  const at::Tensor bytes = at::empty({span}, type);
  std::ifstream file(graph.values_file, std::ios::binary);
  if (!file.seekg(first) || !file.read(static_cast<char*>(bytes.data_ptr()), span * width))
    throw InputError(fmt::format("{}: the values of '{}' cannot be read", graph.values_file, tensor.name));
  return at::as_strided(bytes, tensor.shape, stored.strides).clone(at::MemoryFormat::Preserve);
}

}  // namespace

int root_of(const OperatorGraph& graph, int tensor) {
  while (graph.tensors[tensor].tied_to >= 0) tensor = graph.tensors[tensor].tied_to;
  return tensor;
}

bool is_of_the_rank(const Tensor& tensor) { return value_of_the_rank(tensor, 0).has_value(); }

SeededParameters::SeededParameters(const OperatorGraph& graph, const StageLayout& layout, const std::vector<int>& stages,
                                   std::uint64_t seed, bool masters, at::Device device, int device_of_position,
                                   const PublishedWeights* weights, ParameterPlacement* placement)
    : graph_(&graph), placement_(placement) {
  const auto made = [&](const Tensor& tensor, int ranks_of_rows) {
    if (const auto own = value_of_the_rank(tensor, device_of_position % graph.degrees.tensor)) return *own;
    Tensor whole = tensor;
    whole.shape = whole_shape(tensor);
    const at::Tensor values = weights != nullptr && weights->holds(tensor) ? weights->read(tensor).to(scalar_type(tensor.dtype))
                                                                           : initial_value(whole, seed);
    if (ranks_of_rows > 1) return rows_of_rank(tensor, values, stages.front(), ranks_of_rows);
    return shard_of(tensor, values, device_of_position, graph.degrees);
  };
  for (const int stage : stages) {
    for (const int used : layout.stages[stage].parameters) {
      const int root = root_of(graph, used);
      const Tensor& tensor = graph.tensors[root];
      auto& kept = tensor.role == TensorRole::Parameter ? trained_ : buffers_;
      if (kept.count(root)) continue;
      const int ranks_of_rows = layout.ranks_of_rows(root);
      at::Tensor value = tensor.stored >= 0 ? stored_value(graph, tensor) : made(tensor, ranks_of_rows);
      if (tensor.role == TensorRole::Parameter) {
        // Gradients and optimizer state are contiguous; stored values need not be.
        value = value.contiguous().to(device);
        at::Tensor master = value.detach();
        if (masters && value.element_size() == 2) {
          Tensor wide = tensor;
          wide.dtype = DType::Float32;
          master = tensor.stored >= 0 ? value.to(at::kFloat) : made(wide, ranks_of_rows).to(device);
        }
        const auto bytes = static_cast<std::int64_t>(value.nbytes());
        if (placement == nullptr || !placement->place(root, value, master)) own_bytes_ += bytes;
        masters_.emplace(root, std::move(master));
      } else {
        value = value.to(device);
      }
      if (tensor.role == TensorRole::Parameter && tensor.requires_gradient) value.requires_grad_(true);
      kept.emplace(root, std::move(value));
    }
  }
}

std::pair<std::int64_t, std::int64_t> SeededParameters::bytes() const {
  std::int64_t weights = own_bytes_, gradients = 0;
  if (placement_ != nullptr) {
    weights += placement_->parameter_bytes();
    gradients += placement_->gradient_bytes();
  }
  for (const auto& [root, value] : trained_)
    if (value.grad().defined()) gradients += static_cast<std::int64_t>(value.grad().nbytes());
  for (const auto& [root, value] : buffers_) weights += static_cast<std::int64_t>(value.nbytes());
  return {weights, gradients};
}

at::Tensor SeededParameters::tensor(int graph_tensor) const {
  const int root = root_of(*graph_, graph_tensor);
  if (const auto found = trained_.find(root); found != trained_.end()) return found->second;
  return buffers_.at(root);
}

}  // namespace panpipe::exec

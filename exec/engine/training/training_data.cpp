#include "exec/engine/training/training_data.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/max.h>
#include <ATen/ops/min.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "costmodel/base/error.hpp"
#include "exec/engine/checkpoint/safetensors.hpp"
#include "exec/engine/scalar_types.hpp"
#include "exec/engine/training/synthetic_data.hpp"
#include "exec/engine/training/token_file.hpp"

namespace panpipe::exec {
namespace {

std::string text_of(const std::vector<std::int64_t>& shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

// A label that losses leave out (PyTorch's default ignore_index).
constexpr std::int64_t kIgnoredLabel = -100;

void check_ids(const Scenario& scenario, const char* key, const std::string& name, const at::Tensor& values, std::int64_t limit) {
  if (limit <= 0 || values.numel() == 0) return;
  const at::Tensor ids = values.to(at::kLong), known = ids.masked_fill(ids.eq(kIgnoredLabel), 0);
  const auto least = known.min().item<std::int64_t>(), most = known.max().item<std::int64_t>();
  if (least >= 0 && most < limit) return;
  throw fault_at(scenario, key,
                 fmt::format("'{}' holds the id {}; the model's end at {}", name, least < 0 ? least : most, limit - 1));
}

void check_tensor(const PreparedRun& run, const SafetensorsFile& file, int input, std::int64_t limit) {
  const Scenario& scenario = run.experiment.scenario;
  const Tensor& wanted = run.whole_graph().tensors[static_cast<std::size_t>(input)];
  const auto fault = [&](const std::string& message, const std::string& help = "") {
    return fault_at(scenario, "data.tensors", message, help);
  };
  const auto found = file.tensors().find(wanted.name);
  if (found == file.tensors().end()) {
    std::vector<std::string> names, inputs;
    for (const auto& [name, tensor] : file.tensors()) names.push_back(name);
    for (const int one : run.whole_graph().inputs)
      inputs.push_back(run.whole_graph().tensors[static_cast<std::size_t>(one)].name);
    throw fault(fmt::format("the file holds no tensor '{}', which the model reads", wanted.name),
                fmt::format("the model's inputs are {}; the file holds {}", list_of(inputs),
                            names.empty() ? "no tensor at all" : list_of(names)));
  }
  const StoredTensor& stored = found->second;
  Shape sample = wanted.shape;
  if (wanted.shape.empty() || wanted.shape[0] != scenario.micro)
    throw fault(fmt::format("the model's input '{}' has shape {}: its first dimension does not count samples", wanted.name,
                            text_of(wanted.shape)));
  std::vector<std::int64_t> rest(stored.shape.begin() + (stored.shape.empty() ? 0 : 1), stored.shape.end());
  if (stored.shape.empty() || !std::equal(rest.begin(), rest.end(), wanted.shape.begin() + 1, wanted.shape.end()))
    throw fault(fmt::format("'{}' has shape {}; the model expects (samples{}{})", wanted.name, text_of(stored.shape),
                            wanted.shape.size() > 1 ? ", " : "", fmt::join(wanted.shape.begin() + 1, wanted.shape.end(), ", ")));
  const at::ScalarType type = scalar_type(wanted.dtype);
  const bool whole_numbers = !at::isFloatingType(type) && type != at::kBool;
  const bool fits =
      stored.dtype == type || (at::isFloatingType(type) && stored.dtype == at::kFloat) ||
      (whole_numbers && at::isIntegralType(stored.dtype, false) && c10::elementSize(stored.dtype) < c10::elementSize(type));
  if (!fits)
    throw fault(
        fmt::format("'{}' holds {}; the model reads {}", wanted.name, safetensors_name(stored.dtype), safetensors_name(type)));
  if (stored.shape[0] < scenario.micro)
    throw fault(
        fmt::format("'{}' holds {} samples, fewer than a microbatch of {}", wanted.name, stored.shape[0], scenario.micro));
  if (whole_numbers) check_ids(scenario, "data.tensors", wanted.name, file.read(wanted.name), limit);
}

// Samples [first, first + count) of a file whose samples repeat.
at::Tensor rows_of(const SafetensorsFile& file, const std::string& name, std::int64_t first, std::int64_t count) {
  const std::int64_t samples = file.tensors().at(name).shape[0];
  std::vector<at::Tensor> parts;
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t at = (first + done) % samples, rows = std::min(count - done, samples - at);
    parts.push_back(file.read_rows(name, at, rows));
    done += rows;
  }
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

DataSource tensor_data(const PreparedRun& run) {
  const Scenario& scenario = run.experiment.scenario;
  const auto file = std::make_shared<SafetensorsFile>(scenario.data.file);
  const std::vector<std::int64_t> limits = integer_limits(run.whole_graph());
  const std::string* first = nullptr;
  for (const int input : run.whole_graph().inputs) {
    check_tensor(run, *file, input, limits[static_cast<std::size_t>(input)]);
    const std::string& name = run.whole_graph().tensors[static_cast<std::size_t>(input)].name;
    if (first == nullptr) first = &name;
    const std::int64_t samples = file->tensors().at(name).shape[0], others = file->tensors().at(*first).shape[0];
    if (samples != others)
      throw fault_at(scenario, "data.tensors", fmt::format("'{}' holds {} samples, '{}' {}", *first, others, name, samples));
  }
  return [&run, file, micro = std::int64_t{scenario.micro}](int input, std::int64_t sample) {
    const Tensor& tensor = run.whole_graph().tensors[static_cast<std::size_t>(input)];
    return rows_of(*file, tensor.name, sample * micro, micro).to(scalar_type(tensor.dtype));
  };
}

// Which of the model's inputs are tokens, and which the tokens one further on.
struct TokenInputs {
  int tokens = -1, labels = -1;
};

TokenInputs token_inputs(const PreparedRun& run) {
  TokenInputs found;
  std::vector<std::string> others;
  for (const int input : run.whole_graph().inputs) {
    const Tensor& tensor = run.whole_graph().tensors[static_cast<std::size_t>(input)];
    const bool ids = tensor.shape.size() == 2 && (tensor.dtype == DType::Int64 || tensor.dtype == DType::Int32);
    if (ids && tensor.name == "labels")
      found.labels = input;
    else if (ids && found.tokens < 0 && (tensor.name == "input_ids" || tensor.name == "tokens" || tensor.name == "ids"))
      found.tokens = input;
    else
      others.push_back(tensor.name);
  }
  if (found.tokens < 0 || !others.empty())
    throw fault_at(run.experiment.scenario, "data.tokens",
                   found.tokens < 0
                       ? "the model reads no tokens: none of its inputs is an 'input_ids' of (samples, sequence)"
                       : fmt::format("the model also reads {}, which a file of tokens does not hold", list_of(others)),
                   "give {tensors: FILE} with a tensor per input");
  return found;
}

DataSource token_data(const PreparedRun& run) {
  const Scenario& scenario = run.experiment.scenario;
  const TokenInputs inputs = token_inputs(run);
  const Tensor& tokens = run.whole_graph().tensors[static_cast<std::size_t>(inputs.tokens)];
  const std::int64_t sequence = tokens.shape[1];
  std::shared_ptr<TokenFile> file;
  try {
    file = std::make_shared<TokenFile>(scenario.data.file, sequence,
                                       integer_limits(run.whole_graph())[static_cast<std::size_t>(inputs.tokens)]);
  } catch (const InputError& error) {
    throw placed(error, scenario, "data.tokens");
  }
  return [&run, file, inputs, sequence, micro = std::int64_t{scenario.micro}](int input, std::int64_t sample) {
    const at::Tensor ids = at::empty({micro, sequence}, at::TensorOptions().dtype(at::kLong));
    for (std::int64_t row = 0; row < micro; ++row)
      file->read(sample * micro + row, input == inputs.labels ? 1 : 0, ids.data_ptr<std::int64_t>() + row * sequence);
    return ids.to(scalar_type(run.whole_graph().tensors[static_cast<std::size_t>(input)].dtype));
  };
}

}  // namespace

DataSource training_data(const PreparedRun& run) {
  switch (run.experiment.scenario.data.kind) {
    case DataRequest::Kind::Tensors:
      return tensor_data(run);
    case DataRequest::Kind::Tokens:
      return token_data(run);
    case DataRequest::Kind::Synthetic:
      break;
  }
  return synthetic_data(run.whole_graph(), static_cast<std::uint64_t>(run.experiment.scenario.seed));
}

}  // namespace panpipe::exec

#include "exec/engine/training/training_data.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/max.h>
#include <ATen/ops/min.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "costmodel/scenario/at_key.hpp"
#include "costmodel/workload/input_limits.hpp"
#include "exec/engine/checkpoint/safetensors.hpp"
#include "exec/engine/stage/scalar_types.hpp"
#include "exec/engine/training/sample_order.hpp"
#include "exec/engine/training/synthetic_data.hpp"
#include "exec/engine/training/token_file.hpp"

namespace panpipe::exec {
namespace {

std::string text_of(const std::vector<std::int64_t>& shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

void check_ids(const Scenario& scenario, const char* key, const std::string& name, const at::Tensor& values,
               const IntegerRange& range) {
  const std::int64_t limit = range.limit;
  if (limit <= 0 || values.numel() == 0) return;
  const at::Tensor ids = values.to(at::kLong), known = range.ignored ? ids.masked_fill(ids.eq(*range.ignored), 0) : ids;
  const auto least = known.min().item<std::int64_t>(), most = known.max().item<std::int64_t>();
  if (least >= 0 && most < limit) return;
  throw fault_at(scenario, key,
                 fmt::format("'{}' holds the id {}; the model's end at {}", name, least < 0 ? least : most, limit - 1));
}

// A file of data, open and checked: its samples, in the order of the file.
struct SampleFile {
  std::int64_t samples = 0;
  // The rows of these samples for an input of the graph.
  std::function<at::Tensor(int input, const std::vector<std::int64_t>& samples)> rows;
};

void check_tensor(const PreparedRun& run, const char* key, const SafetensorsFile& file, int input, const IntegerRange& range) {
  const Scenario& scenario = run.experiment.scenario;
  const Tensor& wanted = run.whole_graph().tensors[input];
  const auto fault = [&](const std::string& message, const std::string& help = "") {
    return fault_at(scenario, key, message, help);
  };
  const auto found = file.tensors().find(wanted.name);
  if (found == file.tensors().end()) {
    std::vector<std::string> names, inputs;
    for (const auto& [name, tensor] : file.tensors()) names.push_back(name);
    for (const int one : run.whole_graph().inputs) inputs.push_back(run.whole_graph().tensors[one].name);
    throw fault(fmt::format("the file holds no tensor '{}', which the model reads", wanted.name),
                fmt::format("the model's inputs are {}; the file holds {}", list_of(inputs),
                            names.empty() ? "no tensor at all" : list_of(names)));
  }
  const StoredTensor& stored = found->second;
  Shape sample = wanted.shape;
  if (wanted.shape.empty() || wanted.shape[0] != scenario.degrees.micro)
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
  if (stored.shape[0] < scenario.degrees.micro)
    throw fault(fmt::format("'{}' holds {} samples, fewer than a microbatch of {}", wanted.name, stored.shape[0],
                            scenario.degrees.micro));
  if (whole_numbers) check_ids(scenario, key, wanted.name, file.read(wanted.name), range);
}

// Neighbours are read together.
at::Tensor rows_of(const SafetensorsFile& file, const std::string& name, const std::vector<std::int64_t>& samples) {
  std::vector<at::Tensor> parts;
  for (std::size_t first = 0; first < samples.size();) {
    std::size_t end = first + 1;
    while (end < samples.size() && samples[end] == samples[end - 1] + 1) ++end;
    parts.push_back(file.read_rows(name, samples[first], static_cast<std::int64_t>(end - first)));
    first = end;
  }
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

SampleFile tensor_file(const PreparedRun& run, const std::string& path, const char* key) {
  const auto file = std::make_shared<SafetensorsFile>(path);
  const std::vector<IntegerRange> ranges = integer_ranges(run.whole_graph());
  const std::string* first = nullptr;
  std::int64_t samples = 0;
  for (const int input : run.whole_graph().inputs) {
    check_tensor(run, key, *file, input, ranges[input]);
    const std::string& name = run.whole_graph().tensors[input].name;
    const std::int64_t own = file->tensors().at(name).shape[0];
    if (first == nullptr) first = &name, samples = own;
    if (own != samples)
      throw fault_at(run.experiment.scenario, key, fmt::format("'{}' holds {} samples, '{}' {}", *first, samples, name, own));
  }
  return {samples, [&run, file](int input, const std::vector<std::int64_t>& wanted) {
            const Tensor& tensor = run.whole_graph().tensors[input];
            return rows_of(*file, tensor.name, wanted).to(scalar_type(tensor.dtype));
          }};
}

// Which of the model's inputs are tokens, and which the tokens one further on.
struct TokenInputs {
  int tokens = -1, labels = -1;
};

TokenInputs token_inputs(const PreparedRun& run, const char* key) {
  TokenInputs found;
  std::vector<std::string> others;
  for (const int input : run.whole_graph().inputs) {
    const Tensor& tensor = run.whole_graph().tensors[input];
    const bool ids = tensor.shape.size() == 2 && (tensor.dtype == DType::Int64 || tensor.dtype == DType::Int32);
    if (ids && tensor.name == "labels")
      found.labels = input;
    else if (ids && found.tokens < 0 && (tensor.name == "input_ids" || tensor.name == "tokens" || tensor.name == "ids"))
      found.tokens = input;
    else
      others.push_back(tensor.name);
  }
  if (found.tokens < 0 || !others.empty())
    throw fault_at(run.experiment.scenario, key,
                   found.tokens < 0
                       ? "the model reads no tokens: none of its inputs is an 'input_ids' of (samples, sequence)"
                       : fmt::format("the model also reads {}, which a file of tokens does not hold", list_of(others)),
                   "give {tensors: FILE} with a tensor per input");
  return found;
}

SampleFile token_file(const PreparedRun& run, const std::string& path, const char* key) {
  const Scenario& scenario = run.experiment.scenario;
  const TokenInputs inputs = token_inputs(run, key);
  const Tensor& tokens = run.whole_graph().tensors[inputs.tokens];
  const std::int64_t sequence = tokens.shape[1];
  const std::int64_t vocabulary = integer_ranges(run.whole_graph())[inputs.tokens].limit;
  const auto file =
      at_key(scenario, key, [&] { return std::make_shared<TokenFile>(path, scenario.data.width, sequence, vocabulary); });
  return {file->samples(), [&run, file, inputs, sequence, key](int input, const std::vector<std::int64_t>& wanted) {
            const at::Tensor ids = at::empty({std::ssize(wanted), sequence}, at::TensorOptions().dtype(at::kLong));
            auto* to = ids.data_ptr<std::int64_t>();
            at_key(run.experiment.scenario, key, [&] {
              for (std::size_t row = 0; row < wanted.size(); ++row)
                file->read(wanted[row], input == inputs.labels ? 1 : 0, to + static_cast<std::int64_t>(row) * sequence);
            });
            return ids.to(scalar_type(run.whole_graph().tensors[input].dtype));
          }};
}

// Microbatch by microbatch: positions from `sample` x the microbatch's size + `offset` on, in `order`, behind the file's first
// `begin` samples.
DataSource in_order(const PreparedRun& run, const SampleFile& file, const SampleOrder& order, std::int64_t offset,
                    std::int64_t begin) {
  return
      [file, order, offset, begin, micro = std::int64_t{run.experiment.scenario.degrees.micro}](int input, std::int64_t sample) {
        std::vector<std::int64_t> wanted;
        for (std::int64_t row = 0; row < micro; ++row) wanted.push_back(begin + order.at(sample * micro + offset + row));
        return file.rows(input, wanted);
      };
}

}  // namespace

TrainingData training_data(const PreparedRun& run, std::int64_t samples_done) {
  const Scenario& scenario = run.experiment.scenario;
  const DataRequest& asked = scenario.data;
  const auto seed = static_cast<std::uint64_t>(scenario.seed);
  TrainingData data;
  if (asked.kind == DataRequest::Kind::Synthetic) {
    data.training = synthetic_data(run.whole_graph(), seed);
    return data;
  }
  const bool tensors = asked.kind == DataRequest::Kind::Tensors;
  const auto opened = [&](const std::string& path, const char* key) {
    return tensors ? tensor_file(run, path, key) : token_file(run, path, key);
  };
  const SampleFile file = opened(asked.file, tensors ? "data.tensors" : "data.tokens");
  const std::int64_t micro = scenario.degrees.micro;
  data.samples = file.samples;
  if (asked.held_out > 0) {
    data.held_out = std::max<std::int64_t>(1, std::llround(asked.held_out * static_cast<double>(file.samples)));
    data.samples -= data.held_out;
    if (data.samples < 1)
      throw fault_at(scenario, "data.held_out",
                     fmt::format("of {} samples, {} held out leave none to train on", file.samples, data.held_out));
    data.validation = in_order(run, file, SampleOrder(data.held_out), 0, data.samples);
  } else if (!asked.validation.empty()) {
    const SampleFile held_out = opened(asked.validation, "data.validation");
    data.held_out = held_out.samples;
    data.validation = in_order(run, held_out, SampleOrder(data.held_out), 0, 0);
  }
  const SampleOrder order(data.samples, asked.shuffle ? std::optional(seed) : std::nullopt);
  data.training = in_order(run, file, order, samples_done % micro, 0);
  return data;
}

}  // namespace panpipe::exec

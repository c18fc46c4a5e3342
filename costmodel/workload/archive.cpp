#include "costmodel/workload/archive.hpp"

#include <fmt/format.h>

#include "costmodel/base/error.hpp"
#include "costmodel/workload/archive_container.hpp"
#include "costmodel/workload/archive_prepare.hpp"
#include "costmodel/workload/archive_program.hpp"

namespace panpipe {
namespace {

constexpr std::int64_t kMostProgram = 512 << 20;  // bytes of JSON; the largest of the models tried has 20 MB

void check_inputs(const OperatorGraph& graph, int microbatch) {
  for (const int index : graph.inputs) {
    const Tensor& input = graph.tensors[static_cast<std::size_t>(index)];
    if (input.shape.empty() || input.shape.front() == microbatch) continue;
    throw InputError(
        fmt::format("{}: its input '{}' has {} samples, a microbatch {}; export the model with {}, or set batch.micro to {}",
                    graph.values_file, input.name, input.shape.front(), microbatch, microbatch, input.shape.front()));
  }
}

// Tied parameters that are named differently are one tensor; others must not share bytes.
void check_byte_order(ArchiveContainer& archive) {
  if (!archive.find("byteorder")) return;
  const std::string order = archive.read("byteorder", 64);
  if (order != "little")
    throw InputError(fmt::format("{}: its numbers are stored in '{}' byte order, only 'little' is read", archive.path(), order));
}

}  // namespace

OperatorGraph load_exported(const std::string& path, int microbatch) {
  ArchiveContainer archive(path);
  check_byte_order(archive);
  const ArchiveDocument program(path, "models/model.json", archive.read("models/model.json", kMostProgram));
  ArchiveProgram translation(path, program, read_payloads(archive, "data/weights/", "model_weights_config.json"),
                             read_payloads(archive, "data/constants/", "model_constants_config.json"));
  OperatorGraph graph = translation.translate();
  const std::size_t slash = path.find_last_of('/');
  graph.name = path.substr(slash == std::string::npos ? 0 : slash + 1);
  check_inputs(graph, microbatch);
  drop_dead_operators(graph);
  mark_written_and_gradients(graph);
  if (!graph.tensors[static_cast<std::size_t>(graph.loss)].requires_gradient)
    throw InputError(
        fmt::format("{}: the first output does not depend on any trained parameter: there is nothing to train", path));
  make_units(graph);
  graph.check();
  return graph;
}

}  // namespace panpipe

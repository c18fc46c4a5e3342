#include "costmodel/workload/archive.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "costmodel/workload/archive_container.hpp"
#include "costmodel/workload/archive_prepare.hpp"
#include "costmodel/workload/archive_program.hpp"

namespace panpipe {
namespace {

constexpr std::int64_t kMostProgram = 512 << 20;  // bytes of JSON; the largest of the models tried has 20 MB

void check_inputs(const OperatorGraph& graph, int microbatch) {
  for (const int index : graph.inputs) {
    const Tensor& input = graph.tensors[index];
    if (input.shape.empty() || input.shape.front() == microbatch) continue;
    throw InputError(
        fmt::format("{}: its input '{}' has {} samples, a microbatch {}; export the model with {}, or set batch.micro to {}",
                    graph.values_file, input.name, input.shape.front(), microbatch, microbatch, input.shape.front()));
  }
}

// torch/_export/serde/schema.py, SCHEMA_VERSION: the major number counts breaking changes, the minor one compatible additions.
constexpr std::int64_t kSchema = 8;
constexpr std::int64_t kNewestTried = 20;  // PyTorch 2.15; 2.11 writes 8.17
constexpr const char* kTried = "PyTorch 2.11 to 2.15";

// Refuses archives of another schema. For a schema newer than those tested, returns a note for later faults, else "".
std::string check_schema(const ArchiveDocument& program) {
  const Json& version = program.object(program.root(), "schema_version", "the program");
  const auto number = [&](const char* key) {
    return program.integer(program.member(version, key, "'schema_version'"), fmt::format("'{}' of 'schema_version'", key));
  };
  const std::int64_t major = number("major"), minor = number("minor");
  const std::string writer = program.find(program.root(), "torch_version")
                                 ? program.text(program.root(), "torch_version", "the program")
                                 : "of unknown release";
  if (major != kSchema)
    program.fault(fmt::format("PyTorch {} wrote it in schema {}.{}, and Panpipe reads schema {}; export the model with {}",
                              writer, major, minor, kSchema, kTried));
  if (minor <= kNewestTried) return "";
  return fmt::format(
      "PyTorch {} wrote the archive in schema {}.{}, newer than {}.{}, the newest that was tried; export the model with {}",
      writer, major, minor, kSchema, kNewestTried, kTried);
}

// Tied parameters that are named differently are one tensor; others must not share bytes.
void check_byte_order(ArchiveContainer& archive) {
  if (!archive.find("byteorder")) return;
  const std::string order = archive.read("byteorder", 64);
  if (order != "little")
    throw InputError(fmt::format("{}: its numbers are stored in '{}' byte order, only 'little' is read", archive.path(), order));
}

// The program as a graph: operators in order, nothing pruned.
OperatorGraph translate(ArchiveContainer& archive, const ArchiveDocument& program) {
  ArchiveProgram translation(archive.path(), program, read_payloads(archive, "data/weights/", "model_weights_config.json"),
                             read_payloads(archive, "data/constants/", "model_constants_config.json"));
  return translation.translate();
}

OperatorGraph translate_newer(ArchiveContainer& archive, const ArchiveDocument& program, const std::string& remark) {
  try {
    return translate(archive, program);
  } catch (const InputError& error) {
    std::vector<Diagnostic> diagnostics = error.diagnostics();
    std::string& help = diagnostics.back().help;
    help += (help.empty() ? "" : "\n  help: ") + remark;
    throw InputError(std::move(diagnostics));
  }
}

}  // namespace

OperatorGraph load_exported(const std::string& path, int microbatch) {
  ArchiveContainer archive(path);
  check_byte_order(archive);
  const ArchiveDocument program(path, "models/model.json", archive.read("models/model.json", kMostProgram));
  const std::string remark = check_schema(program);
  OperatorGraph graph = remark.empty() ? translate(archive, program) : translate_newer(archive, program, remark);
  const std::size_t slash = path.find_last_of('/');
  graph.name = path.substr(slash == std::string::npos ? 0 : slash + 1);
  check_inputs(graph, microbatch);
  drop_dead_operators(graph);
  mark_written_and_gradients(graph);
  if (!graph.tensors[graph.loss].requires_gradient)
    throw InputError(
        fmt::format("{}: the first output does not depend on any trained parameter: there is nothing to train", path));
  make_units(graph);
  graph.check();
  return graph;
}

}  // namespace panpipe

// Any bytes are a file in Piper's format or an InputError; the layers and the scenario made from it are read.
#include "base/input/yaml_document.hpp"
#include "planner/piper/piper_file.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "tests/fuzz/json_mutator.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace panpipe;
  using namespace panpipe::planner::piper;
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  PiperFile read;
  if (!fuzz::accepts([&] { read = read_piper_file(file.path()); })) return 0;
  if (read.nodes.empty()) std::abort();
  Imported imported;
  if (!fuzz::accepts([&] { imported = import_piper(read, {}, "layers.yaml"); })) return 0;
  parse_document(imported.layers, "layers.yaml", "");
  parse_document(imported.scenario, "scenario.yaml", "");
  return 0;
}

// Any program inside a sound archive is a graph or an InputError, and a graph has finite costs. The input is model.json, the
// configuration of the weights and that of the constants, parted by zero bytes; absent ones are a small model's.
#include "costmodel/workload/archive.hpp"
#include "costmodel/workload/movable_units.hpp"
#include "costmodel/workload/operator_cost.hpp"
#include "tests/costmodel/workload/archive_file.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "tests/fuzz/json_mutator.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace panpipe;
  static const TinyModel model;
  static const std::string weights = model.weights.dump(), constants = model.constants.dump();
  std::string rest = fuzz::text_of(data, size);
  const std::string program = fuzz::take_piece(rest, '\0');
  const std::string given_weights = fuzz::take_piece(rest, '\0'), given_constants = fuzz::take_piece(rest, '\0');
  const fuzz::MemoryFile file(
      zip({{"m/data/weights/weight_0", std::string(48, 'w')},
           {"m/data/weights/weight_1", std::string(80, 'u')},
           {"m/data/weights/model_weights_config.json", given_weights.empty() ? weights : given_weights},
           {"m/data/constants/model_constants_config.json", given_constants.empty() ? constants : given_constants},
           {"m/models/model.json", program},
           {"m/byteorder", "little"}}));
  fuzz::accepts([&] {
    const OperatorGraph graph = load_exported(file.path(), 2);
    fuzz::must_be_finite(model_flops(graph).base());
    graph.to_text();
    units_table(graph);
    units_json(graph);
  });
  return 0;
}

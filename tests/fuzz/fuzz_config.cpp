// Any bytes are a model's config.json or an InputError; its model can be counted, whole and cut over two ranks.
#include "base/input/yaml_document.hpp"
#include "costmodel/workload/model_config.hpp"
#include "tests/fuzz/fuzz_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace panpipe;
  ModelConfig config;
  if (!fuzz::accepts([&] { config = read_model_config(*parse_document(fuzz::text_of(data, size), "config.json", ""), 64, 1); }))
    return 0;
  // A layer and a short sequence: the dimensions may be as large as they like.
  for (const int tensor : {1, 2})
    fuzz::accepts([&] {
      WorkloadShape shape;
      shape.degrees.tensor = tensor;
      if (config.build(config.model, config.dimensions, shape).parameter_count() < 1) std::abort();
    });
  return 0;
}

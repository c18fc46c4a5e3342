// Any bytes are a scenario or an InputError, and what a scenario prints loads again.
#include <cstdint>
#include <string>

#include "costmodel/scenario/scenario.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  panpipe::Scenario scenario;
  try {
    scenario = panpipe::parse_scenario(text, "fuzz.yaml", "");
  } catch (const panpipe::InputError&) {
    return 0;
  }
  panpipe::parse_scenario(panpipe::resolved_text(scenario), "again.yaml", "");
  return 0;
}

// Any bytes are a table of measured runs or an InputError, and what a run states is finite.
#include "tests/fuzz/fuzz_input.hpp"
#include "validation/runs/run_row.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace panpipe;
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  fuzz::accepts([&] {
    for (const validation::RunRow& row : validation::read_runs(file.path())) {
      if (row.id.empty()) std::abort();
      fuzz::must_be_finite(row.step_s.value_or(0));
      fuzz::must_be_finite(row.peak_gib.value_or(0));
    }
  });
  return 0;
}

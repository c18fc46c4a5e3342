// Any bytes are an archive of an exported model or an InputError.
#include "costmodel/workload/archive.hpp"
#include "tests/fuzz/fuzz_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace panpipe;
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  fuzz::accepts([&] { load_exported(file.path(), 2); });
  return 0;
}

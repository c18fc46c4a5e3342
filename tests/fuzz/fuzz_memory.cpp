// Any bytes are a memory snapshot, a summary or an InputError; what is read adds up, and is shown as text and as a document.
#include "jobs/memory/memory_compare.hpp"
#include "tests/fuzz/fuzz_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace panpipe;
  jobs::MeasuredMemory memory;
  if (!fuzz::accepts([&] { memory = jobs::parse_measured_memory(fuzz::text_of(data, size), "memory"); })) return 0;
  for (const std::int64_t bytes : memory.roles)
    if (bytes < 0) std::abort();
  if (memory.has_roles() && memory.allocated > memory.reserved && memory.segments == 0) std::abort();
  jobs::memory_table(memory, nullptr);
  jobs::memory_json(memory, nullptr);
  return 0;
}

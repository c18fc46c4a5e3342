// Any bytes are a trace or an InputError; its times are finite, and its collectives a table that is read.
#include "costmodel/cluster/collective_tables.hpp"
#include "jobs/kineto/trace_collectives.hpp"
#include "tests/fuzz/fuzz_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace panpipe;
  const fuzz::MemoryFile file(fuzz::text_of(data, size));  // a file, so that gzip is tried too
  jobs::KinetoTrace trace;
  if (!fuzz::accepts([&] { trace = jobs::read_kineto_trace(file.path(), 8); })) return 0;
  const jobs::TraceSummary summary = jobs::summary_of(trace, 0);
  for (const double value : {summary.step_us, summary.busy_us, summary.idle_us, summary.exposed_us}) fuzz::must_be_finite(value);
  for (const double value : summary.group_us) fuzz::must_be_finite(value);
  std::string written;
  if (fuzz::accepts([&] { written = to_yaml(jobs::collectives_of(trace, "trace.json"), ""); }))
    fuzz::accepts([&] { parse_collective_tables(written, "again.yaml"); });
  return 0;
}

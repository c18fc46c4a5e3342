// Any bytes are a schedule or an InputError, and what a schedule writes reads back to the same.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "costmodel/base/error.hpp"
#include "costmodel/schedule/schedule.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  panpipe::Schedule schedule;
  try {
    schedule = panpipe::read_schedule_csv(text, "fuzz.csv");
  } catch (const panpipe::InputError&) {
    return 0;
  }
  panpipe::check_schedule(schedule);
  const std::string written = panpipe::to_csv(schedule, false);
  if (panpipe::read_schedule_csv(written, "again.csv").order != schedule.order) std::abort();
  return 0;
}

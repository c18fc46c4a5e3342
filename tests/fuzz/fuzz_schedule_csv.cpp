// Any bytes are a schedule or an InputError; what a schedule writes reads back to the same; a legal one has times.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.hpp"
#include "schedule/schedule.hpp"

namespace {

using panpipe::Schedule;

bool is_same(const Schedule& a, const Schedule& b) {
  return a.order == b.order && a.chains == b.chains && a.stage_to_rank == b.stage_to_rank && a.splits == b.splits &&
         a.microbatches == b.microbatches && a.empty_cells == b.empty_cells;
}

void write_for_torch(const Schedule& schedule) {
  std::string written;
  try {
    written = panpipe::to_csv(schedule, true);
  } catch (const panpipe::InputError&) {
    return;  // PyTorch's format cannot express it
  }
  if (panpipe::read_schedule_csv(written, "torch.csv").stage_to_rank.size() != schedule.stage_to_rank.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  Schedule schedule;
  try {
    schedule = panpipe::read_schedule_csv(text, "fuzz.csv");
  } catch (const panpipe::InputError&) {
    return 0;
  }
  if (!is_same(panpipe::read_schedule_csv(panpipe::to_csv(schedule, false), "again.csv"), schedule)) std::abort();
  if (!panpipe::check_schedule(schedule).empty()) return 0;
  write_for_torch(schedule);
  for (const bool split_groups : {false, true})
    if (!(panpipe::evaluate(schedule, {}, split_groups).makespan > 0)) std::abort();
  return 0;
}

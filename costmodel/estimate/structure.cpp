#include "costmodel/estimate/structure.hpp"

#include <limits>

namespace panpipe {
namespace {

constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

// For every value the task that reads it last; values that the step time is made of are never given up.
std::vector<std::uint32_t> last_uses(const Structure& structure) {
  std::vector<std::uint32_t> last(structure.tasks + 1, 0);
  for (std::uint32_t t = 1; t <= structure.tasks; ++t) last[structure.lane_pred[t]] = last[structure.src[t]] = t;
  for (const std::uint32_t t : structure.lane_last) last[t] = kNever;
  last[0] = kNever;
  return last;
}

}  // namespace

void resize(Structure& structure, std::uint32_t tasks) {
  structure.tasks = tasks;
  const std::size_t size = static_cast<std::size_t>(tasks) + 1;
  structure.lane_pred.resize(size);
  structure.src.resize(size);
  structure.cost.resize(size);
  structure.delay.resize(size);
}

SlotProgram recycle_slots(const Structure& structure) {
  const std::vector<std::uint32_t> last = last_uses(structure);
  SlotProgram program;
  program.tasks = structure.tasks;
  for (auto* list : {&program.lane_pred, &program.src, &program.out}) list->resize(structure.tasks);
  program.cost.assign(structure.cost.begin() + 1, structure.cost.begin() + 1 + structure.tasks);
  program.delay.assign(structure.delay.begin() + 1, structure.delay.begin() + 1 + structure.tasks);
  std::vector<std::uint16_t> slot_of(structure.tasks + 1, 0);
  std::vector<std::uint16_t> free;
  std::uint32_t slots = 1;
  for (std::uint32_t t = 1; t <= structure.tasks; ++t) {
    const std::uint32_t pred = structure.lane_pred[t], src = structure.src[t];
    program.lane_pred[t - 1] = slot_of[pred];
    program.src[t - 1] = slot_of[src];
    // A task reads before it writes, so it may write where it read.
    if (last[src] == t) free.push_back(slot_of[src]);
    if (pred != src && last[pred] == t) free.push_back(slot_of[pred]);
    if (free.empty()) {
      if (slots > std::numeric_limits<std::uint16_t>::max()) return {};
      free.push_back(static_cast<std::uint16_t>(slots++));
    }
    slot_of[t] = program.out[t - 1] = free.back();
    free.pop_back();
    if (last[t] == 0) free.push_back(slot_of[t]);  // nobody reads it
  }
  program.slots = slots;
  for (const std::uint32_t t : structure.lane_last) program.lane_last.push_back(slot_of[t]);
  return program;
}

}  // namespace panpipe

#include "costmodel/estimate/replay.hpp"

#include <unistd.h>

#include <algorithm>

#include "base/index.hpp"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define PANPIPE_X86 1
#endif

namespace panpipe {
namespace {

// One loop, inlined into a function per instruction set. Indices of task t come from arrays, from a structure (value t+1 is task
// t's) or a slot program.
struct StructureIndices {
  const std::uint32_t *lane_pred, *src;
  const std::uint16_t *delay, *cost;
  std::size_t tasks;
  std::size_t out(std::size_t t) const { return t + 1; }
};
struct SlotIndices {
  const std::uint16_t *lane_pred, *src, *delay, *cost;
  std::size_t tasks;
  const std::uint16_t* outs;
  std::size_t out(std::size_t t) const { return outs[t]; }
};

StructureIndices indices_of(const Structure& s) {
  return {s.lane_pred.data() + 1, s.src.data() + 1, s.delay.data() + 1, s.cost.data() + 1, s.tasks};
}
SlotIndices indices_of(const SlotProgram& s) {
  return {s.lane_pred.data(), s.src.data(), s.delay.data(), s.cost.data(), s.tasks, s.out.data()};
}

// The compiler makes one vector operation of the eight, or several, as the processor has them.
template <class Indices>
[[gnu::always_inline]] inline void batch_of(const Indices& program, const Eight* costs, const Eight* delays, Eight* values) {
  for (std::size_t t = 0; t < program.tasks; ++t) {
    const Eight &lane = values[program.lane_pred[t]], &src = values[program.src[t]];
    const Eight &delay = delays[program.delay[t]], &cost = costs[program.cost[t]];
    Eight end;
    for (int k = 0; k < kBatch; ++k) {
      const double arrival = src.value[k] + delay.value[k];
      end.value[k] = (lane.value[k] > arrival ? lane.value[k] : arrival) + cost.value[k];
    }
    values[program.out(t)] = end;
  }
}

#ifdef PANPIPE_X86
template <class Indices>
__attribute__((target("avx2"))) void batch_avx2(Indices program, const Eight* costs, const Eight* delays, Eight* values) {
  batch_of(program, costs, delays, values);
}
template <class Indices>
__attribute__((target("avx512f"))) void batch_avx512(Indices program, const Eight* costs, const Eight* delays, Eight* values) {
  batch_of(program, costs, delays, values);
}
const bool kHasAvx512 = __builtin_cpu_supports("avx512f") != 0, kHasAvx2 = __builtin_cpu_supports("avx2") != 0;
#endif

template <class Indices>
void batch(Indices program, const Eight* costs, const Eight* delays, Eight* values) {
#ifdef PANPIPE_X86
  if (kHasAvx512) return batch_avx512(program, costs, delays, values);
  if (kHasAvx2) return batch_avx2(program, costs, delays, values);
#endif
  batch_of(program, costs, delays, values);
}

template <class Lanes>
Eight latest(const Lanes& lanes, const Eight* values) {
  Eight result{};
  for (const auto last : lanes) {
    for (int k = 0; k < kBatch; ++k) result.value[k] = std::max(result.value[k], values[last].value[k]);
  }
  return result;
}

// Half of the second-level cache, in bytes; the other half is for the program and the tables.
std::size_t cache_for_values() {
#ifdef _SC_LEVEL2_CACHE_SIZE
  const long size = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (size > 0) return static_cast<std::size_t>(size) / 2;
#endif
  return std::size_t{512} << 10;
}

}  // namespace

double replay(const Structure& structure, const double* costs, const double* delays, double* ends) {
  const std::uint32_t* __restrict lane_pred = structure.lane_pred.data();
  const std::uint32_t* __restrict src = structure.src.data();
  const std::uint16_t* __restrict cost = structure.cost.data();
  const std::uint16_t* __restrict delay = structure.delay.data();
  const std::size_t tasks = structure.tasks;
  ends[0] = 0;
  for (std::size_t t = 1; t <= tasks; ++t) {
    const double arrival = ends[src[t]] + delays[delay[t]];
    const double free = ends[lane_pred[t]];
    ends[t] = (free > arrival ? free : arrival) + costs[cost[t]];
  }
  double latest_end = 0;
  for (const std::uint32_t last : structure.lane_last) latest_end = std::max(latest_end, ends[last]);
  return latest_end;
}

BatchProgram::BatchProgram(const Structure& structure, Values values) : structure_(&structure) {
  const std::size_t all = static_cast<std::size_t>(structure.tasks) + 1;
  if (values == Values::Recycle || (values == Values::Automatic && all * sizeof(Eight) > cache_for_values())) {
    slots_ = recycle_slots(structure);
  }
  values_ = recycles() ? slots_.slots : all;
}

Eight BatchProgram::replay(const Eight* costs, const Eight* delays, Eight* values) const {
  values[0] = Eight{};
  if (recycles()) {
    batch(indices_of(slots_), costs, delays, values);
    return latest(slots_.lane_last, values);
  }
  batch(indices_of(*structure_), costs, delays, values);
  return latest(structure_->lane_last, values);
}

}  // namespace panpipe

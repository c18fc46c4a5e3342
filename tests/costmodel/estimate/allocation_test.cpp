// An evaluation allocates nothing: searches do millions.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "costmodel/estimate/replay.hpp"
#include "tests/costmodel/estimate/pipeline_graph.hpp"

namespace {
long allocations = 0;
}

// Counted, then as in the standard. The aligned forms are left alone: they would be counted through malloc's relatives.
// Not inlined: the compiler would take malloc and delete for a mismatched pair.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace panpipe {
namespace {

TEST(Allocation, NoneInReplaysAndRebuilding) {
  const PipelineOrder order = pack(make_schedule("zb-h1", 8, 64));
  StructureBuilder builder;
  Structure structure;
  ASSERT_TRUE(builder.build(order, structure));
  const testing::Tables tables = testing::even_tables(8, 10, 11, 12, 3);
  std::vector<double> ends(structure.tasks + 1);
  const BatchProgram keep(structure, BatchProgram::Values::KeepAll), recycle(structure, BatchProgram::Values::Recycle);
  std::vector<Eight> costs(structure.cost_entries), delays(structure.delay_entries), values(keep.values());
  replay(structure, tables.costs.data(), tables.delays.data(), ends.data());

  const long before = allocations;
  double sum = replay(structure, tables.costs.data(), tables.delays.data(), ends.data());
  sum += keep.replay(costs.data(), delays.data(), values.data()).value[0];
  sum += recycle.replay(costs.data(), delays.data(), values.data()).value[0];
  const bool built = builder.build(order, structure);
  EXPECT_EQ(allocations, before);
  EXPECT_TRUE(built);
  EXPECT_GT(sum, 0);
}

}  // namespace
}  // namespace panpipe

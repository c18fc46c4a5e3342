// What PyTorch's allocator measured: snapshots, summaries, messages; and what differs from a prediction.
#include "jobs/memory/measured_memory.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/text/pickle_writer.hpp"
#include "jobs/memory/memory_compare.hpp"
#include "tests/fault.hpp"

namespace panpipe::jobs {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

struct TestFrame {
  std::string file, name;
};
using Frames = std::vector<TestFrame>;

const Frames kNone, kModule = {{"/site/torch/nn/modules/linear.py", "__init__"}, {"/home/me/model.py", "__init__"}},
                    kForward = {{"/home/me/model.py", "forward"}, {"/home/me/train.py", "step"}},
                    kStates = {{"/site/torch/optim/adam.py", "_init_group"}, {"/site/torch/optim/adam.py", "step"}},
                    kRoots = {{"/site/torch/optim/adam.py", "_multi_tensor_adam"}, {"/home/me/train.py", "step"}};

void write(PickleWriter& out, const Frames& frames) {
  out.text("frames").list();
  for (const TestFrame& frame : frames) out.dict().field("filename", frame.file).field("line", 7).field("name", frame.name).end();
  out.end();
}

struct TestBlock {
  std::int64_t address = 0, size = 0, asked = 0;  // asked 0: unused
  Frames frames = {};
};
struct TestEvent {
  std::string action;
  std::int64_t address = 0, size = 0;
  Frames frames = {};
};

// A segment for each list of blocks.
std::string snapshot(const std::vector<std::vector<TestBlock>>& segments, const std::vector<TestEvent>& events, int device = 0) {
  PickleWriter out;
  out.dict().text("segments").list();
  for (const auto& blocks : segments) {
    std::int64_t size = 0;
    for (const TestBlock& block : blocks) size += block.size;
    out.dict().field("device", device).field("address", blocks.front().address).field("total_size", size).field("stream", 0);
    out.text("blocks").list();
    for (const TestBlock& block : blocks) {
      out.dict().field("size", block.size).field("requested_size", block.asked);
      out.field("state", block.asked > 0 ? "active_allocated" : "inactive");
      write(out, block.frames);
      out.end();
    }
    out.end().end();
  }
  out.end().text("device_traces").list();
  for (int d = 0; d <= device; ++d) {
    out.list();
    for (const TestEvent& event : events) {
      if (d != device) break;
      out.dict().field("action", event.action).field("addr", event.address).field("size", event.size).field("stream", 0);
      write(out, event.frames);
      out.end();
    }
    out.end();
  }
  out.end().text("allocator_settings").dict().field("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64").end();
  return out.end().finish();
}

MeasuredMemory parse(const std::string& bytes) { return parse_measured_memory(bytes, "s.pickle"); }
std::string fault(const std::string& bytes) {
  return test::fault_of([&] { parse(bytes); });
}

// Blocks of 3 + 1 MiB in a segment of 20, of which 16 are unused; one of 12 in its own, wholly unused: no split.
TEST(MemorySnapshot, CountsWhatIsThere) {
  const MeasuredMemory memory =
      parse(snapshot({{{0, 3 * kMiB, 3 * kMiB - 100, kModule}, {3 * kMiB, kMiB, kMiB, kForward}, {4 * kMiB, 16 * kMiB, 0}},
                      {{kMiB << 10, 12 * kMiB, 0}}},
                     {}, 1));
  EXPECT_EQ(memory.device, 1);
  EXPECT_EQ(memory.allocated, 4 * kMiB);
  EXPECT_EQ(memory.requested, 4 * kMiB - 100);
  EXPECT_EQ(memory.reserved, 32 * kMiB);
  EXPECT_EQ(memory.inactive_split, 16 * kMiB);
  EXPECT_EQ(memory.of(MemoryRole::Parameters), 3 * kMiB - 100);
  EXPECT_EQ(memory.of(MemoryRole::Activations), kMiB);
  EXPECT_EQ(memory.settings, "max_split_size_mb:64");
  EXPECT_FALSE(memory.at_peak);
  ASSERT_EQ(memory.largest.size(), 2u);
  EXPECT_EQ(memory.largest[0].largest_gap, 16 * kMiB);
  EXPECT_EQ(memory.holders[0].place, "model.py:7 __init__");
}

// 8 MiB of parameters from before; +6 of activations, +4 of the backward without frames, then 6 freed, +2 of states, which stay:
// the highest point is 8 + 6 + 4 = 18, the end 8 + 4 + 2 = 14. The segment of 20 was taken at first, and one of 40 taken and
// given back.
TEST(MemorySnapshot, FindsThePeakInTheHistory) {
  const std::int64_t a = 8 * kMiB, b = 14 * kMiB, c = 18 * kMiB;
  const MeasuredMemory memory =
      parse(snapshot({{{0, a, a}, {a, 6 * kMiB, 0}, {b, 4 * kMiB, 4 * kMiB}, {c, 2 * kMiB, 2 * kMiB, kStates}}},
                     {{"segment_alloc", 0, 20 * kMiB},
                      {"alloc", a, 6 * kMiB, kForward},
                      {"segment_alloc", kMiB << 10, 40 * kMiB},
                      {"alloc", b, 4 * kMiB},
                      {"free_requested", a, 6 * kMiB},
                      {"free_completed", a, 6 * kMiB},
                      {"segment_free", kMiB << 10, 40 * kMiB},
                      {"alloc", c, 2 * kMiB, kStates}}));
  EXPECT_TRUE(memory.at_peak);
  EXPECT_EQ(memory.peak_requested, 18 * kMiB);
  EXPECT_EQ(memory.peak_reserved, 60 * kMiB);
  EXPECT_EQ(memory.reserved, 20 * kMiB);
  EXPECT_EQ(memory.of(MemoryRole::Activations), 6 * kMiB);
  EXPECT_EQ(memory.of(MemoryRole::Backward), 4 * kMiB);
  EXPECT_EQ(memory.of(MemoryRole::Optimizer), 0);
  EXPECT_EQ(memory.of(MemoryRole::Unknown), 8 * kMiB);  // from before the history
  EXPECT_EQ(memory.events, 8);
}

// A block that was there before the history and was freed in it counts from the beginning: 8 at first, 3 at the end.
TEST(MemorySnapshot, CountsWhatWasFreed) {
  const MeasuredMemory memory =
      parse(snapshot({{{0, 8 * kMiB, 0}, {8 * kMiB, 12 * kMiB, 3 * kMiB}}},
                     {{"free_completed", 0, 8 * kMiB, kForward}, {"alloc", 8 * kMiB, 3 * kMiB, kForward}}));
  EXPECT_EQ(memory.peak_requested, 8 * kMiB);
  EXPECT_EQ(memory.of(MemoryRole::Unknown), 8 * kMiB);
}

TEST(MemorySnapshot, FramesTellTheUse) {
  const auto role = [](const Frames& frames) {
    const MeasuredMemory memory = parse(snapshot({{{0, kMiB, kMiB, frames}}}, {}));
    return memory.holders.front().role;
  };
  EXPECT_EQ(role(kModule), MemoryRole::Parameters);
  EXPECT_EQ(role(kForward), MemoryRole::Activations);
  EXPECT_EQ(role(kStates), MemoryRole::Optimizer);
  EXPECT_EQ(role(kRoots), MemoryRole::Temporary);
  EXPECT_EQ(role(kNone), MemoryRole::Unknown);
  EXPECT_EQ(role({{"/site/torch/nn/modules/module.py", "convert"}, {"/site/torch/nn/modules/module.py", "_apply"}}),
            MemoryRole::Parameters);
  EXPECT_EQ(role({{"accumulate_grad.cpp", "torch::autograd::AccumulateGrad::apply"}}), MemoryRole::Gradients);
  EXPECT_EQ(role({{"/home/me/loss.py", "backward"}, {"/home/me/train.py", "main"}}), MemoryRole::Backward);
  EXPECT_EQ(role({{"/home/me/data.py", "load"}}), MemoryRole::Unknown);
  EXPECT_EQ(
      role({{"/site/torch/distributed/fsdp/_fully_shard/_fsdp_param.py", "_init_sharded_param"}, {"/home/me/train.py", "main"}}),
      MemoryRole::Parameters);
  EXPECT_EQ(role({{"/site/torch/distributed/fsdp/_fully_shard/_fsdp_param.py", "alloc_storage"},
                  {"/site/torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py", "unshard"},
                  {"/home/me/model.py", "forward"}}),
            MemoryRole::Temporary);
  EXPECT_EQ(role({{"/site/torch/nn/parallel/distributed.py", "forward"}, {"/home/me/train.py", "main"}}), MemoryRole::Gradients);
  EXPECT_EQ(role({{"h.3.mlp", "aten::gelu: the result"}, {"step 2", "forward"}, {"panpipe", "activations"}}),
            MemoryRole::Activations);
}

TEST(MemorySnapshot, RefusesWhatIsNone) {
  PickleWriter other;
  other.dict().field("weights", 1).end();
  EXPECT_THAT(fault(other.finish()), HasSubstr("s.pickle: this pickle is no memory snapshot: it has no 'segments'"));
  EXPECT_THAT(fault(snapshot({}, {})), HasSubstr("nothing was allocated"));
  EXPECT_THAT(fault(snapshot({{{0, -5, 0}}}, {})), HasSubstr("'total_size' is -5"));
  EXPECT_THAT(fault(snapshot({{{0, std::int64_t{1} << 60, 1}}}, {})), HasSubstr("'total_size' is 1152921504606846976"));
  EXPECT_THAT(test::fault_of([] {
                parse_measured_memory(snapshot({{{0, 1, 1}}}, {}), "s.pickle", 3);
              }),
              HasSubstr("there is nothing of GPU 3"));
  EXPECT_THAT(fault("no snapshot"), HasSubstr("neither a memory snapshot nor a printed memory summary"));
}

// As torch 2.11 prints it, behind a log's mark.
std::string summary(const std::string& mark) {
  const std::vector<std::string> lines = {"|===========================================================================|",
                                          "|                  PyTorch CUDA memory summary, device ID 2                 |",
                                          "|---------------------------------------------------------------------------|",
                                          "|            CUDA OOMs: 1            |        cudaMalloc retries: 3         |",
                                          "|===========================================================================|",
                                          "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |",
                                          "|---------------------------------------------------------------------------|",
                                          "| Allocated memory      |   1024 KiB |   3000 MiB |   9000 MiB |   8999 MiB |",
                                          "|       from large pool |   1024 KiB |   2990 MiB |   8990 MiB |   8989 MiB |",
                                          "|---------------------------------------------------------------------------|",
                                          "| Requested memory      |   1000 KiB |   2999 MiB |   9000 MiB |   8999 MiB |",
                                          "|---------------------------------------------------------------------------|",
                                          "| GPU reserved memory   |   3500 MiB |   4096 MiB |   4096 MiB |    596 MiB |",
                                          "|---------------------------------------------------------------------------|",
                                          "| Non-releasable memory |     12 MiB |     40 MiB |   7000 MiB |   6988 MiB |",
                                          "|===========================================================================|"};
  std::string text = "step 1\n";
  for (const std::string& line : lines) text += mark + line + "\n";
  return text;
}

TEST(MemorySummary, IsReadFromALog) {
  for (const char* mark : {"", "[rank2]: 12:00:01 "}) {
    const MeasuredMemory memory = parse(summary(mark));
    EXPECT_EQ(memory.source, "summary");
    EXPECT_EQ(memory.device, 2);
    EXPECT_EQ(memory.allocated, kMiB);
    EXPECT_EQ(memory.peak_allocated, 3000 * kMiB);
    EXPECT_EQ(memory.peak_requested, 2999 * kMiB);
    EXPECT_EQ(memory.peak_reserved, 4096 * kMiB);
    EXPECT_EQ(memory.inactive_split, 12 * kMiB);
    EXPECT_EQ(memory.retries, 3);
    EXPECT_EQ(memory.out_of_memory, 1);
    EXPECT_FALSE(memory.has_roles());
  }
}

TEST(MemorySummary, SaysWhatItLacks) {
  const std::string whole = summary("");
  EXPECT_THAT(fault(whole.substr(0, whole.find("| GPU reserved"))), HasSubstr("lacks the rows of allocated and reserved memory"));
}

// 70 GiB of tensors and 5 that only the allocator has.
TEST(MemorySummary, ReadsTheMessageOfAnOutOfMemoryError) {
  const MeasuredMemory memory = parse(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 GiB of which "
      "1.20 "
      "GiB is free. Including non-PyTorch memory, this process has 77.94 GiB memory in use. Of the allocated memory 70.00 GiB is "
      "allocated by PyTorch, and 5.00 GiB is reserved by PyTorch but unallocated.\n");
  EXPECT_EQ(memory.device, 1);
  EXPECT_EQ(memory.peak_allocated, 70 * 1024 * kMiB);
  EXPECT_EQ(memory.peak_reserved, 75 * 1024 * kMiB);
}

// 4 MiB of parameters as predicted, 9 of activations for 6: 50 % more, named first. Unknown bytes have no prediction.
TEST(MemoryCompare, NamesWhatDiffersFirst) {
  const MeasuredMemory memory = parse(snapshot({{{0, 4 * kMiB, 4 * kMiB, kModule}, {4 * kMiB, 9 * kMiB, 9 * kMiB, kForward}}},
                                               {{"alloc", 0, 4 * kMiB, kModule}, {"alloc", 4 * kMiB, 9 * kMiB, kForward}}));
  PredictedMemory predicted;
  predicted.allocated = 10.0 * kMiB;
  predicted.reserved = 20.0 * kMiB;
  predicted.parts = {
      {MemoryUse::Parameters, Bytes(4 * kMiB)}, {MemoryUse::Activations, Bytes(5 * kMiB)}, {MemoryUse::Temporary, Bytes(kMiB)}};
  const auto named = named_rows(memory_rows(memory, &predicted));
  ASSERT_EQ(named.size(), 2u);
  EXPECT_EQ(named[0].part, "reserved");  // 13 for 20: 7 less
  EXPECT_EQ(named[1].part, "activations and temporaries");
  const std::string text = memory_table(memory, &predicted);
  EXPECT_THAT(text, StartsWith("reserved: 13.00 MiB measured for 20.00 MiB predicted, -35.0 %\n"
                               "activations and temporaries: 9.00 MiB measured for 6.00 MiB predicted, +50.0 %\n"));
  EXPECT_THAT(memory_json(memory, &predicted), HasSubstr("\"predicted_bytes\": 4194304"));
  EXPECT_THAT(memory_table(memory, nullptr), ::testing::Not(HasSubstr("predicted")));
}

}  // namespace
}  // namespace panpipe::jobs

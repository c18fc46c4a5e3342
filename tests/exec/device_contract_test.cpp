// Time and memory of an accelerator, read through LibTorch's device-neutral interfaces: held against a device made up here, whose
// clock and allocator are in the test's hands.
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gtest/gtest.h>

#include <sched.h>

#include <atomic>
#include <chrono>
#include <map>
#include <thread>

#include "base/error.hpp"
#include "exec/engine/measure/device_memory.hpp"
#include "exec/engine/profile/core_time.hpp"
#include "exec/engine/profile/stopwatch.hpp"

namespace panpipe::exec {
namespace {

constexpr auto kMadeUp = c10::DeviceType::PrivateUse1;
const c10::Device kDevice(kMadeUp, 0);

// One stream; an event is the device's time when it was recorded.
struct MadeUpGuard final : c10::impl::DeviceGuardImplInterface {
  static inline double now_ms = 0;
  static inline int waits = 0;
  c10::DeviceType type() const override { return kMadeUp; }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void** event, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag flag) const override {
    EXPECT_EQ(flag, c10::EventFlag::BACKEND_DEFAULT) << "without it CUDA's events keep no time";
    if (*event == nullptr) *event = new double;
    *static_cast<double*>(*event) = now_ms;
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<double*>(event); }
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override { ++waits; }
  void synchronizeStream(const c10::Stream&) const override { ++waits; }
  double elapsedTime(void* first, void* second, const c10::DeviceIndex) const override {
    return *static_cast<double*>(second) - *static_cast<double*>(first);
  }
};

// Blocks of 512 bytes, as CUDA's.
struct MadeUpAllocator final : c10::DeviceAllocator {
  c10::CachingDeviceAllocator::DeviceStats stats;
  static MadeUpAllocator& the() {
    static MadeUpAllocator allocator;
    return allocator;
  }
  void count(std::int64_t bytes) {
    const std::int64_t block = (std::abs(bytes) + 511) / 512 * 512 * (bytes < 0 ? -1 : 1);
    for (const auto& [list, change] : {std::pair(&stats.requested_bytes, bytes), {&stats.allocated_bytes, block}}) {
      auto& stat = (*list)[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
      stat.current += change;
      stat.peak = std::max(stat.peak, stat.current);
    }
    // Segments of 2048 bytes, never given back.
    constexpr auto kSum = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    auto& segments = stats.reserved_bytes[kSum];
    segments.current = std::max(segments.current, (stats.allocated_bytes[kSum].current + 2047) / 2048 * 2048);
    segments.peak = std::max(segments.peak, segments.current);
  }
  c10::DataPtr allocate(std::size_t) override { return {}; }
  void copy_data(void*, const void*, std::size_t) const override {}
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override { return stats; }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {
    for (auto* list : {&stats.requested_bytes, &stats.allocated_bytes, &stats.reserved_bytes})
      for (auto& stat : *list) stat.peak = stat.current;
  }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex) override { return {3000, 4000}; }
};

const c10::impl::DeviceGuardImplRegistrar kRegistered(kMadeUp, new MadeUpGuard);

TEST(Stopwatch, ReadsTheDevicesClockWhenAllWorkIsGivenOut) {
  Stopwatch watch(kDevice);
  std::vector<double> forward, backward;
  MadeUpGuard::waits = 0;
  watch.time(forward, [] { MadeUpGuard::now_ms += 3; });
  watch.time(backward, [] { MadeUpGuard::now_ms += 7; });
  MadeUpGuard::now_ms += 100;  // between pieces: nobody's
  watch.time(forward, [] { MadeUpGuard::now_ms += 4; });
  EXPECT_TRUE(forward.empty());
  EXPECT_EQ(MadeUpGuard::waits, 0) << "the device is not made to wait for the host";
  watch.read();
  EXPECT_EQ(MadeUpGuard::waits, 1);
  ASSERT_EQ(forward.size(), 2u);
  EXPECT_NEAR(forward[0], 3e-3, 1e-12);
  EXPECT_NEAR(forward[1], 4e-3, 1e-12);
  ASSERT_EQ(backward.size(), 1u);
  EXPECT_NEAR(backward[0], 7e-3, 1e-12);
  watch.read();
  EXPECT_EQ(forward.size(), 2u);
}

TEST(Stopwatch, OfACpuNeedsNoReading) {
  Stopwatch watch(at::kCPU);
  std::vector<double> samples;
  watch.time(samples, [] {});
  EXPECT_EQ(samples.size(), 1u);
}

// Two threads on one core: each waits while the other computes, half of their time or, where others have the core too, more.
TEST(CoreTime, CountsTheWaitForACore) {
  EXPECT_EQ(waited_between({1, 1}, {4, 2}), 0.25);
  EXPECT_EQ(waited_between({1, 1}, {1, 1}), 0);
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  int core = 0;
  while (!CPU_ISSET(core, &all)) ++core;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  std::atomic<bool> stop = false;
  const auto compute = [&] {
    sched_setaffinity(0, sizeof(one), &one);
    while (!stop) continue;
  };
  const CoreTime begin = core_time();
  std::thread first(compute), second(compute);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const CoreTime end = core_time();
  stop = true;
  first.join();
  second.join();
  if (end.computed == 0) GTEST_SKIP() << "this kernel does not count";
  EXPECT_GT(waited_between(begin, end), 0.4);
  EXPECT_LE(waited_between(begin, end), 1);
}

TEST(DeviceMemory, IsWhatTheAllocatorCounts) {
  c10::SetAllocator(kMadeUp, &MadeUpAllocator::the(), 1);
  MadeUpAllocator& allocator = MadeUpAllocator::the();
  MemoryAccount account;
  DeviceMemory blocks(kDevice, account, DeviceMemory::Count::Allocated), bytes(kDevice, account, DeviceMemory::Count::Requested);
  allocator.count(5000);
  allocator.count(-5000);  // a peak before the step
  allocator.count(100);
  blocks.begin(16);
  allocator.count(700);
  allocator.count(-700);
  allocator.count(300);
  // 100 and 700 at once are 512 + 1024 in blocks; then 100 and 300.
  const MemoryAccount::Trace trace = blocks.end();
  EXPECT_EQ(trace.before, 512);
  EXPECT_EQ(trace.peak, 512 + 1024);
  EXPECT_EQ(trace.reserved, 3 * 2048) << "5000 bytes before the step were 5120 in blocks";
  EXPECT_TRUE(trace.samples.empty());
  EXPECT_EQ(bytes.end().peak, 800);
  EXPECT_EQ(bytes.live(), 400);
  EXPECT_EQ(blocks.live(), 1024);
  EXPECT_EQ(device_bytes(kDevice).free, 3000);
}

TEST(DeviceMemory, OfACpuIsTheRanksAccount) {
  MemoryAccount account;
  DeviceMemory memory(at::kCPU, account, DeviceMemory::Count::Allocated);
  memory.begin(4);
  EXPECT_EQ(memory.live(), account.live());
  const MemoryAccount::Trace trace = memory.end();
  EXPECT_EQ(trace.peak, account.live());
  EXPECT_EQ(trace.reserved, trace.peak) << "it takes no segments";
  EXPECT_EQ(device_bytes(at::kCPU).free, 0) << "a CPU's allocator does not say";
}

}  // namespace
}  // namespace panpipe::exec

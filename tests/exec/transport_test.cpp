// The contract of transports, the same tests for each of them. Ranks are threads here; processes are tested in fault_test.cpp.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/error.hpp"
#include "exec/engine/selftest/contract.hpp"
#include "exec/engine/transport/nccl_fit.hpp"
#include "exec/engine/transport/on_threads.hpp"
#include "exec/engine/transport/transport.hpp"
#include "tests/exec/ports.hpp"
#include "tests/exec/transport_world.hpp"
#include "tests/fault.hpp"

namespace panpipe::exec {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

constexpr auto kDeadline = 20s;  // of waits that must not end by it

class Contract : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "nccl" && !gpus_for(2)) GTEST_SKIP() << "NCCL needs two GPUs";
  }
  at::Device device(const Transport& transport) const {
    return GetParam() == "nccl" ? at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(transport.rank())) : at::Device(at::kCPU);
  }
  TensorSpec spec(const Transport& transport, std::vector<std::int64_t> shape, at::ScalarType dtype = at::kFloat) const {
    return {std::move(shape), dtype, device(transport)};
  }
  // The rule as `panpipe selftest` tries it (exec/engine/selftest/contract.hpp).
  void keeps(const char* name, int size) {
    on(size, [&](Transport& transport) {
      contract_case(name).run(transport, device(transport));
      // Communicators of others may still be connecting through the store that rank 0 keeps.
      transport.leave(kDeadline, "the end of the case");
    });
  }
  void on(int size, const std::function<void(Transport&)>& body, Clock::duration deadline = kDeadline) {
    run_world(GetParam(), size, deadline, body);
  }
};

TEST_P(Contract, EveryRankReachesEveryOther) { keeps("EveryRankReachesEveryOther", 4); }

TEST_P(Contract, MessagesMatchByTagInWhateverOrderTheyAreAwaited) { keeps("MessagesMatchByTagInWhateverOrderTheyAreAwaited", 2); }

TEST_P(Contract, SizesFromNothingToManyPieces) { keeps("SizesFromNothingToManyPieces", 2); }

TEST_P(Contract, EveryTypeArrivesAsItWasSent) { keeps("EveryTypeArrivesAsItWasSent", 2); }

TEST_P(Contract, PartsAreGatheredAndSummed) { keeps("PartsAreGatheredAndSummed", 4); }

TEST_P(Contract, ConnectingBeforehandChangesNothingElse) {
  on(3, [&](Transport& transport) {
    const int me = transport.rank(), next = (me + 1) % 3, before = (me + 2) % 3;
    const Group all = transport.make_group({0, 1, 2}), two = transport.make_group({0, 2});
    transport.connect({{me, next}, {before, me}}, device(transport), kDeadline);
    const at::Tensor sum = at::full({3}, 1.0 + me, device(transport));
    transport.all_reduce(sum, all)->wait(kDeadline, "a test");
    EXPECT_TRUE(at::equal(sum.cpu(), at::full({3}, 6.0)));
    if (me != 1) transport.all_reduce(sum, two)->wait(kDeadline, "a test");
    EXPECT_TRUE(at::equal(sum.cpu(), at::full({3}, me == 1 ? 6.0 : 12.0)));
    for (const int to : {next, before}) {  // one way that was made, and one that was not
      const PendingPtr sent = transport.send(at::full({2}, 10.0 * me + to, device(transport)), to, 4);
      const int from = to == next ? before : next;
      const PendingPtr arriving = transport.receive(spec(transport, {2}), from, 4);
      arriving->wait(kDeadline, "a test");
      EXPECT_TRUE(at::equal(arriving->value.cpu(), at::full({2}, 10.0 * from + me)));
      sent->wait(kDeadline, "a test");
    }
    transport.barrier(kDeadline, "the end");
  });
}

// Until `released` the device does nothing that is given to this thread's stream from now on.
void hold_stream(at::Device device, std::atomic<bool>& released) {
  const auto call = reinterpret_cast<int (*)(void*, void (*)(void*), void*)>(dlsym(RTLD_DEFAULT, "cudaLaunchHostFunc"));
  ASSERT_TRUE(call);
  const c10::impl::VirtualGuardImpl guard(device.type());
  const auto wait = [](void* flag) {
    while (!*static_cast<std::atomic<bool>*>(flag)) std::this_thread::sleep_for(1ms);
  };
  ASSERT_EQ(call(guard.getStreamNativeHandle(guard.getStream(device)), wait, &released), 0);
}

// 4 MiB arrive, are read and let go while the next 4 MiB are awaited: what is let go is free at once, and not when the next have
// come.
TEST_P(Contract, MemoryOfAMessageIsFreeBeforeTheNextHasArrived) {
  if (GetParam() != "nccl") GTEST_SKIP() << "of the allocator of a device";
  constexpr std::int64_t kElements = 1 << 20;
  std::atomic<bool> released{false};
  on(2, [&](Transport& transport) {
    if (transport.rank() == 0) {
      transport.send(at::ones({kElements}, device(transport)), 1, 1)->wait(kDeadline, "a test");
      hold_stream(device(transport), released);
      const PendingPtr second = transport.send(at::ones({kElements}, device(transport)), 1, 2);
      second->wait(kDeadline, "a test");
      transport.barrier(kDeadline, "the end");
      return;
    }
    at::Tensor first;
    {
      const PendingPtr arriving = transport.receive(spec(transport, {kElements}), 0, 1);
      arriving->wait(kDeadline, "a test");
      first = arriving->value;
    }
    EXPECT_EQ(first.sum().item<double>(), kElements);
    const PendingPtr second = transport.receive(spec(transport, {kElements}), 0, 2);
    while (!second->done()) std::this_thread::sleep_for(1ms);  // its memory is there, its data are not
    first.reset();
    // The allocator looks at what has become free when it is asked for more, and the device reports that a little late.
    const auto active = [&] {
      const at::Tensor asks = at::empty({1}, device(transport));
      const auto stats =
          dynamic_cast<c10::DeviceAllocator&>(*c10::GetAllocator(at::kCUDA)).getDeviceStats(device(transport).index());
      return stats.active_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)].current;
    };
    const auto end = Clock::now() + kDeadline;
    while (active() >= 8 * kElements && Clock::now() < end) std::this_thread::sleep_for(1ms);
    EXPECT_LT(active(), 8 * kElements);
    EXPECT_GE(active(), 4 * kElements);
    released = true;
    second->wait(kDeadline, "a test");
    EXPECT_EQ(second->value.sum().item<double>(), kElements);
    transport.barrier(kDeadline, "the end");
  });
}

TEST_P(Contract, AMessageOfAnotherSizeOrTypeIsAnErrorThatNamesBoth) {
  keeps("AMessageOfAnotherSizeOrTypeIsAnErrorThatNamesBoth", 2);
}

TEST_P(Contract, GroupsSumAndSpreadOnTheirOwn) { keeps("GroupsSumAndSpreadOnTheirOwn", 4); }

TEST_P(Contract, SumsOfEveryTypeThatGradientsHave) { keeps("SumsOfEveryTypeThatGradientsHave", 3); }

TEST_P(Contract, GroupsExchangeAsManyRowsAsEachHasForTheOther) { keeps("GroupsExchangeAsManyRowsAsEachHasForTheOther", 4); }

// 3 rows sent, 2 expected: the receiver reports that. Later operations on the group still match.
TEST_P(Contract, AnExchangeOfAnotherNumberOfRowsIsAnErrorThatNamesBoth) {
  if (GetParam() == "nccl") GTEST_SKIP() << "NCCL does not know sizes; ranks exchange them before";
  on(2, [&](Transport& transport) {
    const Group group = transport.make_group({0, 1});
    const bool first = transport.rank() == 0;
    const std::vector<std::int64_t> sent = first ? std::vector<std::int64_t>{0, 3} : std::vector<std::int64_t>{1, 0};
    const std::vector<std::int64_t> received = first ? std::vector<std::int64_t>{0, 1} : std::vector<std::int64_t>{2, 0};
    const PendingPtr exchange = transport.all_to_all(at::zeros({first ? 3 : 1, 4}), sent, received, group);
    EXPECT_EQ(test::fault_of<InternalError>([&] { exchange->wait(kDeadline, "1F2"); }),
              first ? "" : "1F2: rank 0 sent Float[3, 4], expected Float[2, 4]");
    transport.leave(kDeadline, "the end of the case");
  });
}

TEST_P(Contract, ABarrierIsPassedWhenAllHaveReachedIt) {
  std::atomic<int> reached{0};
  on(4, [&](Transport& transport) {
    for (int turn = 1; turn <= 20; ++turn) {
      ++reached;
      transport.barrier(kDeadline, "a barrier");
      EXPECT_GE(reached.load(), 4 * turn);
      transport.barrier(kDeadline, "a barrier");
    }
  });
}

TEST_P(Contract, EverybodysBytesAreGatheredInRankOrder) { keeps("EverybodysBytesAreGatheredInRankOrder", 3); }

TEST_P(Contract, WaitingForWhatNobodySendsEndsAfterTheDeadline) {
  constexpr auto kShort = 2s;
  on(
      2,
      [&](Transport& transport) {
        if (transport.rank() == 1) return std::this_thread::sleep_for(5s);  // stuck: it waits for nobody and computes nothing
        const auto start = Clock::now();
        const std::string fault = test::fault_of<PeerLost>(
            [&] { transport.receive(spec(transport, {1}), 1, 5)->wait(kShort, "0B3, waiting for the gradient"); });
        EXPECT_THAT(fault, HasSubstr("0B3, waiting for the gradient"));
        EXPECT_THAT(fault, HasSubstr("rank 1"));
        // The watch names a stuck rank shortly before the deadline; the upper bound only checks that the wait ends.
        EXPECT_GE(Clock::now() - start, kShort / 2);
        EXPECT_LT(Clock::now() - start, 20 * kShort);
      },
      kShort);
}

TEST_P(Contract, RanksThatWaitForEachOtherAreReportedSo) {
  constexpr auto kShort = 1s;
  on(
      2,
      [&](Transport& transport) {
        EXPECT_THAT(
            test::fault_of<PeerLost>([&] {
              transport.receive(spec(transport, {1}), 1 - transport.rank(), 5)->wait(kShort, transport.rank() ? "1F0" : "0B0");
            }),
            HasSubstr(transport.rank() ? "1F0" : "0B0"));
        std::this_thread::sleep_for(1500ms);  // the other one finds it out by itself
      },
      kShort);
}

TEST_P(Contract, ALongComputationOfAPeerIsNoLoss) {
  constexpr auto kShort = 600ms;
  on(
      2,
      [&](Transport& transport) {
        if (transport.rank() == 1) {
          const auto end = Clock::now() + 1500ms;
          while (Clock::now() < end) {
          }
          transport.send(at::ones({3}, device(transport)), 0, 1)->wait(kShort, "a test");
        } else {
          const PendingPtr arriving = transport.receive(spec(transport, {3}), 1, 1);
          arriving->wait(kShort, "a test");
          EXPECT_EQ(arriving->value.sum().item<double>(), 3.0);
        }
        transport.barrier(5s, "the end");
      },
      kShort);
}

TEST_P(Contract, AnAbortEndsEveryWaitAtOnceWithTheReason) {
  on(3, [&](Transport& transport) {
    if (transport.rank() == 1) {
      std::this_thread::sleep_for(100ms);
      transport.abort("the loss of step 3 is nan");
      std::this_thread::sleep_for(300ms);
      return;
    }
    const auto start = Clock::now();
    EXPECT_EQ(
        test::fault_of<PeerLost>([&] {
          if (transport.rank() == 0)
            transport.receive(spec(transport, {1}), 1, 5)->wait(kDeadline, "0B3");
          else
            transport.barrier(kDeadline, "the start of step 4");
        }),
        std::string(transport.rank() == 0 ? "0B3" : "the start of step 4") + ": rank 1 ended the run: the loss of step 3 is nan");
    EXPECT_LT(Clock::now() - start, 15s);
  });
}

TEST_P(Contract, RanksAgreeOrAreReportedWhoHasWhat) {
  on(3, [&](Transport& transport) {
    agree(transport, {{"plan", "1234"}, {"scenario", "abcd"}}, kDeadline);
    EXPECT_EQ(test::fault_of([&] {
                agree(transport, {{"plan", "1234"}, {"scenario", transport.rank() == 1 ? "beef" : "abcd"}}, kDeadline);
              }),
              "error: the ranks do not have the same scenario:\n  ranks 0, 2: abcd\n  rank 1: beef\n  give every rank the same "
              "files and "
              "options");
  });
}

// A failed send is reported as a lost peer, by the wait for it or the next one, not with Gloo's message.
TEST(GlooTransport, SendingToARankThatIsGoneIsALoss) {
  run_world("gloo", 2, kDeadline, [](Transport& transport) {
    if (transport.rank() == 1) return;  // its connections close
    const at::Tensor large = at::zeros({1 << 18});
    EXPECT_THAT(test::fault_of<PeerLost>([&] {
                  for (std::uint32_t tag = 0; tag < 1000; ++tag) {
                    transport.send(large, 1, tag)->wait(kDeadline, "0F2");
                    std::this_thread::sleep_for(5ms);
                  }
                }),
                AllOf(HasSubstr("0F2: "), HasSubstr("rank 1")));
  });
}

// Rank 0 waits for rank 1, which failed: what rank 1 threw is the cause, and decides how the program ends.
TEST(OnThreads, ThrowTheCauseAndNotTheLossThatItMade) {
  EXPECT_EQ(test::fault_of([] {
              on_threads(make_local_transports(2), [](Transport& transport) {
                if (transport.rank() == 1) throw InputError("the file is empty");
                transport.receive({{1}, at::kFloat}, 1, 5)->wait(kDeadline, "0B3");
              });
            }),
            "error: the file is empty");
}

// Two worlds of threads on this host: their local numbers are not stated, so they count themselves in the order of ranks.
TEST(GlooTransport, RanksFindTheirNumberOnTheHostWhereItIsNotStated) {
  const int port = test::unused_port();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.emplace_back([rank, port] {
      ProcessOptions options = process_options(rank, 3, port, kDeadline);
      options.world.local_reported = rank == 1;  // a stated number stays
      options.world.local_rank = rank == 1 ? 7 : 0;
      options.world.local_size = rank == 1 ? 8 : 1;
      const auto transport = make_gloo_transport(options);
      EXPECT_EQ(transport->local_rank(), rank == 1 ? 7 : rank);
      EXPECT_EQ(transport->local_size(), rank == 1 ? 8 : 3);
      transport->barrier(kDeadline, "the end");
    });
  for (std::thread& rank : ranks) rank.join();
}

TEST(NcclFit, HeadersOfAnotherNcclAreRefusedByName) {
  const NcclFit same{22809, 22809, 80, 80};
  EXPECT_EQ(same.problem(), "");
  EXPECT_EQ((NcclFit{22809, 22900, 80, 80}.problem()), "") << "a later library serves earlier headers";
  const std::string remedy =
      ": compile Panpipe with the headers that this torch package comes with: make build, with its folder in PANPIPE_LIBTORCH if "
      "it is "
      "not the one in .venv";
  // Of 2.21 and 2.28: 48 and 80 bytes.
  EXPECT_EQ((NcclFit{22105, 22809, 48, 80}.problem()),
            "the NCCL transport was compiled with headers of NCCL 2.21.5, whose configuration takes 48 bytes, and LibTorch with "
            "others, "
            "whose takes 80" +
                remedy);
  EXPECT_EQ(
      (NcclFit{22809, 22105, 80, 80}.problem()),
      "the NCCL transport was compiled with headers of NCCL 2.28.9, and the library that is loaded is NCCL 2.21.5" + remedy);
  EXPECT_EQ((NcclFit{22809, 30000, 80, 80}.problem()),
            "the NCCL transport was compiled with headers of NCCL 2.28.9, and the library that is loaded is NCCL 3.0.0" + remedy);
  EXPECT_EQ((NcclFit{22809, 0, 80, 80}.problem()), "") << "inside LibTorch, whose configuration fits";
}

// Where there is no GPU, at least that the module's symbols are all found, and its message.
TEST(NcclModule, LoadsAndReportsThatThereIsNoGpu) {
  const char* bin = std::getenv("PANPIPE_BIN");
  const std::string path = std::string(bin ? bin : ".") + "/panpipe_nccl.so";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "not built: LibTorch comes without CUDA";
  if (gpus_for(1)) GTEST_SKIP() << "this machine has a GPU";
  ASSERT_TRUE(dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL)) << dlerror();
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(module) << dlerror();
  const auto make = reinterpret_cast<Transport* (*)(const ProcessOptions&)>(dlsym(module, "panpipe_make_nccl_transport"));
  ASSERT_TRUE(make);
  EXPECT_EQ(test::fault_of<MachineError>([&] { make(process_options(1, 2, 1, 1s)); }),
            "--transport nccl needs an NVIDIA GPU for every rank, and this process sees none");
}

INSTANTIATE_TEST_SUITE_P(Cpu, Contract, testing::Values("local", "gloo"), [](const auto& one) { return one.param; });
INSTANTIATE_TEST_SUITE_P(Gpu, Contract, testing::Values("nccl"), [](const auto& one) { return one.param; });

}  // namespace
}  // namespace panpipe::exec

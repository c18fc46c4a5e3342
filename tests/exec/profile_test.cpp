// Profiling: robust numbers, windows, units' memory by closed form, and a whole profile that predicts the run it stands for.
#include <ATen/Context.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "exec/engine/profile/profile_rank.hpp"
#include "exec/engine/profile/robust_median.hpp"
#include "exec/engine/profile/unit_profiler.hpp"
#include "exec/engine/run/run.hpp"
#include "exec/engine/training/synthetic_data.hpp"
#include "exec/engine/transport/on_threads.hpp"
#include "exec/engine/worker.hpp"
#include "tests/fault.hpp"

namespace panpipe::exec {
namespace {

TEST(RobustMedian, MedianWithoutTheFarOnes) {
  // Quartiles of 1..9 and 100: 3.25 and 7.75, fences -3.5 and 14.5: 100 goes, and 5 is the median of 1..9.
  const RobustMedian found = robust_median({1, 2, 3, 4, 5, 6, 7, 8, 9, 100});
  EXPECT_DOUBLE_EQ(found.median, 5);
  EXPECT_EQ(found.dropped, 1);
  EXPECT_DOUBLE_EQ(found.spread, (7.0 - 3.0) / 5);
  EXPECT_EQ(robust_median({}).median, 0);
  EXPECT_DOUBLE_EQ(robust_median({3}).median, 3);
}

ProfileRequest request_of(int ranks) {
  ProfileRequest request;
  request.scenario = "exec/small_gpt.yaml";
  request.transport = "local";
  request.ranks = ranks;
  request.repetitions = 5;
  request.seconds = 1;
  return request;
}

TEST(Windows, HoldNeighboursThatFitAndAtLeastOne) {
  const PreparedProfile job(request_of(1));
  const int units = static_cast<int>(job.graph().units.size());
  const auto one_by_one = windows(job.graph(), job.layout, 1);
  ASSERT_EQ(static_cast<int>(one_by_one.size()), units);
  for (int u = 0; u < units; ++u) EXPECT_EQ(one_by_one[u], std::pair(u, u + 1));
  const auto all = windows(job.graph(), job.layout, std::int64_t{1} << 40);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all.front(), std::pair(0, units));
}

TEST(UnitMemory, OfAnMlpHalfByClosedForm) {
  const PreparedProfile job(request_of(1));
  const auto& units = job.graph().units;
  int mlp = 0;
  while (units[mlp].name.find("mlp") == std::string::npos) ++mlp;
  MemoryAccount account;
  DeviceMemory on_cpu(at::kCPU, account, DeviceMemory::Count::Requested);
  const UnitProfiler profiler(job.graph(), job.layout, mlp, mlp + 1, 0);
  const UnitMemory memory = profiler.memory(mlp, on_cpu);
  // A microbatch is b s = 32 rows. Kept: the norm's result (h), the first product's result and the activation's (4h each), and
  // mean and inverse deviation per row. The norm also keeps its input, which comes from outside.
  const std::int64_t row = 4 * 32;
  EXPECT_EQ(memory.saved, 32 * (row + 2 * 4 * row + 8));
  EXPECT_EQ(memory.keeps.size(), 1u);
  // W needs the inputs and result gradients of both products and of the norm; never more than that and all that was saved.
  EXPECT_GE(memory.kept_for_weight, 32 * (row + 4 * row));
  EXPECT_GT(memory.temporary, 0);
}

// The same half under autocast: the same three tensors of 2 bytes an element, each cast or made by a product; the norm computes
// in fp32. The weights' copies are the step's, not the microbatch's.
TEST(UnitMemory, UnderAutocastIsHalfOfWhatProductsKeep) {
  const PreparedProfile job(request_of(1));
  const auto& units = job.graph().units;
  int mlp = 0;
  while (units[mlp].name.find("mlp") == std::string::npos) ++mlp;
  MemoryAccount account;
  DeviceMemory on_cpu(at::kCPU, account, DeviceMemory::Count::Requested);
  const UnitProfiler profiler(job.graph(), job.layout, mlp, mlp + 1, 0, at::kCPU, 0, at::kBFloat16);
  const UnitMemory memory = profiler.memory(mlp, on_cpu);
  const std::int64_t row = 2 * 32;
  EXPECT_EQ(memory.saved, 32 * (row + 2 * 4 * row + 8));
  EXPECT_EQ(memory.keeps.size(), 1u);
}

// The peak of a step of gpipe on one rank: all microbatches are in flight.
std::int64_t peak_of(int microbatches, std::optional<at::ScalarType> autocast) {
  RunRequest request;
  request.scenario = "exec/small_gpt.yaml";
  request.overrides = {"cluster.devices=1", "schedule=gpipe", fmt::format("batch.microbatches={}", microbatches)};
  request.progress = false;
  const PreparedRun run(request);
  const auto transports = make_local_transports(1);
  MemoryAccount account;
  const SeededParameters parameters(run.graph(), run.layout, {0}, 0);
  WorkerOptions options;
  options.autocast = autocast;
  RankSite site{run.graph(), run.plan, run.layout, *transports[0]};
  Worker worker(site, parameters, synthetic_data(run.graph(), 0), options);
  worker.step(0);  // makes the gradients
  account.begin(0);
  worker.step(1);
  return account.end().peak;
}

// A microbatch in flight of a run takes the bytes that the profile states for a forward, and the data.
TEST(UnitMemory, AddsUpToARunsMicrobatchInFlight) {
  const PreparedProfile job(request_of(1));
  Plan whole;
  whole.pipeline = 1;
  whole.schedule = make_schedule("gpipe", 1, 1, {});
  whole.stages.push_back({0, static_cast<int>(job.graph().units.size()), Recompute::None});
  const StageLayout layout = make_stage_layout(job.graph(), whole);
  for (const std::optional<at::ScalarType> autocast : {std::optional<at::ScalarType>(), std::optional(at::kBFloat16)}) {
    MemoryAccount account;
    DeviceMemory on_cpu(at::kCPU, account, DeviceMemory::Count::Requested);
    const UnitMemory kept = UnitProfiler(job.graph(), layout, 0, 1, 0, at::kCPU, 0, autocast).memory(0, on_cpu);
    // Ids and labels are 32 integers of 8 bytes each.
    const std::int64_t data = 2 * 32 * 8;
    EXPECT_EQ((peak_of(6, autocast) - peak_of(2, autocast)) / 4, kept.saved + data) << (autocast ? "autocast" : "fp32");
  }
}

// On threads, as many as were asked for.
Profile profiled(const PreparedProfile& job, std::vector<MeasuredOperator>* operators = nullptr) {
  Profile profile;
  std::vector<std::vector<MeasuredOperator>> rows(static_cast<std::size_t>(job.request.ranks));
  on_threads(make_local_transports(job.request.ranks), [&](Transport& transport) {
    Profile found = profile_rank(job, transport, &rows[static_cast<std::size_t>(transport.rank())]);
    if (transport.rank() == 0) profile = std::move(found);
  });
  if (operators) *operators = rows.front();
  return profile;
}

TEST(Profile, TakesTf32AsTheRunDoes) {
  for (const bool wanted : {true, false}) {
    ProfileRequest request = request_of(1);
    request.only_transfers = true;
    request.overrides = {wanted ? "precision=tf32" : "precision=fp32"};
    profiled(PreparedProfile(request));
    EXPECT_EQ(at::globalContext().allowTF32CuBLAS(), wanted);
    EXPECT_EQ(at::globalContext().allowTF32CuDNN(), wanted);
  }
}

TEST(Profile, OfTwoRanksCoversEveryUnitAndPredictsAStep) {
  const PreparedProfile job(request_of(2));
  const Profile profile = profiled(job);
  ASSERT_EQ(profile.units.size(), job.graph().units.size());
  for (const ProfiledUnit& unit : profile.units) {
    EXPECT_GT(unit.forward, Duration(0)) << unit.name;
    EXPECT_GT(unit.backward, Duration(0)) << unit.name;
    EXPECT_GE(unit.saved, Bytes(0)) << unit.name;
    EXPECT_GT(unit.operators, 0) << unit.name;
  }
  EXPECT_EQ(profile.transfers.size(), 2u) << "each way";
  ASSERT_EQ(profile.collectives.size(), 2u);
  EXPECT_NE(profile.collective("all_reduce", 2), nullptr);
  const TransferTable* work = profile.collective("message", 2);
  ASSERT_NE(work, nullptr) << "what an end of a message computes";
  EXPECT_GE(work->at(Bytes(0)), Duration(0));
  EXPECT_LE(work->at(Bytes(0)), work->at(mib(64)));
  EXPECT_GT(profile.launch, Duration(0));
  EXPECT_GT(profile.memory_bandwidth, gb_per_s(0.1));
  EXPECT_GT(profile.optimizer.time, Duration(0));

  Scenario scenario = job.experiment.scenario;
  use_profile(scenario, std::make_shared<const Profile>(parse_profile(to_yaml(profile), "p.yaml")));
  const Workload workload = make_workload(scenario);
  const CostModel model(scenario, workload);
  EXPECT_TRUE(model.workload(0).unmeasured.empty());
  const Plan plan = make_plan(scenario, model);
  const Metrics figures = metrics(estimate(lower(scenario, plan, model)));
  // At least one rank's work: half of four microbatches of everything, at most all of it and its hand-overs.
  Duration all(0);
  for (const ProfiledUnit& unit : profile.units) all += unit.forward + unit.backward;
  EXPECT_GT(figures.step_time_s, 2 * all.base());
  EXPECT_LT(figures.step_time_s, 8 * all.base() + 0.1);
}

// Column and row: each rank holds half of the inner width, and the whole of what goes in; sums over ranks are not in the times.
TEST(UnitMemory, OfHalfAnMlpHalfByClosedForm) {
  ProfileRequest request = request_of(2);
  request.overrides = {"parallel.tensor=2"};
  const PreparedProfile job(request);
  const auto& units = job.graph().units;
  int mlp = 0;
  while (units[mlp].name.find("mlp") == std::string::npos) ++mlp;
  MemoryAccount account;
  DeviceMemory on_cpu(at::kCPU, account, DeviceMemory::Count::Requested);
  const UnitProfiler profiler(job.graph(), job.layout, mlp, mlp + 1, 0, at::kCPU, 1);
  const UnitMemory memory = profiler.memory(mlp, on_cpu);
  // 32 rows: the norm's result (h), two halves of 4h, mean and inverse deviation.
  const std::int64_t row = 4 * 32;
  EXPECT_EQ(memory.saved, 32 * (row + 2 * 4 * row / 2 + 8));
  EXPECT_EQ(memory.keeps.size(), 1u);
}

TEST(Profile, OfTensorParallelRanksLeavesTheirSumsToTheTables) {
  ProfileRequest request = request_of(4);
  request.overrides = {"cluster.devices=4", "parallel.tensor=2"};
  const PreparedProfile job(request);
  const Profile profile = profiled(job);
  ASSERT_EQ(profile.units.size(), job.graph().units.size());
  for (const ProfiledUnit& unit : profile.units) {
    EXPECT_GT(unit.forward, Duration(0)) << unit.name;
    EXPECT_GT(unit.backward, Duration(0)) << unit.name;
  }
  EXPECT_NE(profile.collective("all_reduce", 2), nullptr) << "of a tensor-parallel group";
  EXPECT_NE(profile.collective("all_reduce", 4), nullptr);

  Scenario scenario = job.experiment.scenario;
  use_profile(scenario, std::make_shared<const Profile>(parse_profile(to_yaml(profile), "p.yaml")));
  const Workload workload = make_workload(scenario);
  const CostModel model(scenario, workload);
  EXPECT_TRUE(model.workload(0).unmeasured.empty());
  for (const UnitCost& unit : model.workload(0).units) {
    if (unit.name.find(".") == std::string::npos) continue;  // halves of layers
    Duration compute(0), sums(0);
    for (const Piece& piece : unit.forward.pieces) (piece.collective ? sums : compute) += piece.time;
    EXPECT_NEAR(compute.base(), profile.unit(unit.name, unit.structure)->forward.base(), 1e-9) << unit.name;
    EXPECT_GT(sums, Duration(0)) << unit.name << ": a sum over the ranks behind its last product";
  }
  const Timeline predicted = estimate(lower(scenario, make_plan(scenario, model), model));
  EXPECT_TRUE(
      std::any_of(predicted.spans.begin(), predicted.spans.end(), [](const Span& span) { return span.lane == Lane::Tensor; }));
}

// One device stands for any of the ranks that split a layer: the same units as two ranks side by side find, no sums over ranks.
TEST(Profile, OfOneDeviceKnowsTheShardsOfATensorParallelRun) {
  ProfileRequest alone = request_of(1), both = request_of(2);
  alone.overrides = both.overrides = {"cluster.devices=4", "parallel.tensor=2"};
  const PreparedProfile one(alone), two(both);
  const Profile single = profiled(one), pair = profiled(two);
  ASSERT_EQ(single.units.size(), pair.units.size());
  for (std::size_t u = 0; u < single.units.size(); ++u) {
    EXPECT_EQ(single.units[u].structure, pair.units[u].structure);
    EXPECT_EQ(single.units[u].saved, pair.units[u].saved) << single.units[u].name;
    EXPECT_EQ(single.units[u].keeps, pair.units[u].keeps) << single.units[u].name;
    EXPECT_EQ(single.units[u].kept_for_weight, pair.units[u].kept_for_weight) << single.units[u].name;
    EXPECT_GT(single.units[u].forward, Duration(0)) << single.units[u].name;
  }
  EXPECT_TRUE(single.transfers.empty() && single.collectives.empty());

  Scenario scenario = one.experiment.scenario;
  use_profile(scenario, std::make_shared<const Profile>(single));
  const Workload workload = make_workload(scenario);
  const CostModel model(scenario, workload);
  EXPECT_TRUE(model.workload(0).unmeasured.empty());
  // A sum over a pair moves every byte once each way over the scenario's link.
  const CollectiveCost sum = model.collective(CollectiveKind::AllReduce, mib(1), {0, 1});
  const Route link = scenario.cluster.route(0, 1);
  EXPECT_NEAR(sum.time.base(), 2 * link.latency.base() + mib(1).base() / link.bandwidth.base(), 1e-9);
}

// A unit keeps the tensors that its operators keep.
TEST(Profile, OperatorByOperator) {
  ProfileRequest request = request_of(1);
  request.operators = "operators.csv";
  const PreparedProfile job(request);
  std::vector<MeasuredOperator> rows;
  const Profile profile = profiled(job, &rows);
  ASSERT_EQ(rows.size(), job.graph().operators.size());
  std::map<int, std::int64_t> saved;
  std::map<std::string, int> with_backward;
  for (const MeasuredOperator& row : rows) {
    const Operator& op = job.graph().operators[row.op];
    EXPECT_GT(row.forward, 0) << op.target;
    saved[op.unit] += row.saved;
    with_backward[op.target] += row.backward > 0;
  }
  for (std::size_t u = 0; u < profile.units.size(); ++u)
    EXPECT_EQ(saved[static_cast<int>(u)], profile.units[u].saved.base()) << profile.units[u].name;
  for (const char* target : {"aten::linear", "aten::gelu", "aten::layer_norm", "aten::scaled_dot_product_attention"})
    EXPECT_GT(with_backward[target], 0) << target;
  const std::string csv = operators_csv(job.graph(), rows);
  EXPECT_EQ(csv.find("unit,module,operator,shapes,forward_us,backward_us,saved_bytes\n"), 0u);
  EXPECT_THAT(csv, testing::HasSubstr("h.0.mlp,transformer.h.0.mlp.c_fc,aten::linear,2x16x32 128x32 128 -> 2x16x128,"));
}

TEST(ProfileFaults, TensorParallelRanksComputeSideBySide) {
  ProfileRequest request = request_of(3);
  request.overrides = {"parallel.tensor=2"};
  EXPECT_EQ(test::diagnostic_of([&] { const PreparedProfile job(request); }).message,
            "tensor-parallel ranks compute side by side, and 2 of them do not divide the 3 that profile");
}

TEST(ProfileFaults, SharedSequencesAreNotMeasured) {
  ProfileRequest request = request_of(1);
  request.overrides = {"parallel.context=2"};
  const Diagnostic fault = test::diagnostic_of([&] { const PreparedProfile job(request); });
  EXPECT_EQ(fault.message, "a profile measures passes of whole sequences, not of the parts that context-parallel ranks share");
  EXPECT_TRUE(fault.text().ends_with("help: profile with parallel.context 1"));
}

TEST(ProfileFaults, MeasuredLayersAreTimesAlready) {
  ProfileRequest request = request_of(1);
  request.overrides = {"workload={layers: workloads/six-layers-with-skip.yaml}"};
  EXPECT_EQ(test::diagnostic_of([&] { const PreparedProfile job(request); }).message,
            "measured layers are times already: there is nothing to profile");
}

}  // namespace
}  // namespace panpipe::exec

// The profile file: reads back to the same numbers, refuses what is wrong, and goes before the cost model's formulas.
#include "costmodel/profile/profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "costmodel/cost/shared_cores.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/plan/plan.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe {
namespace {

using testing::HasSubstr;

Profile small_profile() {
  Profile profile;
  profile.measured = {{"host", "a \"quoted\" host"}, {"ranks", "2"}};
  profile.memory_bandwidth = gb_per_s(12.5);
  profile.launch = micros(4.5);
  profile.optimizer = {"adam", 1000, millis(2)};
  profile.units.push_back({"h.0.attention",
                           "00ff",
                           millis(1.5),
                           millis(3.25),
                           millis(2),
                           millis(1.5),
                           Bytes(4096),
                           {0, 2},
                           Bytes(2048),
                           Bytes(512),
                           0.042,
                           11});
  profile.transfers.push_back({"gloo", 0, 1, {{{Bytes(0), micros(60)}, {mib(1), micros(560)}}}});
  profile.collectives.push_back({"all_reduce", 2, {{{kib(1), micros(100)}, {mib(1), micros(1100)}}}});
  return profile;
}

TEST(Profile, ReadsBackToTheSameNumbers) {
  const Profile profile = small_profile(), again = parse_profile(to_yaml(profile), "p.yaml");
  EXPECT_EQ(to_yaml(again), to_yaml(profile));
  EXPECT_EQ(again.measured, profile.measured);
  ASSERT_EQ(again.units.size(), 1u);
  EXPECT_EQ(again.units[0].backward, millis(3.25));
  EXPECT_EQ(again.units[0].keeps, (std::vector<int>{0, 2}));
  EXPECT_DOUBLE_EQ(again.units[0].spread, 0.042);
  EXPECT_EQ(again.optimizer.parameters, 1000);
  // Half way between 0 B and 1 MiB: 60 + 500 / 2 us.
  EXPECT_NEAR(again.transfer(0, 1)->at(kib(512)).base(), 310e-6, 1e-12);
  EXPECT_EQ(again.transfer(1, 0)->at(Bytes(0)), micros(60)) << "another pair: the table there is";
  EXPECT_NEAR(again.collective("all_reduce", 2)->at(mib(1)).base(), 1100e-6, 1e-12);
  EXPECT_EQ(again.collective("all_reduce", 4), nullptr);
}

TEST(Profile, AUnitIsFoundByNameAndStructure) {
  Profile profile = small_profile();
  profile.units.push_back(profile.units.front());
  profile.units.back().name = "h.1.attention";
  EXPECT_EQ(profile.unit("h.1.attention", "00ff"), &profile.units[1]);
  EXPECT_EQ(profile.unit("h.7.attention", "00ff"), &profile.units[0]) << "an equal one";
  EXPECT_EQ(profile.unit("h.0.attention", "0100"), nullptr) << "the same name in other shapes";
}

// --- use by the cost model ---

constexpr const char* kScenario = R"(panpipe: 1
cluster: {devices: 2, memory: 4 GiB, link: {latency: 1 us, bandwidth: 1 GB/s}}
workload: {model: gpt, layers: 2, hidden: 32, heads: 4, vocabulary: 96, sequence: 16}
batch: {micro: 2, microbatches: 4}
schedule: 1f1b
optimizer: adam
)";

// A ring over two devices: 2 latencies of 1 us, and of 1 MB 2 x 1/2 sent at 1 GB/s; an all-gather is half of that. The profile
// knows all-reduces of 1 KiB to 1 MiB.
TEST(Profile, CollectivesStateWhereTheirTimesComeFrom) {
  Scenario scenario = parse_scenario(kScenario, "s.yaml", ".");
  const Workload workload = make_workload(scenario);
  const auto cost = [&](CollectiveKind kind, Bytes size) { return CostModel(scenario, workload).collective(kind, size, {0, 1}); };
  EXPECT_EQ(cost(CollectiveKind::AllReduce, Bytes(1000000)).source, CostSource::Given);
  EXPECT_NEAR(cost(CollectiveKind::AllReduce, Bytes(1000000)).time.base(), 1.002e-3, 1e-12);
  use_profile(scenario, std::make_shared<Profile>(small_profile()));
  EXPECT_EQ(cost(CollectiveKind::AllReduce, mib(1)).source, CostSource::Interpolated);
  EXPECT_NEAR(cost(CollectiveKind::AllReduce, mib(1)).time.base(), 1.1e-3, 1e-12);
  EXPECT_EQ(cost(CollectiveKind::AllReduce, mib(2)).source, CostSource::Extrapolated);
  EXPECT_EQ(cost(CollectiveKind::AllGather, Bytes(1000000)).source, CostSource::Given);
  EXPECT_NEAR(cost(CollectiveKind::AllGather, Bytes(1000000)).time.base(), 0.501e-3, 1e-12);
}

class WithProfile : public testing::Test {
 protected:
  // Every unit of the scenario's workload with forward 1 ms, backward 2 ms, I 1.5 ms, W 1 ms; saved 100 B.
  void SetUp() override {
    const Scenario scenario = parse_scenario(kScenario, "s.yaml", ".");
    const Workload workload = make_workload(scenario);
    const CostModel model(scenario, workload);
    Profile profile = small_profile();
    profile.units.clear();
    for (const UnitCost& unit : model.units(0).units)
      profile.units.push_back(
          {unit.name, unit.structure, millis(1), millis(2), millis(1.5), millis(1), Bytes(100), {}, Bytes(40), Bytes(7), 0, 3});
    write(profile);
    profile_ = profile;
  }
  void write(const Profile& profile) { test::write_file(file_, to_yaml(profile)); }

  const std::string file_ = test::scratch().file("profile.yaml");
  Profile profile_;
};

// Units from one device, links from elsewhere; the scenario that is written with a result names both again.
TEST_F(WithProfile, SeveralFilesAreOneProfile) {
  Profile units = profile_, links;
  units.transfers.clear(), units.collectives.clear();
  links.measured = {{"host", "another"}};
  links.transfers.push_back({"nccl", 0, 1, {{{Bytes(0), micros(7)}, {mib(1), micros(77)}}}});
  write(units);
  const std::string other = test::write_file(file_ + ".links", to_yaml(links));
  const std::string list = "profile: [" + file_ + ", " + other + "]\n";
  const Scenario scenario = parse_scenario(kScenario + list, "s.yaml", ".");
  ASSERT_NE(scenario.profile, nullptr);
  EXPECT_EQ(scenario.profile->units.size(), units.units.size());
  EXPECT_EQ(scenario.profile->transfer(0, 1)->at(Bytes(0)), micros(7));
  EXPECT_EQ(scenario.profile->measured.at("host"), units.measured.at("host"));
  EXPECT_THAT(resolved_text(scenario), HasSubstr(list.substr(0, list.size() - 1)));

  // The executor runs the step, whatever framework is named.
  const std::string megatron = "framework: {name: megatron, overlap_all_reduce: true, context: 3 GiB}\n";
  EXPECT_TRUE(parse_scenario(kScenario + megatron, "s.yaml", ".").framework.overlap_all_reduce);
  const Framework ours = parse_scenario(kScenario + list + megatron, "s.yaml", ".").framework;
  EXPECT_FALSE(ours.overlap_all_reduce || ours.blocking_transfers || ours.splits_first_backward);
  EXPECT_EQ(ours.gradient_bucket_elements, 0);
  EXPECT_EQ(ours.gradient_storage, GradientStorage::Autograd);
  EXPECT_EQ(ours.hand_over_buffers, HandOverBuffers::Waiting);
  EXPECT_EQ(ours.context, gib(3));

  // Entries of both are the first's; entries of the second alone are taken.
  const Scenario turned = parse_scenario(std::string(kScenario) + "profile: [" + other + ", " + file_ + "]\n", "s.yaml", ".");
  EXPECT_EQ(turned.profile->measured.at("host"), "another");
  EXPECT_EQ(turned.profile->units.size(), units.units.size());
  EXPECT_EQ(turned.profile->optimizer.name, "adam");
  std::filesystem::remove(other);

  for (const auto& [value, message] :
       {std::pair{"[]", "'profile' names no file"}, std::pair{"[nowhere.yaml]", "there is no profile 'nowhere.yaml'"}}) {
    EXPECT_EQ(test::diagnostic_of([&, value = value] {
                parse_scenario(std::string(kScenario) + "profile: " + value + "\n", "s.yaml", ".");
              }).message,
              message);
  }
}

TEST_F(WithProfile, MeasuredTimesMakeTheStep) {
  const Scenario scenario = parse_scenario(std::string(kScenario) + "profile: " + file_ + "\n", "s.yaml", ".");
  const Workload workload = make_workload(scenario);
  const CostModel model(scenario, workload);
  const std::vector<UnitCost>& units = model.workload(0).units;
  EXPECT_EQ(units.front().forward.breakdown.source, CostSource::Measured);
  const Plan plan = make_plan(scenario, model);
  const Timeline timeline = estimate(lower(scenario, plan, model));
  const auto in_stage = [&](int s) { return plan.stages[s].end_unit - plan.stages[s].first_unit; };
  for (const Span& span : timeline.spans) {
    const double length = (span.end - span.start).base();
    if (span.lane == Lane::Compute && span.action.kind == ActionKind::F) {
      EXPECT_NEAR(length, 1e-3 * in_stage(span.action.stage), 1e-12);
    } else if (span.lane == Lane::Compute && span.action.kind == ActionKind::B) {
      EXPECT_NEAR(length, 2e-3 * in_stage(span.action.stage), 1e-12) << "B as measured, not I + W";
    } else if (span.lane == Lane::Receive) {
      // 2 x 16 x 32 floats = 4096 B: 60 us + 4096 / 2^20 x 500 us.
      EXPECT_NEAR(length, 60e-6 + 500e-6 * 4096 / (1 << 20), 1e-9);
    } else if (span.lane == Lane::Compute && span.action.kind == ActionKind::Opt) {
      EXPECT_GT(length, 0) << "2 ms for 1000 elements, by elements";
    }
  }
}

// The compute at the ends of a message is part of their passes, and no longer of the delay between them.
TEST_F(WithProfile, MessagesTakeTheTimeOfTheirEnds) {
  profile_.collectives.push_back({"message", 2, {{{Bytes(0), micros(20)}, {mib(1), micros(120)}}}});
  write(profile_);
  const Scenario scenario = parse_scenario(std::string(kScenario) + "profile: " + file_ + "\n", "s.yaml", ".");
  const Workload workload = make_workload(scenario);
  const CostModel model(scenario, workload);
  const Plan plan = make_plan(scenario, model);
  // One message of 2 x 16 x 32 floats = 4096 B each way per microbatch: 20 us + 4096 / 2^20 x 100 us at both ends.
  const double work = 20e-6 + 100e-6 * 4096 / (1 << 20);
  int passes = 0;
  for (const Span& span : estimate(lower(scenario, plan, model)).spans) {
    const double length = (span.end - span.start).base();
    if (span.lane == Lane::Receive) {
      EXPECT_NEAR(length, 60e-6 + 500e-6 * 4096 / (1 << 20) - 2 * work, 1e-9);
    }
    if (span.lane != Lane::Compute || !span.action.is_compute()) continue;
    const StagePlan& stage = plan.stages[span.action.stage];
    const double of_unit = span.action.kind == ActionKind::F ? 1e-3 : 2e-3;
    EXPECT_NEAR(length, of_unit * (stage.end_unit - stage.first_unit) + work, 1e-11) << to_text(span.action);
    ++passes;
  }
  EXPECT_EQ(passes, 16);
}

// --- ranks that outnumber the cores of the host that was measured ---

class SharedCores : public WithProfile {
 protected:
  // Steps of the scenario over `ranks` ranks of one unit each, no messages, where the profile states these cores.
  double step(int ranks, int microbatches, const std::string& more, std::map<std::string, std::string> measured) {
    profile_.measured = std::move(measured);
    profile_.transfers = {{"gloo", 0, 1, {{{Bytes(0), Duration(0)}, {mib(1), Duration(0)}}}}};
    profile_.collectives.clear();
    write(profile_);
    scenario_ = parse_scenario(
        "panpipe: 1\ncluster: {devices: " + std::to_string(ranks) +
            ", memory: 4 GiB, link: {latency: 1 us, bandwidth: 1 GB/s}}\n"
            "workload: {model: gpt, layers: 2, hidden: 32, heads: 4, vocabulary: 96, sequence: 16, tied_embedding: false}\n"
            "batch: {micro: 2, microbatches: " +
            std::to_string(microbatches) + "}\noptimizer: none\n" + more + "profile: " + file_ + "\n",
        "s.yaml", ".");
    const Workload workload = make_workload(scenario_);
    const CostModel model(scenario_, workload);
    return estimate(lower(scenario_, make_plan(scenario_, model), model)).step_time.base();
  }
  Scenario scenario_;
};

// Three ranks, eight microbatches: one and two ranks are at work in 4 of 10 slots, all three in 6, which last 1.5 times as long
// on two cores: 13 in place of 10. So many ranks cannot do 24 slots of work on two cores in less than 12.
TEST_F(SharedCores, AStepIsAsLongAsCoresNeedForItsWork) {
  const std::map<std::string, std::string> roomy = {{"cores", "4"}, {"ranks", "2"}, {"threads", "1"}, {"device", "cpu"}};
  std::map<std::string, std::string> crowded = roomy;
  crowded["cores"] = "2";
  const double alone = step(3, 8, "", roomy);
  EXPECT_EQ(reported_cores(scenario_, 3), "");
  EXPECT_EQ(step(3, 8, "", {}), alone) << "a profile that does not say";
  EXPECT_NEAR(step(3, 8, "", crowded), 1.3 * alone, 1e-9);
  EXPECT_EQ(
      reported_cores(scenario_, 3),
      "3 ranks share a host of 2 cores, as the profile states it: each pass takes 1.30 times as long as if every rank had cores "
      "of its own. "
      "How long messages wait for a core is not predicted: a measured step is longer. For hosts with more cores change `cores` "
      "in " +
          file_);
  // On GPUs ranks have a device each.
  std::map<std::string, std::string> gpus = crowded;
  gpus["device"] = "cuda";
  EXPECT_EQ(step(3, 8, "", gpus), alone);
  // Two threads each: as many as six ranks.
  std::map<std::string, std::string> threads = crowded;
  threads["threads"] = "2", threads["ranks"] = "1";
  EXPECT_NEAR(step(3, 8, "", threads), (6 * 3 + 2 * (1 + 2)) / 10.0 * alone, 1e-9);
  EXPECT_THAT(reported_cores(scenario_, 3), HasSubstr("3 ranks of 2 threads share a host of 2 cores"));
}

// Times that three ranks measured on two cores are 1.5 times as long already.
TEST_F(SharedCores, AProfileOfAsManyRanksHoldsWhatTheyCostEachOther) {
  const double alone = step(3, 8, "", {{"cores", "3"}, {"ranks", "3"}, {"threads", "1"}});
  EXPECT_NEAR(step(3, 8, "", {{"cores", "2"}, {"ranks", "3"}, {"threads", "1"}}), 1.3 / 1.5 * alone, 1e-9);
  EXPECT_THAT(reported_cores(scenario_, 3),
              HasSubstr("change `cores` in " + file_ + "; it was made with 3 ranks that took turns: profile with --ranks 2"));
  EXPECT_NEAR(step(2, 8, "", {{"cores", "2"}, {"ranks", "3"}, {"threads", "1"}}),
              step(2, 8, "", {{"cores", "2"}, {"ranks", "2"}, {"threads", "1"}}) / 1.5, 1e-9);
}

// Copies of a rank work at the same time: 2 x 2 ranks on two cores, three microbatches each. One slot in two has both positions
// at work.
TEST_F(SharedCores, CopiesOfARankAreRanks) {
  const std::string mesh = "parallel: {pipeline: 2, data: 2}\n";
  const std::map<std::string, std::string> roomy = {{"cores", "4"}, {"ranks", "2"}, {"threads", "1"}};
  std::map<std::string, std::string> crowded = roomy;
  crowded["cores"] = "2";
  const double alone = step(4, 3, mesh, roomy);
  EXPECT_NEAR(step(4, 3, mesh, crowded), (2 * 2 + 2 * 1) / 4.0 * alone, 0.02 * alone) << "the sum of gradients is no compute";
}

// One microbatch on the second of two stages: what I leaves is there when it ends, and W makes a gradient before it adds it.
TEST_F(WithProfile, TheExecutorsPeaksWithWeightGradients) {
  for (ProfiledUnit& unit : profile_.units) unit.kept_for_weight = Bytes(150);
  write(profile_);
  const Scenario scenario = parse_scenario(std::string(kScenario) + "profile: " + file_ + "\n", "s.yaml", ".",
                                           {"schedule=zb-h1", "batch.microbatches=1"});
  const Workload workload = make_workload(scenario);
  const CostModel model(scenario, workload);
  const Plan plan = make_plan(scenario, model);
  const Timeline timeline = estimate(lower(scenario, plan, model));
  const auto device =
      std::find_if(timeline.devices.begin(), timeline.devices.end(), [](const DeviceTimeline& d) { return d.rank == 1; });
  std::int64_t before = 0;  // without gradients, which come with W
  for (const MemoryPart& part : device->static_parts) {
    if (part.use != MemoryUse::Gradients) before += part.bytes.base();
    if (part.use == MemoryUse::BoundaryBuffers) {
      EXPECT_EQ(part.bytes, Bytes(4096)) << "one message waits for its pass";
    }
  }
  const int first = plan.stages[1].first_unit, units = plan.stages[1].end_unit - first;
  std::int64_t rise = 0;  // of W: the largest parameter of a unit, less what the units behind it have let go
  for (int u = first + units - 1; u >= first; --u)
    for (const ParameterUse& use : model.workload(0).units[u].parameters)
      rise = std::max(rise, 4 * use.elements - 150 * (first + units - 1 - u));
  EXPECT_GT(rise, 0);
  const auto at = [&](ActionKind kind) {
    const auto span = std::find_if(timeline.spans.begin(), timeline.spans.end(), [&](const Span& s) {
      return s.device == device->device && s.lane == Lane::Compute && s.action.kind == kind;
    });
    std::int64_t bytes = 0;
    for (const MemorySample& sample : device->memory)
      if (sample.at <= span->start) bytes = sample.allocated.base();
    return bytes - before;
  };
  // I: 150 a unit in the end; on the way 7 over the 100 a unit, and for each unit that is done 50 more.
  EXPECT_EQ(at(ActionKind::I), std::max(150 * units, 100 * units + 50 * (units - 1) + 7));
  EXPECT_EQ(at(ActionKind::W), 150 * units + rise);
}

TEST_F(WithProfile, ZeroBubblePassesAreTheirOwn) {
  const Scenario scenario =
      parse_scenario(std::string(kScenario) + "profile: " + file_ + "\n", "s.yaml", ".", {"schedule=zb-h1"});
  const Workload workload = make_workload(scenario);
  const CostModel model(scenario, workload);
  const Plan plan = make_plan(scenario, model);
  for (const Span& span : estimate(lower(scenario, plan, model)).spans) {
    if (span.lane != Lane::Compute || !span.action.is_compute() || span.action.kind == ActionKind::F) continue;
    const StagePlan& stage = plan.stages[span.action.stage];
    const bool input = span.action.kind == ActionKind::I;
    // The first stage has no input that wants a gradient: its I does nothing, its W is the whole backward.
    const double of_unit = span.action.stage == 0 ? (input ? 0 : 2e-3) : input ? 1.5e-3 : 1e-3;
    EXPECT_NEAR((span.end - span.start).base(), of_unit * (stage.end_unit - stage.first_unit), 1e-12) << to_text(span.action);
  }
}

TEST_F(WithProfile, GradientsComeWithTheFirstBackward) {
  for (const std::string schedule : {"gpipe", "1f1b", "zb-h1"}) {
    const Scenario scenario =
        parse_scenario(std::string(kScenario) + "profile: " + file_ + "\n", "s.yaml", ".", {"schedule=" + schedule});
    const Workload workload = make_workload(scenario);
    const CostModel model(scenario, workload);
    const Plan plan = make_plan(scenario, model);
    const Timeline timeline = estimate(lower(scenario, plan, model));
    for (const DeviceTimeline& device : timeline.devices) {
      std::int64_t whole = 0, gradients = 0;
      for (const MemoryPart& part : device.static_parts) whole += part.bytes.base();
      for (const MemoryPart& part : device.static_parts)
        if (part.use == MemoryUse::Gradients) gradients = part.bytes.base();
      ASSERT_GT(gradients, 0);
      // At time 0 rank 0 has begun its first F already: 100 bytes a unit, and 7 while it runs.
      const StagePlan& stage = plan.stages[device.rank];
      const int begun = device.rank == 0 ? 100 * (stage.end_unit - stage.first_unit) + 7 : 0;
      EXPECT_EQ(device.memory.front().allocated.base(), whole - gradients + begun) << schedule;
      EXPECT_EQ(device.memory.back().allocated.base(), whole) << schedule;
      // Without activations worth the name the peak is behind the first backward.
      EXPECT_GE(device.peak.base(), whole) << schedule;
      // Until the first backward ends there are activations alone.
      const auto first = std::find_if(timeline.spans.begin(), timeline.spans.end(), [&](const Span& span) {
        return span.device == device.device && (span.action.kind == ActionKind::B || span.action.kind == ActionKind::W);
      });
      for (const MemorySample& sample : device.memory) {
        if (sample.at >= first->end) break;
        EXPECT_LT(sample.allocated.base(), whole) << schedule;
      }
    }
  }
}

TEST_F(WithProfile, UnitsThatWereNotMeasuredAreNamed) {
  profile_.units.erase(profile_.units.begin() + 1);
  profile_.units.front().structure = "0";
  write(profile_);
  const Scenario scenario = parse_scenario(std::string(kScenario) + "profile: " + file_ + "\n", "s.yaml", ".");
  const Workload workload = make_workload(scenario);
  const CostModel model(scenario, workload);
  // The erased unit has an equal one in the second layer; the embedding has none.
  EXPECT_EQ(test::diagnostic_of([&] { model.workload(0); }).message,
            "the profile has no times for 1 of 6 units (embedding), and the cluster's devices have no rates");
}

}  // namespace
}  // namespace panpipe

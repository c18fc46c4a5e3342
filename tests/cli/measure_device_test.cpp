// panpipe measure-device: the file that measurements make, by closed forms; what it refuses; and this machine's CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/error.hpp"
#include "cli/measure_device/device_file.hpp"
#include "cli/measure_device/measured_rates.hpp"
#include "cli/measure_device/other_work.hpp"
#include "costmodel/cluster/cluster_reader.hpp"
#include "costmodel/profile/calibration.hpp"
#include "costmodel/profile/measured_keys.hpp"
#include "tests/cli/program.hpp"
#include "tests/exec/processes.hpp"

namespace panpipe::test {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using testing::HasSubstr;

ordered_json line(const std::string& quantity, double median, ordered_json more) {
  more["quantity"] = quantity;
  more["median"] = median;
  more["spread"] = 0.02;
  more["samples"] = 10;
  return more;
}

// A card of our own: 100 TFLOP/s in bf16, 1 TB/s, 20 GB/s to it and 25 GB/s from it.
cli::MeasuredDevice own_card() {
  cli::MeasuredDevice device;
  device.name = "A card of our own";
  device.gpu = true;
  device.facts = {{"date", "2026-11-28"}, {"memory", 24LL << 30}};
  const double flops = 2.0 * 4096 * 4096 * 4096;  // 1.374e11: 1.374 ms at 100 TFLOP/s
  device.quantities.push_back(
      line("product", flops / 1e14, {{"form", "bf16"}, {"m", 4096}, {"n", 4096}, {"k", 4096}, {"flops", flops}}));
  // Half of that rate.
  device.quantities.push_back(
      line("product", flops / 2 / 5e13, {{"form", "bf16"}, {"m", 4096}, {"n", 2048}, {"k", 4096}, {"flops", flops / 2}}));
  for (const double size : {1e6, 1e8, 2e8, 4e8}) {
    const double rate = size < 1e7 ? 1e11 : 1e12;
    device.quantities.push_back(line("copy", 2 * size / rate, {{"size", size}, {"bytes", 2 * size}}));
    device.quantities.push_back(line("elementwise", 3 * size / (0.9 * rate), {{"size", size}, {"bytes", 3 * size}}));
  }
  device.quantities.push_back(line("host_copy", 64e6 / 20e9, {{"form", "pinned"}, {"way", "to_device"}, {"bytes", 64e6}}));
  device.quantities.push_back(line("host_copy", 64e6 / 25e9, {{"form", "pinned"}, {"way", "from_device"}, {"bytes", 64e6}}));
  device.quantities.push_back(line("kernel_gap", 2e-6, ordered_json::object()));
  device.quantities.push_back(line("launch", 4e-6, ordered_json::object()));
  // At 4096 tokens 1 ms forward and 3.125 ms backward for 5e10 FLOPs; at 512 the same time for half of the work.
  for (const auto& [tokens, work] : {std::pair{4096, 5e10}, {512, 2.5e10}}) {
    device.quantities.push_back(line("attention_forward", 1e-3, {{"tokens", tokens}, {"head", 128}, {"flops", work}}));
    device.quantities.push_back(line("attention_backward", 3.125e-3, {{"tokens", tokens}, {"head", 128}, {"flops", 2.5 * work}}));
  }
  return device;
}

std::string written(const cli::MeasuredDevice& device) {
  const std::string file = temporary_folder() + "/card.yaml";
  write_file(file, cli::device_file(device));
  return file;
}

DeviceType read(const std::string& file) {
  ReadLog log;
  DeviceType type = load_device(file, "", log);
  log.throw_if_errors();
  return type;
}

TEST(MeasuredDevice, ItsFileReadsBackAsTheNumbersMeasured) {
  const DeviceType type = read(written(own_card()));
  EXPECT_EQ(type.memory, gib(24));
  EXPECT_NEAR(type.peak_for(Precision::Bf16).base(), 1e14, 1e8);
  EXPECT_NEAR(type.memory_bandwidth.base(), 1e12, 1e6);
  EXPECT_NEAR(type.copy_bandwidth.base(), 20e9, 1e3);  // the slower way
  const Calibration numbers = calibration_for(type);
  // One product at the peak and one at half of it: three quarters in the median. (Without multiprocessors there are no waves.)
  EXPECT_NEAR(numbers.gemm_efficiency, 0.75, 1e-3);
  EXPECT_NEAR(numbers.memory_efficiency, 0.9, 1e-3);
  // 5e10 x (1 + 3.125) / (1e14 x 4.125 ms) = 0.5.
  EXPECT_NEAR(numbers.attention_efficiency, 0.5, 1e-3);
  // Twice the time for the same work: (1 + r / 512) / (1 + r / 4096) = 2, so r = 1 / (1 / 512 - 2 / 4096) = 682.7.
  EXPECT_NEAR(numbers.attention_ramp, 682.7, 0.1);
  EXPECT_NEAR(numbers.kernel_gap.base(), 2e-6, 1e-12);
  // The executor's launches are not a trainer's: the a-priori value stays.
  EXPECT_EQ(numbers.launch, Calibration().launch);
  EXPECT_FALSE(numbers.values.contains("launch"));
}

TEST(MeasuredDevice, GivesTheNumbersThatEvidenceCountsOn) {
  for (const bool gpu : {true, false}) {
    cli::MeasuredDevice device = own_card();
    device.gpu = gpu;
    ordered_json product = device.quantities.front();
    for (const char* form : {"fp8", "fp32"}) {
      product["form"] = form;
      device.quantities.push_back(product);
    }
    std::set<std::string> given, promised;
    for (const cli::MeasuredNumber& number : cli::calibration_of(device)) given.insert(number.key);
    for (const MeasuredKey& key : kMeasuredKeys)
      if (device_measures(key.key, gpu)) promised.insert(std::string(key.key));
    EXPECT_EQ(given, promised) << (gpu ? "GPU" : "CPU");
  }
}

// The numbers' relative uncertainties, at least; what the file states of other work.
void expect_wider(cli::MeasuredDevice device, double faster, const std::string& sign) {
  cli::note_other_work(device);
  ASSERT_FALSE(device.notes.empty()) << sign;
  EXPECT_NEAR(device.facts["may_be_faster"], faster, 1e-9);
  EXPECT_THAT(device.notes[0], HasSubstr("DISTURBED"));
  EXPECT_THAT(device.notes[1], HasSubstr(sign));
  for (const cli::MeasuredNumber& number : cli::calibration_of(device)) {
    EXPECT_GE(number.uncertainty, faster * number.value * (1 - 1e-9)) << number.key;
    EXPECT_THAT(number.source, HasSubstr("measured beside other work")) << number.key;
  }
  const std::string text = cli::device_file(device);
  EXPECT_THAT(text, HasSubstr("may_be_faster: "));
  EXPECT_THAT(text, HasSubstr(sign));
  EXPECT_THAT(cli::device_text(device), HasSubstr("note: DISTURBED"));
  EXPECT_NEAR(read(written(device)).may_be_faster, faster, 1e-9);  // and it is still a device file
}

TEST(MeasuredDevice, BesideOtherWorkIsWiderAndSaysSo) {
  cli::MeasuredDevice alone = own_card();
  alone.facts["waited"] = 0.01;
  alone.facts["busy_before"] = 0.0;
  cli::note_other_work(alone);
  EXPECT_TRUE(alone.notes.empty());
  EXPECT_FALSE(alone.facts.contains("may_be_faster"));

  // A fifth of the time somebody else had the core: alone a quarter faster.
  cli::MeasuredDevice host = own_card();
  host.gpu = false;
  host.quantities[0]["form"] = "fp32";
  host.facts["waited"] = 0.2;
  expect_wider(host, 0.25, "waited 20.0 % of their time for a core");
  host.facts["waited"] = 0.8;
  expect_wider(host, 4, "waited 80.0 %");
  // Threads of a GPU's host wait without an effect on its times.
  cli::MeasuredDevice card = own_card();
  card.facts["waited"] = 0.8;
  cli::note_other_work(card);
  EXPECT_TRUE(card.notes.empty());
  card.facts["busy_before"] = 0.2;
  expect_wider(card, 0.25, "busy for 20.0 % of the time just before");

  cli::MeasuredDevice hot = own_card();
  hot.facts["clock_mhz"] = {{"median", 1200}, {"top", 1800}};
  hot.facts["too_hot"] = true;
  expect_wider(hot, 0.5, "because of heat");

  cli::MeasuredDevice uneven = own_card();
  uneven.quantities.push_back(uneven.quantities[0]);
  for (ordered_json& each : uneven.quantities)
    if (each["quantity"] == "product") each["spread"] = 0.3;
  expect_wider(uneven, 0.3, "differ by 30.0 %");
}

TEST(MeasuredDevice, AnswersWithADisturbedOneHaveACaution) {
  const auto answered = [](const std::string& verb, const cli::MeasuredDevice& device) {
    return json::parse(answer_of(
        verb +
        " --json scenarios/examples/gpt2-large-rtx3090x8.yaml --set precision=bf16 --set cluster.device=" + written(device)));
  };
  cli::MeasuredDevice device = own_card();
  EXPECT_FALSE(answered("estimate", device).contains("cautions"));
  device.facts["busy_before"] = 0.2;
  cli::note_other_work(device);
  const std::string caution = "A card of our own was measured while other work ran on it: alone it may be 1.25 times as fast";
  EXPECT_THAT(answered("estimate", device)["cautions"].dump(), HasSubstr(caution));
  EXPECT_THAT(answered("plan", device)["candidates"][0]["cautions"].dump(), HasSubstr(caution));
}

TEST(MeasuredDevice, SaysFromWhichSizeCopiesReachTheirRate) {
  EXPECT_DOUBLE_EQ(cli::saturates_at(own_card()), 1e8);  // the copy of 1 MB runs at a tenth
}

TEST(MeasuredDevice, OfAShippedCardTheSharesAreOfItsDataSheet) {
  cli::MeasuredDevice device = own_card();
  device.name = "NVIDIA A100-SXM4-80GB";
  const DeviceType type = read(written(device));
  EXPECT_EQ(type.peak_for(Precision::Bf16), ComputeRate(312e12));
  EXPECT_EQ(type.server, "dgx-a100-80g");
  const Calibration numbers = calibration_for(type), shipped = load_calibration("a100-80g-sxm", "");
  EXPECT_NEAR(numbers.memory_efficiency, 0.9e12 / 2039e9, 1e-3);
  // What nothing here measures is the shipped file's.
  EXPECT_EQ(numbers.launch, shipped.launch);
  EXPECT_EQ(numbers.overlap_loss, shipped.overlap_loss);
  EXPECT_THAT(numbers.sources.at("launch"), HasSubstr("not measured; a100-80g-sxm"));
}

// The H100's file has a rate for earlier software too. A card that multiplies more slowly does so with that software as well.
TEST(MeasuredDevice, EarlierProductsAreScaledWithTheMeasuredOnes) {
  cli::MeasuredDevice device = own_card();
  device.name = "NVIDIA H100 80GB HBM3";
  const Calibration numbers = calibration_for(read(written(device))), shipped = load_calibration("h100-sxm", "");
  ASSERT_GT(shipped.earlier_gemm_efficiency, 0);
  EXPECT_NEAR(numbers.earlier_gemm_efficiency / numbers.gemm_efficiency,
              shipped.earlier_gemm_efficiency / shipped.gemm_efficiency, 1e-3);
  EXPECT_THAT(numbers.sources.at("earlier_gemm_efficiency"), HasSubstr("times this card's gemm_efficiency"));
}

// Sums of two tensors, 0.9 TB/s, stand for copies that were not measured; without both no step's time is known.
TEST(MeasuredDevice, WithoutCopiesTheSumsAreItsBandwidth) {
  cli::MeasuredDevice device = own_card();
  const auto drop = [&](const char* quantity) {
    std::erase_if(device.quantities, [&](const ordered_json& each) { return each["quantity"] == quantity; });
  };
  drop("copy");
  const DeviceType type = read(written(device));
  EXPECT_NEAR(type.memory_bandwidth.base(), 0.9e12, 1e6);
  EXPECT_NEAR(calibration_for(type).memory_efficiency, 1, 1e-3);
  drop("elementwise");
  EXPECT_THROW(cli::device_file(device), MachineError);
}

TEST(MeasuredDevice, AnEstimateUsesIt) {
  const std::string file = written(own_card());
  const std::string scenario = temporary_folder() + "/s.yaml";
  write_file(scenario, "panpipe: 1\ncluster: {devices_per_node: 1, device: " + file +
                           "}\nworkload: {model: gpt2}\nbatch: {micro: 4, microbatches: 1}\nprecision: bf16\n");
  const double fast = json::parse(answer_of("estimate " + scenario + " --json"))["metrics"]["step_time_s"];
  cli::MeasuredDevice half = own_card();
  for (ordered_json& each : half.quantities) each["median"] = 2 * each["median"].get<double>();
  write_file(file, cli::device_file(half));
  const double slow = json::parse(answer_of("estimate " + scenario + " --json"))["metrics"]["step_time_s"];
  EXPECT_GT(slow, 1.2 * fast);  // all but the host's part and the time of a step's frame
}

TEST(MeasureDevice, RefusesWhatItCannotMeasureBeforeItStarts) {
  EXPECT_THAT(refusal_of("measure-device -o " + temporary_folder()), HasSubstr("choose another file with -o"));
}

TEST(MeasureDevice, MeasuresThisProcessor) {
  const char* bin = std::getenv("PANPIPE_BIN");
  if (bin == nullptr || !std::filesystem::exists(std::string(bin) + "/panpipe-exec"))
    GTEST_SKIP() << "this build has no executor";
  const std::string file = temporary_folder() + "/cpu.yaml";
  const json document = json::parse(answer_of("measure-device --device cpu --minutes 0.1 --json -o " + file));
  int products = 0;
  for (const json& each : document["quantities"]) {
    if (each["quantity"] != "product") continue;
    ++products;
    // 2 m n k is its work, and a rate times its time gives that back.
    EXPECT_EQ(each["flops"].get<double>(), 2.0 * each["m"].get<double>() * each["n"].get<double>() * each["k"].get<double>());
    EXPECT_GT(each["median"], 0.0);
    EXPECT_GE(each["samples"], 3);
  }
  EXPECT_GT(products, 0);
  EXPECT_GE(document["measured"]["waited"], 0.0);
  EXPECT_LE(document["measured"]["waited"], 1.0);
  // What is not waited for shows in no note.
  const bool noted = document["notes"].dump().find("of their time for a core") != std::string::npos;
  EXPECT_EQ(noted, document["measured"]["waited"] > 0.05) << document["measured"] << document["notes"];
  const DeviceType type = read(file);
  EXPECT_EQ(type.kind, "cpu");
  const Calibration numbers = calibration_for(type);
  for (const json& number : document["calibration"]) EXPECT_TRUE(numbers.values.contains(number["key"])) << number;
  EXPECT_GT(numbers.gemm_efficiency, 0);
}

}  // namespace
}  // namespace panpipe::test

// Traces of PyTorch's profiler: kernels by group, steps, collectives, and what is no trace.
#include "jobs/kineto/kineto_trace.hpp"
#include "base/index.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>

#include "costmodel/prediction/prediction.hpp"
#include "jobs/kineto/trace_collectives.hpp"
#include "jobs/kineto/trace_compare.hpp"
#include "present/result/result.hpp"
#include "tests/jobs/job_values.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe::jobs {
namespace {

using ::testing::HasSubstr;

const std::string kTwoSteps = "jobs/data/kineto-2-steps.json";

double of(const TraceSummary& summary, KernelGroup group) { return summary.group_us[at(group)]; }
KinetoTrace parse(const std::string& text) { return parse_kineto_trace(text, "t.json", 8); }
std::string fault(const std::string& text) {
  return fault_of([&] { parse(text); });
}

TEST(KernelGroups, NamesOfKernels) {
  const auto group = [](const char* name) { return group_of_kernel("kernel", name, ""); };
  EXPECT_EQ(group("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT"), KernelGroup::Products);
  EXPECT_EQ(group("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_nn"), KernelGroup::Products);
  EXPECT_EQ(group("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16"), KernelGroup::Attention);
  EXPECT_EQ(group("void cutlass::device_kernel<flash::FlashAttnFwdSm90<...>>"), KernelGroup::Attention);
  EXPECT_EQ(group("void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float>"), KernelGroup::Attention);
  EXPECT_EQ(group("void at::native::LogSoftMaxForward<float>"), KernelGroup::Elementwise);
  EXPECT_EQ(group("triton_poi_fused_mul_silu_3"), KernelGroup::Elementwise);
  EXPECT_EQ(group("void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel<...>"), KernelGroup::Normalization);
  EXPECT_EQ(group("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL"), KernelGroup::ReduceScatter);
  EXPECT_EQ(group("ncclKernel_AllGather_RING_LL_Sum_int8_t"), KernelGroup::AllGather);
  EXPECT_EQ(group("ncclDevKernel_SendRecv"), KernelGroup::SendReceive);
  EXPECT_EQ(group_of_kernel("kernel", "ncclDevKernel_SendRecv", "all_to_allv"), KernelGroup::AllToAll);
  EXPECT_EQ(group_of_kernel("gpu_memset", "Memset", ""), KernelGroup::Copies);
  EXPECT_EQ(group("my_kernel"), KernelGroup::Other);
}

// PyTorch's element-wise kernels name the lambda that they run; Apex's LAMB is an optimizer all the same.
TEST(KernelGroups, ALambdaIsNoOptimizer) {
  const auto group = [](const char* name) { return group_of_kernel("kernel", name, ""); };
  EXPECT_EQ(
      group("void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::silu_kernel(at::"
            "TensorIteratorBase&)::{lambda()#1}::operator()() const::{lambda()#5}::operator()() const::{lambda(c10::BFloat16)"
            "#1}, std::array<char*, 2ul> >(int, at::native::(anonymous namespace)::silu_kernel)"),
      KernelGroup::Elementwise);
  EXPECT_EQ(group("void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::"
                  "{lambda()#3}::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}>"),
            KernelGroup::Elementwise);
  EXPECT_EQ(group("void (anonymous namespace)::elementwise_kernel_with_index<int, at::native::arange_cuda_out(c10::Scalar const&)"
                  "::{lambda()#1}::operator()() const::{lambda(long)#1}>"),
            KernelGroup::Elementwise);
  EXPECT_EQ(group("void lamb_cuda_kernel_part1<float, float, 512>"), KernelGroup::Optimizer);
}

TEST(KinetoTrace, NamesSteerNoTerminal) {
  const KinetoTrace trace = parse(R"([{"ph": "X", "cat": "kernel", "name": "my_\u001b[2J\u009b_\nname", "ts": 1, "dur": 2}])");
  EXPECT_THAT(trace_table(trace, summary_of(trace, 0), nullptr), HasSubstr("  1 x my_ [2J  _ name: "));
}

// The file's arithmetic, a step: 300 us of products, attention from 300 to 400, an all-reduce from 350 (the second step: 360) to
// 500, of which attention hides the part until 400; 50 us element-wise, 30 of normalization, the optimizer from 600 to 700, a
// copy to 720; nothing from 580 to 600 and from 720 to 1000.
TEST(KinetoTrace, GroupsOfAStep) {
  const KinetoTrace trace = read_kineto_trace(kTwoSteps, 8);
  EXPECT_EQ(trace.steps, 2);
  EXPECT_EQ(trace.rank, 3);
  EXPECT_EQ(trace.world, 8);
  const TraceSummary summary = summary_of(trace, 0);
  EXPECT_EQ(summary.steps, 2);
  EXPECT_DOUBLE_EQ(summary.step_us, 1000);
  EXPECT_DOUBLE_EQ(of(summary, KernelGroup::Products), 300);
  EXPECT_DOUBLE_EQ(of(summary, KernelGroup::Attention), 100);
  EXPECT_DOUBLE_EQ(of(summary, KernelGroup::AllReduce), 145);
  EXPECT_DOUBLE_EQ(of(summary, KernelGroup::Elementwise), 50);
  EXPECT_DOUBLE_EQ(of(summary, KernelGroup::Normalization), 30);
  EXPECT_DOUBLE_EQ(of(summary, KernelGroup::Optimizer), 100);
  EXPECT_DOUBLE_EQ(of(summary, KernelGroup::Copies), 20);
  EXPECT_DOUBLE_EQ(summary.exposed_us, 100);
  EXPECT_DOUBLE_EQ(summary.idle_us, 300);
  EXPECT_DOUBLE_EQ(summary.busy_us, 700);
}

TEST(KinetoTrace, CollectivesByGroupAndSize) {
  const KinetoTrace trace = read_kineto_trace(kTwoSteps, 4);
  ASSERT_EQ(trace.collectives.size(), 1U);
  const auto& [form, times] = *trace.collectives.begin();
  EXPECT_EQ(form, TracedForm(KernelGroup::AllReduce, 8, 2, 2 * 1048576));  // bf16; eight ranks on nodes of four
  EXPECT_EQ(times.count, 2);
  EXPECT_DOUBLE_EQ(times.least_us, 140);
  const CollectiveTables tables = collectives_of(trace, "t.json");
  ASSERT_EQ(tables.tables.size(), 1U);
  EXPECT_EQ(tables.tables[0].kind, "all_reduce");
  EXPECT_EQ(tables.tables[0].ranks, 8);
  EXPECT_EQ(tables.tables[0].nodes, 2);
  EXPECT_DOUBLE_EQ(tables.tables[0].times.points[0].second.base(), 140e-6);
  EXPECT_EQ(parse_collective_tables(to_yaml(tables, ""), "again.yaml").tables.size(), 1U);
}

TEST(KinetoTrace, AGzippedFileIsTheSame) {
  const std::string path = test::scratch().file("trace.json.gz");
  std::string text(1 << 14, '\0');
  const gzFile from = gzopen(kTwoSteps.c_str(), "rb");  // zlib reads plain files too
  text.resize(gzread(from, text.data(), static_cast<unsigned>(text.size())));
  gzclose(from);
  const gzFile to = gzopen(path.c_str(), "wb");
  ASSERT_EQ(gzwrite(to, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
  gzclose(to);
  EXPECT_EQ(summary_of(read_kineto_trace(path, 8), 0).idle_us, 300);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  EXPECT_THAT(fault_of([&] { read_kineto_trace(path, 8); }), HasSubstr(path));
}

TEST(KinetoTrace, WhatIsNoTrace) {
  EXPECT_EQ(fault(""), "error: t.json: byte 1: this is no JSON");
  EXPECT_THAT(fault(R"({"traceEvents": [{"ph": "X",})"), HasSubstr("t.json: byte 29: this is no JSON"));
  EXPECT_THAT(fault("{}"), HasSubstr("t.json: there are no 'traceEvents'\n  help: give what torch.profiler's"));
  EXPECT_THAT(fault(R"({"traceEvents": []})"), HasSubstr("t.json: there are no kernels among the events"));
  EXPECT_THAT(fault(std::string(100, '[')), HasSubstr("t.json: nested deeper than 64; this is no trace"));
  EXPECT_THAT(fault("{\"a\": \"" + std::string(5 << 20, 'x') + "\"}"), HasSubstr("t.json: a text of more than 4 MiB"));
  EXPECT_THAT(fault_of([] { read_kineto_trace("there/is/none.json", 8); }), HasSubstr("there/is/none.json: cannot be read"));
  // Values of the wrong kind are no events, and numbers out of any range do no harm.
  EXPECT_THAT(fault(R"([{"ph": "X", "cat": "kernel", "name": 3, "ts": "1", "dur": 2, "args": [{"device": {}}]},
                        {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1e300, "dur": 2},
                        {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1, "dur": -2}])"),
              HasSubstr("no kernels among the events"));
  const KinetoTrace list =
      parse(R"([{"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1, "dur": 2, "args": {"Group size": 1e99}}])");
  EXPECT_DOUBLE_EQ(summary_of(list, 0).step_us, 2);
}

// A predicted trace, read back: its collectives and sends are those of the timeline.
TEST(KinetoTrace, APredictedTraceReadsBack) {
  const Scenario scenario = parse_scenario(
      "panpipe: 1\ncluster: clusters/h100x8.yaml\nworkload: {model: gpt2, sequence: 512}\nbatch: {micro: 1, microbatches: "
      "4}\n"
      "parallel: {pipeline: 2, tensor: 2, data: 2}\nprecision: bf16\n",
      "s.yaml", ".");
  const Experiment experiment(scenario);
  const Plan plan = experiment.plan("");
  const Prediction prediction = predict(experiment, plan);
  const PredictedGroups groups = predicted_groups(experiment, plan, prediction, 0);
  const TraceSummary read = summary_of(parse(present::to_trace_json(prediction.timeline)), 1);
  EXPECT_NEAR(of(read, KernelGroup::AllReduce), groups.group_us[at(KernelGroup::AllReduce)],
              0.5 * of(read, KernelGroup::AllReduce));
  EXPECT_GT(groups.group_us[at(KernelGroup::Products)], 0);
  EXPECT_GT(groups.group_us[at(KernelGroup::Attention)], 0);
  // The work of a device adds up to no more than the step.
  double busy = groups.exposed_us + groups.idle_us;
  for (const KernelGroup group :
       {KernelGroup::Products, KernelGroup::Attention, KernelGroup::Elementwise, KernelGroup::Optimizer})
    busy += groups.group_us[at(group)];
  EXPECT_NEAR(busy, groups.step_us, 0.02 * groups.step_us);
  EXPECT_THAT(fault_of([&] { predicted_groups(experiment, plan, prediction, 8); }),
              HasSubstr("device 8 has no part in the plan"));
}

TEST(KinetoTrace, WhereTheDifferenceLies) {
  const KinetoTrace trace = read_kineto_trace(kTwoSteps, 8);
  const TraceSummary summary = summary_of(trace, 0);
  PredictedGroups predicted;
  predicted.group_us[at(KernelGroup::Products)] = 280;
  predicted.group_us[at(KernelGroup::Elementwise)] = 80;
  predicted.idle_us = 100;
  predicted.step_us = 700;
  const std::string text = trace_table(trace, summary, &predicted);
  EXPECT_THAT(text, HasSubstr("14 kernels of 1 device, 2 steps\n"));
  EXPECT_THAT(text, HasSubstr("The step takes 300 us longer than predicted; the largest part of it is idle (+200 us)"));
  EXPECT_EQ(text.substr(text.rfind('\n', text.size() - 2) + 1).find("The step takes"), 0U) << "the last line";
  // Predicted to take 1,300 us, of which 900 idle: 300 less, of idle 600 less, and products (280 predicted, as measured + 0).
  predicted.step_us = 1300;
  predicted.idle_us = 900;
  const std::string shorter = trace_table(trace, summary, &predicted);
  EXPECT_THAT(shorter, HasSubstr("The step takes 300 us less than predicted; the largest part of it is idle (-600 us)"));
  predicted.step_us = 1000;
  EXPECT_THAT(trace_table(trace, summary, &predicted), HasSubstr("The step takes as long as predicted"));
  EXPECT_THAT(trace_json(trace, summary, &predicted),
              HasSubstr(R"({"group": "element-wise, normalization", "measured_s": 8e-05, "predicted_s": 8e-05})"));
}

}  // namespace
}  // namespace panpipe::jobs

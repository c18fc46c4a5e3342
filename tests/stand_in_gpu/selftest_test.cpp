// panpipe selftest on machines with one, two and four GPUs, and on some that are not well.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct Tried {
  Outcome run;
  json document;
  std::string folder;
  const json& step(const std::string& name) const {
    for (const json& each : document["steps"])
      if (each["name"] == name) return each;
    throw std::runtime_error("there is no step " + name + ": " + run.out);
  }
  // "GPUs: ..." of all that is wrong, or of all that is noted.
  std::vector<std::string> reported(bool wrong) const {
    std::vector<std::string> all;
    for (const json& each : document["steps"])
      for (const json& trouble : each["troubles"])
        if (trouble["wrong"] == wrong) all.push_back(each["name"].get<std::string>() + ": " + trouble["what"].get<std::string>());
    return all;
  }
};

Tried selftest(int gpus, const std::string& settings = "", const std::string& options = "") {
  Tried tried;
  tried.folder = temporary_folder() + "/report";
  tried.run =
      panpipe_after(fmt::format("STAND_IN_GPUS={} PANPIPE_STAND_IN={}/../stand_in_gpu {} tests/stand_in_gpu/with-stand-in-gpu",
                                gpus, std::getenv("PANPIPE_BIN"), settings),
                    fmt::format("selftest --quick --json -o {} {}", tried.folder, options));
  tried.document = json::parse(tried.run.out, nullptr, /*allow_exceptions=*/false);
  return tried;
}

class SelftestOnGpus : public testing::TestWithParam<int> {};

TEST_P(SelftestOnGpus, FindsNothingWrongWithAMachineThatIsWell) {
  const int gpus = GetParam();
  const Tried tried = selftest(gpus);
  ASSERT_TRUE(tried.document.is_object()) << tried.run.err;
  EXPECT_THAT(tried.reported(true), IsEmpty()) << tried.run.err;
  EXPECT_EQ(tried.run.exit_code, 0) << tried.run.err;
  EXPECT_EQ(tried.document["device"], "cuda");
  std::vector<std::string> transports;
  for (const json& each : tried.step("transports")["figures"]["tried"]) {
    transports.push_back(fmt::format("{} {} {}", each["transport"].get<std::string>(), each["device"].get<std::string>(),
                                     each["ranks"].get<int>()));
    EXPECT_EQ(each["rules_kept"], 10);
  }
  // On one GPU the ranks are streams of it.
  EXPECT_EQ(transports, gpus == 1   ? (std::vector<std::string>{"local cuda 2", "gloo cpu 2"})
                        : gpus == 2 ? (std::vector<std::string>{"nccl cuda 2", "local cuda 2", "gloo cpu 2"})
                                    : (std::vector<std::string>{"nccl cuda 4", "local cuda 4", "gloo cpu 2"}));
  for (const json& each : tried.step("equality")["figures"]["runs"]) EXPECT_EQ(each["difference"], "");
  // Every pair once; copies to each GPU.
  const json& links = tried.step("links")["figures"];
  EXPECT_EQ(links["pairs"].size(), static_cast<std::size_t>(gpus * (gpus - 1) / 2));
  EXPECT_EQ(links["host_bytes_per_s"].size(), static_cast<std::size_t>(gpus));
  EXPECT_EQ(tried.step("prediction")["done"], true);
  // An RTX 3090's limit, as the driver's stand-in reports it.
  EXPECT_EQ(tried.step("GPUs")["figures"]["gpus"].size(), static_cast<std::size_t>(gpus));
  EXPECT_EQ(tried.step("GPUs")["figures"]["gpus"][0]["power_limit_w"], 350.0);
  for (const char* file : {"panpipe-selftest.json", "panpipe-selftest.md", "panpipe-selftest.csv"}) {
    const std::string text = read_file(tried.folder + "/" + file);
    EXPECT_THAT(text, Not(HasSubstr("13209210460"))) << "a serial number";
    EXPECT_THAT(text, Not(HasSubstr("GPU-0000"))) << "a UUID";
  }
}
INSTANTIATE_TEST_SUITE_P(Of, SelftestOnGpus, testing::Values(1));

// The cluster states 100 TB/s, which no copy within this host's memory comes near; 200 W of 350; heat; GeForce cards apart. Their
// name is that of a card with a data sheet, so the row is predicted.
TEST(SelftestOnGpus, FindsALimitHeatAndASlowLink) {
  const std::string cluster = temporary_folder() + "/cluster.yaml";
  write_file(cluster,
             "panpipe: 1\nkind: cluster\ndevice: devices/a100-80g-sxm.yaml\nnodes: 1\ndevices_per_node: 2\n"
             "wiring: {switch: {bandwidth: 100 TB/s, latency: 2 us}}\n"
             "network: {nics_per_node: 1, bandwidth: 25 GB/s, latency: 5 us, oversubscription: 1}\n");
  const Tried tried =
      selftest(2, "STAND_IN_POWER_LIMIT_W=200 STAND_IN_SLOWED=64 STAND_IN_APART=1 STAND_IN_NAME='NVIDIA A100-SXM4-80GB'",
               "--cluster " + cluster);
  ASSERT_TRUE(tried.document.is_object()) << tried.run.err;
  EXPECT_EQ(tried.run.exit_code, 1);
  const std::vector<std::string> wrong = tried.reported(true), noted = tried.reported(false);
  EXPECT_THAT(wrong, testing::Each(testing::AnyOf(testing::StartsWith("GPUs: "), testing::StartsWith("links: "))))
      << "two GPUs keep the transports' rules and train as one process does";
  EXPECT_THAT(wrong, Contains("GPUs: GPU 0 may take 200 W of the usual 350 W"));
  EXPECT_THAT(wrong, Contains("GPUs: GPU 1 slowed down because of heat (40 C)"));
  EXPECT_THAT(wrong, Contains(testing::AllOf(HasSubstr("links: between 0 and 1 "), HasSubstr("the cluster file states "))));
  EXPECT_THAT(noted,
              Contains("GPUs: no direct access between GPUs 0 and 1: the chipset does not support it; transfers go through "
                       "the host's memory"));
  EXPECT_THAT(tried.run.err, HasSubstr("remedy: nvidia-smi -i 0 -pl 350, as root, unless the limit is wanted"));
  const Outcome validated = panpipe("validate " + tried.folder + "/panpipe-selftest.csv --json");
  ASSERT_EQ(validated.exit_code, 0) << validated.err;
  const json row = json::parse(validated.out)["rows"][0];
  EXPECT_EQ(row["skipped"], nullptr);
  EXPECT_GT(row["predicted_s"], 0);
}

}  // namespace
}  // namespace panpipe::test

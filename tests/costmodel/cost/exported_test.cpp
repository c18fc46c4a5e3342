// The same GPT built in and exported by PyTorch, with its loss in each of the usual forms: what they cost is the same, however
// the program is cut into units. tests/costmodel/cost/export_gpt.py makes the programs.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "tests/costmodel/cost/priced_models.hpp"
#include "tests/costmodel/workload/archive_file.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe {
namespace {

using Json = nlohmann::json;

const std::vector<std::string> kForms = {"plain", "cast_then_view", "view_then_cast", "shifted_logits", "padded_labels"};

// The archive of a program, its weights zeros.
std::string archive_of(const std::string& form) {
  std::ifstream file("costmodel/cost/data/gpt_" + form + ".json");  // ctest runs in tests/
  const Json kept = Json::parse(file);
  std::vector<ZipEntry> entries = {{"m/models/model.json", kept["program"].dump()},
                                   {"m/data/weights/model_weights_config.json", kept["weights"].dump()},
                                   {"m/data/constants/model_constants_config.json", kept["constants"].dump()},
                                   {"m/byteorder", "little"}};
  std::set<std::string> written;
  for (const auto& [name, payload] : kept["weights"]["config"].items()) {
    const std::string entry = payload["path_name"];
    if (!written.insert(entry).second) continue;
    std::int64_t bytes = payload["tensor_meta"]["dtype"] == 5 ? 8 : 2;  // int64, bfloat16
    for (const Json& extent : payload["tensor_meta"]["sizes"]) bytes *= extent["as_int"].get<std::int64_t>();
    entries.push_back({"m/data/weights/" + entry, std::string(static_cast<std::size_t>(bytes), '\0')});
  }
  return test::scratch().write(form + ".pt2", zip(entries));
}

std::unique_ptr<Made> make_with(const std::string& workload, const std::string& framework) {
  return make(fmt::format(R"(panpipe: 1
cluster: {{file: clusters/dgx-a100-80g.yaml}}
workload: {{{}}}
batch: {{micro: 2, microbatches: 4}}
precision: bf16
parallel: {{pipeline: 1}}
framework: {}
)",
                          workload, framework));
}

struct Sum {
  std::array<Breakdown, 3> passes;  // F, I, W
  std::array<int, 3> launches{};
  std::array<double, 3> synchronous{};  // seconds of products behind a meeting of host and device
  double saved = 0, selective = 0, full = 0, for_weight = 0, temporary = 0;
};

// Over the units in front of the first layer, or over all others.
Sum sum_of(const WorkloadCost& cost, bool embedding) {
  Sum sum;
  bool in_front = true;
  for (const UnitCost& unit : cost.units) {
    in_front = in_front && !unit.name.starts_with("h.0");
    if (in_front != embedding) continue;
    const std::array<const PassCost*, 3> passes = {&unit.forward, &unit.input_gradient, &unit.weight_gradient};
    for (std::size_t p = 0; p < passes.size(); ++p) {
      sum.passes[p] = sum.passes[p] + passes[p]->breakdown;
      sum.launches[p] += passes[p]->host.launches;
      if (passes[p]->synchronises) sum.synchronous[p] += passes[p]->breakdown.compute.base();
    }
    sum.saved += static_cast<double>(unit.saved.base());
    sum.selective += static_cast<double>(unit.saved_selective.base());
    sum.full += static_cast<double>(unit.saved_full.base());
    sum.for_weight += static_cast<double>(unit.kept_for_weight.base());
    sum.temporary = std::max(sum.temporary, static_cast<double>(unit.temporary.base()));
  }
  return sum;
}

constexpr const char* kBuiltIn = "model: gpt, layers: 1, hidden: 64, heads: 4, sequence: 128, vocabulary: 512";

TEST(Exported, LayersHeadAndLossCostWhatTheBuiltInModelsDo) {
  for (const std::string framework : {"megatron", "eager", "eager-sdpa", "llm.c"}) {
    const Sum built = sum_of(make_with(kBuiltIn, framework)->cost(), false);
    for (const std::string& form : kForms) {
      SCOPED_TRACE(framework + ", " + form);
      const auto made = make_with("pt2: " + archive_of(form), framework);
      ASSERT_EQ(made->workload.parameters, make_with(kBuiltIn, framework)->workload.parameters);
      const Sum exported = sum_of(made->cost(), false);
      // Logits that are cut by a token of 128 have 1/128 fewer; padded labels are a tensor more.
      const double tolerance = form == "shifted_logits" ? 0.01 : form == "padded_labels" ? 0.006 : 0.002;
      const auto expect_equal = [&](double value, double expected, const char* what) {
        EXPECT_NEAR(value, expected, std::max(tolerance * std::abs(expected), 1e-12)) << what;
      };
      for (std::size_t p = 0; p < 3; ++p) {
        SCOPED_TRACE(p == 0 ? "F" : p == 1 ? "I" : "W");
        EXPECT_EQ(exported.launches[p], built.launches[p]);
        expect_equal(exported.passes[p].compute.base(), built.passes[p].compute.base(), "compute");
        expect_equal(exported.passes[p].memory.base(), built.passes[p].memory.base(), "memory");
        expect_equal(exported.passes[p].launch.base(), built.passes[p].launch.base(), "gaps");
        expect_equal(exported.synchronous[p], built.synchronous[p], "the head's products, which the host waits for");
      }
      expect_equal(exported.saved, built.saved, "saved");
      expect_equal(exported.selective, built.selective, "saved, selective");
      expect_equal(exported.full, built.full, "saved, full");
      // A unit keeps at most what it saves, and here units are smaller.
      EXPECT_LE(exported.for_weight, (1 + tolerance) * built.for_weight);
      EXPECT_GE(exported.for_weight, 0.9 * built.for_weight);
      expect_equal(exported.temporary, built.temporary, "temporary");
    }
  }
}

// Two look-ups and their sum: built in the sum is one of the embedding's passes over its output, here it is an operator, with up
// to three passes of its own, and the positions' look-up, which holds no batch, is another: less than 2.5 times as much.
TEST(Exported, EmbeddingsLaunchAsMuchAndMoveALittleMore) {
  const Sum built = sum_of(make_with(kBuiltIn, "megatron")->cost(), true);
  const Sum exported = sum_of(make_with("pt2: " + archive_of("plain"), "megatron")->cost(), true);
  for (const std::size_t p : {0U, 1U}) {
    EXPECT_EQ(exported.launches[p], built.launches[p]);
    EXPECT_GE(exported.passes[p].memory, built.passes[p].memory);
    EXPECT_LE(exported.passes[p].memory, built.passes[p].memory * 2.5);
  }
}

}  // namespace
}  // namespace panpipe

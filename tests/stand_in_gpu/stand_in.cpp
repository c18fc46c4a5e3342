#include "tests/stand_in_gpu/stand_in.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

// The common part of runs on the stand-in and on the CPU.
template <class Run>
Trained train(const std::string& scenario, const std::string& options, Run run) {
  const std::string metrics = temporary_folder() + "/metrics.jsonl";
  Trained trained;
  static_cast<Ended&>(trained) =
      run(fmt::format("run {} --threads 1 --no-progress --json --metrics {}{} {}", scenario, metrics,
                      options.find("--deadline") == std::string::npos ? " --deadline 60" : "", options));
  trained.metrics = lines_of_json(metrics);
  if (trained.exit_code == 0) trained.result = nlohmann::json::parse(trained.out, nullptr, /*allow_exceptions=*/false);
  return trained;
}

std::string programs() {
  const char* bin = std::getenv("PANPIPE_BIN");
  if (!bin) throw std::runtime_error("PANPIPE_BIN is not set; run through ctest");
  return bin;
}

void expect_close(double found, double expected, double relative, const char* what) {
  EXPECT_LE(std::abs(found - expected), relative * std::abs(expected)) << what << " " << found << ", expected " << expected;
}

}  // namespace

std::vector<nlohmann::json> lines_of_json(const std::string& path) {
  std::vector<nlohmann::json> lines;
  if (!std::filesystem::exists(path)) return lines;
  std::istringstream text(read_file(path));
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::vector<std::string> stand_in_command(const std::string& arguments, const std::string& folder) {
  std::vector<std::string> command{"tests/stand_in_gpu/with-stand-in-gpu", (folder.empty() ? programs() : folder) + "/panpipe"};
  std::istringstream words(arguments);
  for (std::string word; words >> word;) command.push_back(word);
  return command;
}

Settings stand_in_settings(Settings settings) {
  settings.insert({{"STAND_IN_GPUS", "8"}, {"STAND_IN_JITTER_US", "200"}, {"PANPIPE_STAND_IN", programs() + "/../stand_in_gpu"}});
  return settings;
}

Started start_on_stand_in(const std::string& arguments, const Settings& settings, const std::string& out) {
  return Started(stand_in_command(arguments), stand_in_settings(settings), out);
}

Ended on_stand_in(const std::string& arguments, const Settings& settings) { return start_on_stand_in(arguments, settings).end(); }

std::string mutants() { return programs() + "/../stand_in_gpu/mutants"; }

Trained train_on_stand_in(const std::string& scenario, const std::string& options, const Settings& settings,
                          const std::string& folder) {
  Settings all = stand_in_settings(settings);
  const std::string counts = all.try_emplace("STAND_IN_COUNTS", temporary_folder() + "/counts.jsonl").first->second;
  Trained trained =
      train(scenario,
            options + (options.find("--transport") == std::string::npos ? " --transport nccl" : "") +
                (options.find("--device") == std::string::npos ? " --device cuda" : ""),
            [&](const std::string& arguments) { return Started(stand_in_command(arguments, folder), all, "").end(); });
  for (const nlohmann::json& line : lines_of_json(counts)) trained.counts[line.at("rank").get<int>()] = line;
  return trained;
}

Trained train_on_cpu(const std::string& scenario, const std::string& options) {
  return train(scenario, options + " --transport local --device cpu",
               [](const std::string& arguments) { return start_panpipe(arguments).end(); });
}

void expect_same_training(const Trained& found, const Trained& expected, double relative) {
  ASSERT_EQ(found.exit_code, 0) << found.err;
  ASSERT_EQ(expected.exit_code, 0) << expected.err;
  ASSERT_FALSE(expected.metrics.empty());
  ASSERT_EQ(found.metrics.size(), expected.metrics.size());
  for (std::size_t step = 0; step < expected.metrics.size(); ++step) {
    SCOPED_TRACE(fmt::format("step {}", step + 1));
    const nlohmann::json &one = found.metrics[step], &other = expected.metrics[step];
    EXPECT_EQ(one.at("skipped"), other.at("skipped"));
    for (const char* what : {"loss", "gradient_norm"}) {
      ASSERT_TRUE(one.at(what).is_number()) << one;  // null stands for what is no number
      expect_close(one.at(what).get<double>(), other.at(what).get<double>(), relative, what);
    }
  }
}

std::string small_gpt(const Ranks& ranks, const std::string& more, int layers, int microbatches) {
  return fmt::format(
      "panpipe: 1\n"
      "cluster: {{devices: {}, memory: 4 GiB, link: {{latency: 1 us, bandwidth: 10 GB/s}}}}\n"
      "workload: {{model: gpt, layers: {}, hidden: 16, heads: 2, sequence: 8, vocabulary: 48}}\n"
      "batch: {{micro: 2, microbatches: {}}}\n"
      "parallel: {{pipeline: {}, data: {}, tensor: {}}}\n"
      "{}\n",
      ranks.pipeline * ranks.data * ranks.tensor, layers, microbatches, ranks.pipeline, ranks.data, ranks.tensor, more);
}

const char* const kLlama =
    R"({"model_type": "llama", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,)"
    R"( "vocab_size": 48, "intermediate_size": 24})";
const char* const kMixtral =
    R"({"model_type": "mixtral", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,)"
    R"( "vocab_size": 48, "intermediate_size": 24, "num_local_experts": 4, "num_experts_per_tok": 2})";
const char* const kQwenMoe =
    R"({"model_type": "qwen2_moe", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 48,)"
    R"( "intermediate_size": 24, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8,)"
    R"( "shared_expert_intermediate_size": 12})";

std::string small_model(const std::string& config, int ranks, const std::string& parallel, const std::string& more) {
  const std::string file = temporary_folder() + "/config.json";
  write_file(file, config);
  return fmt::format(
      "panpipe: 1\n"
      "cluster: {{devices: {}, memory: 4 GiB, link: {{latency: 1 us, bandwidth: 10 GB/s}}}}\n"
      "workload: {{config: {}, sequence: 8}}\n"
      "batch: {{micro: 2, microbatches: 4}}\n"
      "parallel: {}\n"
      "{}\n",
      ranks, file, parallel, more);
}

std::string scenario_file(const std::string& text) {
  const std::string path = temporary_folder() + "/scenario.yaml";
  write_file(path, text);
  return path;
}

}  // namespace panpipe::test

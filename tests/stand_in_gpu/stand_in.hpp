// `panpipe` on the stand-in GPU, for the tests of this folder: runs, what they wrote, and what a run on the CPU writes.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/exec/processes.hpp"

namespace panpipe::test {

// Settings of the stand-in (README.md), and any other variable of the environment. By default there are 8 GPUs,
// and every piece of work on a stream starts after a random delay of up to 200 us.
using Settings = std::map<std::string, std::string>;

// A finished command, with what it left.
struct Trained : Ended {
  std::vector<nlohmann::json> metrics;   // --metrics: an object per step
  nlohmann::json result;                 // --json: the result document; null where it printed none
  std::map<int, nlohmann::json> counts;  // STAND_IN_COUNTS: by rank, calls by name
};

// The words of a command, and its whole environment, that run `panpipe ARGUMENTS` (split at spaces) on the stand-in.
// `folder`: that of the program, if not the build's own.
std::vector<std::string> stand_in_command(const std::string& arguments, const std::string& folder = "");
Settings stand_in_settings(Settings settings);
// That, not yet ended: for tests that signal it.
Started start_on_stand_in(const std::string& arguments, const Settings& settings = {}, const std::string& out = "");
// The same, until it ends.
Ended on_stand_in(const std::string& arguments, const Settings& settings = {});
// A file of one JSON document a line; none where there is no file.
std::vector<nlohmann::json> lines_of_json(const std::string& path);

// `panpipe run SCENARIO --transport nccl --device cuda` with metrics, the result document and a deadline of 60 s; what `options`
// adds counts more. `scenario` is a file.
Trained train_on_stand_in(const std::string& scenario, const std::string& options, const Settings& settings = {},
                          const std::string& folder = "");
// The folder of programs whose NCCL transport has faults that STAND_IN_MUTANT turns on (mutate.py).
std::string mutants();
// The same on the CPU, all ranks in one process.
Trained train_on_cpu(const std::string& scenario, const std::string& options);

// Fails the test unless both ended with 0 and have the same steps with losses and norms of gradients that differ by `relative` at
// most. fp32: another order of sums, widened by some steps; 2-byte types: their rounding.
constexpr double kFp32 = 2e-6, kBf16 = 2e-2, kFp16 = 3e-3;
void expect_same_training(const Trained& found, const Trained& expected, double relative = kFp32);

// The text of a scenario with a small GPT: 2 layers, hidden 16, 2 heads, sequence 8, 4 microbatches of 2. `more`: further keys,
// each on a line of its own. `ranks`: pipeline, data, tensor.
struct Ranks {
  int pipeline = 1, data = 1, tensor = 1;
};
std::string small_gpt(const Ranks& ranks, const std::string& more = "", int layers = 2, int microbatches = 4);
// The same of a small model by its config.json. `parallel` in the scenario's form; `ranks`: those that it makes.
std::string small_model(const std::string& config, int ranks, const std::string& parallel, const std::string& more = "");
// Such files: 2 layers, hidden 16, 48 tokens; the latter two have 4 experts, of which a token takes 2.
extern const char* const kLlama;
extern const char* const kMixtral;
extern const char* const kQwenMoe;
// As a file of the test's own.
std::string scenario_file(const std::string& text);

}  // namespace panpipe::test

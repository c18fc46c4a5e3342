// Whole runs on threads of this process, from a scenario's text to its losses, gradients and parameters.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "costmodel/timeline/timeline.hpp"
#include "exec/engine/checkpoint/safetensors.hpp"
#include "exec/launch/run_request.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe::exec {

using Folder = test::TemporaryFolder;

struct Outcome {
  std::vector<std::string> errors;  // by rank; "" where none
  Timeline timeline;                // rank 0's
  std::vector<double> losses() const;
  // The error that started it: the first that is not about a lost peer.
  std::string error() const;
};

inline const std::string kSgd = "optimizer: {name: sgd, learning_rate: 0.1, momentum: 0.9, weight_decay: 0.01}\n";
inline const std::string kAdam = "optimizer: {name: adamw, learning_rate: 0.01}\n";

// Degrees of a scenario; `more`: further keys of `parallel`, each behind a comma.
struct Mesh {
  int pipeline = 1, data = 1, tensor = 1, context = 1, expert = 1;
  std::string more{};
  std::string text() const;
};
// A scenario on as many devices as a mesh has. `workload`: its keys; `batch`: a mapping.
std::string scenario_on(const Mesh& mesh, const std::string& workload, const std::string& batch, const std::string& extra = "");
// A small GPT over `pipeline` x `data` ranks. `extra`: more keys, each on a line of its own.
std::string small_gpt(int pipeline, int data, int microbatches, const std::string& extra = "");
// The scenario on a cluster of devices with rates, so that its times can be predicted.
std::string with_rates(std::string scenario);

// Runs every rank in a thread. `change` is applied to the request.
Outcome run_threads(const std::string& scenario_file, const RunRequest& request);
RunRequest quiet(const std::string& scenario_file, int steps);
RunRequest with_checkpoints(const std::string& scenario_file, int steps, const std::string& directory, int every = 0);
// Of a scenario's text, in a folder with the data that it names: the error of one step; the losses and metrics of steps that do
// not fail.
std::string error_of_step(const Folder& folder, const std::string& scenario);
std::vector<double> losses_of(const Folder& folder, const std::string& scenario, int steps);
std::vector<nlohmann::json> metrics_of(const Folder& folder, const std::string& scenario, int steps);
std::string step_folder(const std::string& directory, std::int64_t step);  // of a checkpoint
std::string content(const std::string& path);                              // of a file

std::vector<nlohmann::json> metrics_lines(const std::string& path);  // what --metrics wrote

// Everything in a file, or in all files of a checkpoint, by name.
std::map<std::string, at::Tensor> tensors_of(const std::string& path);

// The largest difference, relative to the largest value of `expected` over all tensors of that name.
void expect_close(const std::map<std::string, at::Tensor>& found, const std::map<std::string, at::Tensor>& expected,
                  double relative);
// The results of a run: losses, the last step's gradients, and everything in the checkpoint behind it.
struct Trained {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> gradients, state;
  Timeline timeline;
};
// Of a scenario's text, in a folder of its own.
Trained train(const std::string& scenario, int steps = 3);
void expect_equal(const Trained& found, const Trained& one, double relative = 2e-5);
// The content of the checkpoint after four steps: two of the first scenario, resumed and gone on with by the second.
std::map<std::string, at::Tensor> resumed(const std::string& first_scenario, const std::string& second_scenario);
void expect_bit_equal(const std::map<std::string, at::Tensor>& found, const std::map<std::string, at::Tensor>& expected);

}  // namespace panpipe::exec

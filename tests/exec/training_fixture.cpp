#include "tests/exec/training_fixture.hpp"

#include <ATen/Functions.h>
#include <fmt/format.h>

#include <fstream>

#include "base/error.hpp"
#include "exec/engine/run/run.hpp"
#include "exec/engine/transport/on_threads.hpp"
#include "tests/exec/step_on_threads.hpp"

namespace panpipe::exec {

namespace fs = std::filesystem;

namespace {

// A fault with a place in full, one without as its sentence.
std::string text_of(const std::exception& error) {
  const auto* fault = dynamic_cast<const InputError*>(&error);
  return fault != nullptr && fault->diagnostics().front().file.empty() ? fault->diagnostics().front().message : error.what();
}

}  // namespace

std::vector<double> Outcome::losses() const {
  std::vector<double> all;
  for (const MeasuredStep& step : timeline.steps) all.push_back(step.loss);
  return all;
}

std::string Outcome::error() const {
  for (const std::string& error : errors)
    if (!error.empty() && error.rfind("lost: ", 0) != 0) return error;
  return "";
}

std::string with_rates(std::string scenario) {
  const std::size_t cluster = scenario.find("cluster: ");
  return scenario.replace(cluster, scenario.find('\n', cluster) - cluster, "cluster: clusters/rtx3090x8.yaml");
}

std::string Mesh::text() const {
  std::string text = fmt::format("pipeline: {}, data: {}", pipeline, data);
  for (const auto& [name, degree] : {std::pair("tensor", tensor), {"context", context}, {"expert", expert}})
    if (degree > 1) text += fmt::format(", {}: {}", name, degree);
  return text + more;
}

std::string scenario_on(const Mesh& mesh, const std::string& workload, const std::string& batch, const std::string& extra) {
  return fmt::format(
      "panpipe: 1\ncluster: {{devices: {}, memory: 4 GiB, link: {{latency: 1 us, bandwidth: 10 GB/s}}}}\n"
      "workload: {{{}}}\nbatch: {}\nparallel: {{{}}}\n{}\n",
      mesh.pipeline * mesh.data * mesh.tensor * mesh.context, workload, batch, mesh.text(), extra);
}

std::string small_gpt(int pipeline, int data, int microbatches, const std::string& extra) {
  return scenario_on({pipeline, data}, "model: gpt, layers: 2, hidden: 16, heads: 2, sequence: 8, vocabulary: 48",
                     fmt::format("{{micro: 2, microbatches: {}}}", microbatches), extra);
}

RunRequest quiet(const std::string& scenario_file, int steps) {
  RunRequest request;
  request.scenario = scenario_file;
  request.steps = steps;
  request.progress = false;
  request.deadline_s = 60;
  return request;
}

RunRequest with_checkpoints(const std::string& file, int steps, const std::string& directory, int every) {
  RunRequest request = quiet(file, steps);
  request.checkpoint = directory;
  request.checkpoint_every = every;
  return request;
}

std::string step_folder(const std::string& directory, std::int64_t step) { return fmt::format("{}/step-{:06}", directory, step); }

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<nlohmann::json> metrics_lines(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

Outcome run_threads(const std::string& scenario_file, const RunRequest& request) {
  RunRequest asked = request;
  asked.scenario = scenario_file;
  Outcome outcome;
  try {
    const PreparedRun run(asked);
    outcome.errors.resize(static_cast<std::size_t>(run.world_size()));
    on_threads(make_local_transports(run.world_size()), [&](Transport& transport) {
      std::string& failure = outcome.errors[static_cast<std::size_t>(transport.rank())];
      compute_on_one_core();
      try {
        Timeline timeline = run_rank(run, transport);
        if (transport.rank() == 0) outcome.timeline = std::move(timeline);
      } catch (const PeerLost& lost) {
        failure = std::string("lost: ") + lost.what();
      } catch (const std::exception& error) {
        failure = text_of(error);
      }
    });
  } catch (const std::exception& error) {
    outcome.errors = {text_of(error)};
  }
  return outcome;
}

std::string error_of_step(const Folder& folder, const std::string& scenario) {
  const std::string file = folder.write("s.yaml", scenario);
  return run_threads(file, quiet(file, 1)).error();
}

std::vector<double> losses_of(const Folder& folder, const std::string& scenario, int steps) {
  const std::string file = folder.write("s.yaml", scenario);
  const Outcome outcome = run_threads(file, quiet(file, steps));
  EXPECT_EQ(outcome.error(), "");
  return outcome.losses();
}

std::vector<nlohmann::json> metrics_of(const Folder& folder, const std::string& scenario, int steps) {
  const std::string file = folder.write("s.yaml", scenario);
  RunRequest request = quiet(file, steps);
  request.metrics = folder.file("metrics.jsonl");
  EXPECT_EQ(run_threads(file, request).error(), "");
  return metrics_lines(request.metrics);
}

std::map<std::string, at::Tensor> tensors_of(const std::string& path) {
  std::vector<std::string> files = {path};
  if (fs::is_directory(path)) {
    files.clear();
    for (const auto& entry : fs::directory_iterator(path))
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path().string());
  }
  std::map<std::string, at::Tensor> all;
  for (const std::string& name : files) {
    const SafetensorsFile file(name);
    for (const auto& [tensor, stored] : file.tensors()) {
      EXPECT_FALSE(all.count(tensor)) << tensor << " is written twice";
      all[tensor] = file.read(tensor);
    }
  }
  return all;
}

void expect_close(const std::map<std::string, at::Tensor>& found, const std::map<std::string, at::Tensor>& expected,
                  double relative) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(found.count(name)) << name;
    ASSERT_EQ(found.at(name).sizes(), value.sizes()) << name;
    const at::Tensor wanted = value.to(at::kDouble), difference = at::sub(found.at(name).to(at::kDouble), wanted).abs();
    EXPECT_LE(difference.max().item<double>(), relative * wanted.abs().max().item<double>() + 1e-9) << name;
  }
}

void expect_bit_equal(const std::map<std::string, at::Tensor>& found, const std::map<std::string, at::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(found.count(name)) << name;
    EXPECT_TRUE(at::equal(found.at(name), value)) << name;
  }
}

Trained train(const std::string& scenario, int steps) {
  const Folder folder;
  const std::string file = folder.write("s.yaml", scenario);
  RunRequest request = quiet(file, steps);
  request.dump_gradients = folder.file("gradients.safetensors");
  request.checkpoint = folder.file("checkpoints");
  const Outcome outcome = run_threads(file, request);
  EXPECT_EQ(outcome.error(), "");
  Trained trained;
  if (!outcome.error().empty()) return trained;
  trained.losses = outcome.losses();
  trained.timeline = outcome.timeline;
  trained.gradients = tensors_of(request.dump_gradients);
  trained.state = tensors_of(step_folder(request.checkpoint, steps));
  return trained;
}

void expect_equal(const Trained& found, const Trained& one, double relative) {
  ASSERT_EQ(found.losses.size(), one.losses.size());
  for (std::size_t s = 0; s < one.losses.size(); ++s) EXPECT_NEAR(found.losses[s], one.losses[s], 1e-5 * one.losses[s]);
  expect_close(found.gradients, one.gradients, relative);
  expect_close(found.state, one.state, relative);
}

std::map<std::string, at::Tensor> resumed(const std::string& first_scenario, const std::string& second_scenario) {
  const Folder folder;
  const std::string first = folder.write("a.yaml", first_scenario), second = folder.write("b.yaml", second_scenario);
  EXPECT_EQ(run_threads(first, with_checkpoints(first, 2, folder.file("ck"))).error(), "");
  RunRequest request = with_checkpoints(second, 4, folder.file("ck"));
  request.resume = "auto";
  EXPECT_EQ(run_threads(second, request).error(), "");
  return tensors_of(step_folder(folder.file("ck"), 4));
}

}  // namespace panpipe::exec

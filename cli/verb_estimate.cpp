// panpipe estimate: a step on idle links.
#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>

#include "base/files/files_read.hpp"
#include "cli/predict.hpp"
#include "cli/verbs.hpp"
#include "present/result/result_files.hpp"

namespace panpipe::cli {

void add_estimate_verb(CLI::App& sub, std::function<int()>& run) {
  auto options = std::make_shared<PredictOptions>();
  add_predict_options(sub, *options);
  run = [options] {
    const auto begin = std::chrono::steady_clock::now();
    const FilesRead files;
    const Experiment experiment(load_scenario(options->scenario, options->overrides, options->plan));
    const Plan plan = experiment.plan(options->plan);
    if (!options->output.empty()) present::check_result_files(options->output);
    const Prediction prediction = predict(experiment, plan);
    present(experiment, plan, prediction, *options, files, "",
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    return 0;
  };
}

}  // namespace panpipe::cli

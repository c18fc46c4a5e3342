// Exports a plan as arguments of Megatron-LM.
#pragma once

#include <string>
#include <vector>

#include "costmodel/workload/language_model.hpp"
#include "jobs/export.hpp"

namespace panpipe::jobs {

ExportedJob export_megatron(const ExportRequest& request);

// Arguments in groups, one line each: "--num-layers 24 --hidden-size 1024".
using ArgumentLines = std::vector<std::string>;

// Adds the model's arguments; properties that GPTModel lacks are added to `cannot`.
void add_megatron_model(const LanguageModel& model, const Scenario& scenario, int tensor, ArgumentLines& lines, ExportedJob& job);

// The arguments that the plan decides: degrees, batch, stages, ZeRO, recompute.
ArgumentLines megatron_plan_lines(const ExportRequest& request);

// "Et*2|t*3|t*3L": the layers of each stage, in the order of the model.
std::string layout_text(const std::vector<int>& layers);

// One word of a shell, in single quotes if it contains anything that a shell may interpret.
std::string shell_word(const std::string& text);

}  // namespace panpipe::jobs

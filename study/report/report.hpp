// A page about a step: predicted, measured, or two compared.
#pragma once

#include <string>
#include <vector>

#include "present/result/read_result.hpp"

namespace panpipe::study {

struct ReportInput {
  present::ResultDocument result;
  std::string scenario, plan;  // texts of scenario.yaml and plan.yaml next to the result; empty if missing
};

// Reads a result.json, or a folder from `-o DIR`. Throws InputError like read_result.
ReportInput read_report_input(const std::string& path);

// Self-contained HTML for one or two results. If their plans differ, only the metrics are compared.
std::string to_report_page(const std::vector<ReportInput>& inputs);

}  // namespace panpipe::study

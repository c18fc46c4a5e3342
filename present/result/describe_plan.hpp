// Describes a plan for its result document.
#pragma once

#include "costmodel/prediction/experiment.hpp"
#include "present/result/result_text.hpp"

namespace panpipe::present {

ResultPlan describe_plan(const Experiment& experiment, const Plan& plan, const Timeline& timeline);

// A result as text for people: the heading, then the table.
std::string result_text(const Experiment& experiment, const Timeline& timeline, const Metrics& metrics, const ResultPlan& plan,
                        const TextStyle& style);

}  // namespace panpipe::present

// panpipe import TRAINER: turns jobs of other trainers into scenarios.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "jobs/job_options.hpp"

namespace panpipe::cli {

// Declares those of jobs::stated_options() that are named; `meanings`: of those that help explains in words of its own.
void add_job_options(CLI::App& sub, jobs::JobOptions& job, const std::set<std::string>& names,
                     const std::map<std::string, std::string>& meanings = {}, const std::string& group = "");
// Their paths as the file `output` refers to them.
void refer_from(const std::string& output, jobs::JobOptions& job);

// What a launch script leaves open, as the command line states it: NAME=VALUE of variables, N=VALUE of its arguments.
struct ScriptWords {
  std::vector<std::string> defines, arguments;
};
void add_script_options(CLI::App& sub, ScriptWords& words, const std::string& group = "");
void read_script_words(const ScriptWords& words, jobs::LaunchOptions& script);

void add_job_imports(CLI::App& sub, std::function<int()>& run);

// The spelling of a file from the command line inside the file `output`: names of shipped files stay, paths become relative to
// the output's folder.
std::string reference_from(const std::string& output, const std::string& file);

}  // namespace panpipe::cli

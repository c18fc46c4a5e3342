// What `panpipe doctor` says of a machine: what was found, what each verb can therefore do, and how to get the rest.
#pragma once

#include <string>

#include "cli/machine.hpp"
#include "costmodel/base/text_style.hpp"

namespace panpipe::cli {

std::string doctor_text(const Machine& machine, const TextStyle& style);
std::string doctor_json(const Machine& machine);  // schema panpipe-doctor/1

}  // namespace panpipe::cli

// Faults of what a call was given: of an option of a verb, which is also an argument of a function of the Python package. Such a
// fault's place and file are the option as the command line writes it, as those of an override are "--set". Other front ends
// spell it themselves, so messages do not name options.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace panpipe {

// `option` is the command line's name without its dashes: "robust-scale".
InputError option_fault(std::string_view option, const std::string& message, const std::string& help = "",
                        std::string_view code = code::kInvalid);

// "there is no 'simgird', did you mean 'simgrid'?"
InputError unknown_choice(std::string_view option, const std::string& name, const std::vector<std::string>& names);

// The option at fault; empty for any other fault.
std::string option_of(const Diagnostic& fault);

}  // namespace panpipe

// Python's spelling of dataclasses, as nanotron prints its configuration: Config(general=GeneralArgs(project='x', seed=42), ...).
#pragma once

#include <string>
#include <string_view>

namespace panpipe::jobs {

// The same as JSON: objects become maps of their fields, enumerations such as <Mode.REDUCE_SCATTER: 2> the name of their member,
// torch.bfloat16 "bfloat16", None null. Nothing is run. Throws InputError where the text is something else, or nested deeper than
// 100 levels; `name` names it.
std::string json_of_python(std::string_view text, const std::string& name);

}  // namespace panpipe::jobs

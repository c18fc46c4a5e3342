// The fixed parts of the script for torch.distributed.pipelining, which are the same for every model and plan. Internal to this
// folder.
#pragma once

#include <string_view>

namespace panpipe::jobs {

extern const std::string_view kScriptImports;
extern const std::string_view kScriptOwnOperators;  // for models with experts, windows, caps, linear biases
extern const std::string_view kScriptModel;  // builds a stage from its units, with the same initial values as `panpipe run`
extern const std::string_view kScriptData;
extern const std::string_view kScriptTraining;

}  // namespace panpipe::jobs

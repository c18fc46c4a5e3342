// The parts of the script for torch.distributed.pipelining that are the same for every model and plan. Internal to this folder.
#pragma once

#include <string_view>

namespace panpipe::jobs {

extern const std::string_view kScriptImports;
extern const std::string_view kScriptOwnOperators;  // of models with experts, windows, caps, linear biases
extern const std::string_view kScriptModel;         // a stage from its units, with the values that `panpipe run` draws
extern const std::string_view kScriptData;
extern const std::string_view kScriptTraining;

}  // namespace panpipe::jobs

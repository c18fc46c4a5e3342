// What write_results() (experiment.hpp) will write, asked about before anything is computed.
#pragma once

#include <string>

namespace panpipe {

// Once the scenario and the plan are read. Errors as of check_outputs() (costmodel/base/files_write.hpp).
void check_result_files(const std::string& folder);

}  // namespace panpipe

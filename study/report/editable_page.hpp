// The page of web/ with a result inside: who opens it sees that prediction and can change its plan.
#pragma once

#include <string>

namespace panpipe::study {

// The file of `make web` in the build folder, or as it was installed. Throws MachineError if it is in neither.
std::string predicting_page();

// `folder` was written with `-o`: its scenario becomes the page's, its result what changes are compared with. Throws InputError
// for a result without scenario.yaml next to it, and as read_result does.
std::string with_result(const std::string& page, const std::string& folder);

}  // namespace panpipe::study

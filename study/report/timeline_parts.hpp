// Modules and style of the page's timeline, as CMakeLists.txt joins them.
#pragma once

namespace panpipe::study {

extern const char* const kTimelineScript;
extern const char* const kTimelineStyle;

}  // namespace panpipe::study

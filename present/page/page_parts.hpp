// The style sheet and the script of every page.
#pragma once

#include <string>

namespace panpipe::page {

std::string page_style();
const char* page_script();

}  // namespace panpipe::page

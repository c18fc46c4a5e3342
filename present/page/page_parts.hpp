// The style sheet and the script of every page.
#pragma once

#include <string>

namespace panpipe::present {

std::string page_style();
const char* page_script();

}  // namespace panpipe::present

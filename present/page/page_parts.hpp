// What every page carries with it.
#pragma once

#include <string>

namespace panpipe::page {

std::string page_style();
const char* page_script();

}  // namespace panpipe::page

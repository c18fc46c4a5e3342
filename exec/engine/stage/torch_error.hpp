// What a user reads of an error of LibTorch: its text without the stack of C++ functions.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>

namespace panpipe::exec {

inline std::string text_of(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  return of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
}

}  // namespace panpipe::exec

// Faults that calls throw, as values that a test compares.
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"

namespace panpipe::test {

// The message of a call's fault; empty: the call does its work.
template <class Fault = InputError, class Call>
std::string fault_of(const Call& call) {
  try {
    call();
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "";
}

// All that is wrong with an input; empty: the call takes it.
template <class Call>
std::vector<Diagnostic> diagnostics_of(const Call& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.diagnostics();
  }
  return {};
}

// The first of them, without a message where there is none.
template <class Call>
Diagnostic diagnostic_of(const Call& call) {
  const std::vector<Diagnostic> all = diagnostics_of(call);
  return all.empty() ? Diagnostic{.message = ""} : all.front();
}

}  // namespace panpipe::test

#include "exec/engine/program/failure.hpp"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <new>

#include "base/version.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "exec/engine/run/stop.hpp"
#include "exec/engine/stage/torch_error.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {
namespace {

std::string in_training(int rank, const std::string& action, const std::string& what) {
  const std::string where = action.empty() ? "" : fmt::format(" at {}", action);
  return fmt::format("panpipe: rank {} failed{}: {}", std::max(rank, 0), where, what);
}

}  // namespace

Failure describe_failure(const std::exception_ptr& error, int rank, const std::string& action) {
  try {
    std::rethrow_exception(error);
  } catch (const Stopped& stop) {
    return {ExitCode::Done, fmt::format("panpipe: {}", stop.what()), false, true};
  } catch (const InputError& fault) {
    std::string text;
    for (const Diagnostic& diagnostic : fault.diagnostics()) text += (text.empty() ? "" : "\n") + diagnostic.text();
    return {ExitCode::Input, text, false};
  } catch (const NoAnswer& fault) {
    return {ExitCode::CheckFailed, fmt::format("panpipe: {}", fault.what()), false};
  } catch (const MachineError& fault) {
    return {ExitCode::MachineCannot, fmt::format("panpipe: this machine cannot: {}", fault.what()), false};
  } catch (const PeerLost& fault) {
    return {ExitCode::CheckFailed, fmt::format("panpipe: rank {}: {}", rank, fault.what()), true};
  } catch (const InternalError& fault) {
    return {ExitCode::Bug,
            fmt::format("panpipe: this is a bug in panpipe {}, please report it with the command line: rank {}: {}", kVersion,
                        std::max(rank, 0), fault.what()),
            false};
  } catch (const std::bad_alloc&) {
    return {ExitCode::MachineCannot, in_training(rank, action, "out of memory"), false};
  } catch (const c10::OutOfMemoryError& fault) {
    return {ExitCode::MachineCannot, in_training(rank, action, fault.what_without_backtrace()), false};
  } catch (const std::exception& fault) {
    return {ExitCode::CheckFailed, in_training(rank, action, text_of(fault)), false};
  }
}

void report_others(const std::exception_ptr& error, const Failure& failure, Transport& transport) {
  try {
    std::rethrow_exception(error);
  } catch (const InputError& fault) {
    transport.refuse(fault);
  } catch (...) {
    transport.abort(failure.text.substr(0, failure.text.find('\n')));
  }
}

}  // namespace panpipe::exec

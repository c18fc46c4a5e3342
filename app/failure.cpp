#include "app/failure.hpp"

#include <fmt/format.h>

#include <new>

#include "base/version.hpp"

namespace panpipe::app {

Failure failure_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const InputError& fault) {
    std::string text;
    for (const Diagnostic& diagnostic : fault.diagnostics()) text += (text.empty() ? "" : "\n") + diagnostic.text();
    return {ExitCode::Input, text, fault.diagnostics()};
  } catch (const NoAnswer& fault) {
    return {ExitCode::CheckFailed, std::string("panpipe: ") + fault.what(), {}};
  } catch (const MachineError& fault) {
    return {ExitCode::MachineCannot, std::string("panpipe: this machine cannot: ") + fault.what(), {}};
  } catch (const std::bad_alloc&) {
    return {ExitCode::MachineCannot,
            "panpipe: this machine cannot: not enough memory for this input\n"
            "  help: fewer microbatches, ranks or stages make fewer actions; `ulimit -v` shows whether memory is limited here",
            {}};
  } catch (const std::exception& fault) {
    return {
        ExitCode::Bug,
        fmt::format("panpipe: this is a bug in panpipe {}, please report it with the command line: {}", kVersion, fault.what()),
        {}};
  }
}

}  // namespace panpipe::app

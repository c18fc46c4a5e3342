// The module _core: what the functions of the package call. Failures become the package's exceptions here.
#include <dlfcn.h>
#include <fmt/format.h>
#include <malloc.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>

#include "base/error.hpp"
#include "base/files/installation.hpp"
#include "base/option_fault.hpp"
#include "base/stop.hpp"
#include "base/text/text_style.hpp"
#include "base/version.hpp"
#include "python/binding/arrow.hpp"
#include "python/binding/bindings.hpp"
#include "python/binding/interruptible.hpp"

namespace panpipe::python {
namespace {

constexpr std::size_t kShownOverride = 80;  // rows of an order may be thousands of letters

// The argument of a function that an option of the command line is: "robust-scale" is robust_scale.
std::string argument_named(std::string option) {
  if (option == "for") return "trainer";
  if (option == "tolerance") return "tolerances";
  std::replace(option.begin(), option.end(), '-', '_');
  return option;
}

// As the package's Diagnostic.
nb::object shown(Diagnostic fault) {
  if (!fault.override_text.empty()) {  // which the command line alone calls --set
    fault.file = "set";
    fault.place = "set " + shortened(fault.override_text, kShownOverride);
  }
  std::string text = fault.text();
  if (const std::string option = option_of(fault); !option.empty()) {  // as faults that the package finds itself
    fault.key = argument_named(option);
    fault.file.clear();
    text = fmt::format("{}: {}{}{}", fault.key, fault.message, fault.help.empty() ? "" : "\n  help: ", fault.help);
  }
  return nb::module_::import_("panpipe._errors")
      .attr("Diagnostic")(fault.message, fault.help, fault.file, fault.line, fault.column, fault.key, text, fault.code);
}

void raise(const char* kind, const nb::object& arguments) {
  const nb::object type = nb::module_::import_("panpipe._errors").attr(kind);
  PyErr_SetObject(type.ptr(), arguments.ptr());
}

void raise_input_error(const InputError& error) {
  nb::list diagnostics, texts;
  for (const Diagnostic& fault : error.diagnostics()) {
    diagnostics.append(shown(fault));
    texts.append(diagnostics[nb::len(diagnostics) - 1].attr("text"));
  }
  raise("InputError", nb::make_tuple(nb::str("\n").attr("join")(texts), diagnostics));
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const InputError& error) {
    raise_input_error(error);
  } catch (const Stopped& error) {  // in a thread whose caller was interrupted
    raise("NoAnswer", nb::make_tuple(std::string(error.what())));
  } catch (const NoAnswer& error) {
    raise("NoAnswer", nb::make_tuple(std::string(error.what())));
  } catch (const MachineError& error) {
    raise("MachineError", nb::make_tuple(std::string(error.what())));
  } catch (const InternalError& error) {
    raise("InternalError",
          nb::make_tuple(fmt::format("this is a bug in panpipe {}, please report it: {}", kVersion, error.what())));
  }
}

// The shipped data and the module that simulates are found as the programs find them, from _prefix next to this module.
void find_prefix() {
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&find_prefix), &here) == 0 || here.dli_fname == nullptr) return;
  std::error_code ignored;
  const auto bin = std::filesystem::absolute(here.dli_fname, ignored).parent_path() / "_prefix" / "bin";
  set_program_folder(bin);
}

// A prediction takes a few MB for a millisecond. By default the allocator hands that back to the system after each call and takes
// it again, page by page, which doubles the time of a call: so it keeps up to 16 MB.
void keep_memory() {
#ifdef __GLIBC__
  constexpr int kKept = 16 << 20;
  mallopt(M_MMAP_THRESHOLD, kKept);
  mallopt(M_TRIM_THRESHOLD, kKept);
#endif
}

}  // namespace
}  // namespace panpipe::python

NB_MODULE(_core, module) {
  using namespace panpipe::python;
  find_prefix();
  keep_memory();
  // An interpreter that ends does not clear what other packages still refer to (torch does): that is no leak of a user's.
  nb::set_leak_warnings(false);
  nb::register_exception_translator(translate);
  module.attr("version") = panpipe::kVersion;
  bind_arena(module);
  bind_tables(module);
  bind_stop(module);
  bind_predictions(module);
  bind_planning(module);
  bind_documents(module);
  bind_measured(module);
  bind_runs(module);
  bind_schedules(module);
}

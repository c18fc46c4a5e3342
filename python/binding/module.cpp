// The module _core: what the functions of the package call. Failures become the package's exceptions here.
#include <dlfcn.h>
#include <fmt/format.h>
#include <malloc.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <cctype>
#include <exception>
#include <filesystem>
#include <map>
#include <new>
#include <string>
#include <system_error>

#include "base/error.hpp"
#include "base/files/installation.hpp"
#include "base/stop.hpp"
#include "base/text/text_style.hpp"
#include "base/version.hpp"
#include "python/binding/arrow.hpp"
#include "python/binding/bindings.hpp"
#include "python/binding/interruptible.hpp"
#include "python/binding/predictions.hpp"

namespace panpipe::python {
namespace {

constexpr std::size_t kShownOverride = 80;  // rows of an order may be thousands of letters

// Options of the command line by the names that they have as arguments: "--time-limit" is time_limit.
std::string in_words_of_python(const std::string& text) {
  static const std::map<std::string, std::string> names = {{"--backend", "backend"},
                                                           {"--balance", "balance"},
                                                           {"--budget", "budget"},
                                                           {"--deadline", "deadline"},
                                                           {"--device", "device"},
                                                           {"--engine", "engine"},
                                                           {"--evidence", "evidence"},
                                                           {"--folds", "folds"},
                                                           {"--for", "trainer"},
                                                           {"--gpus", "gpus"},
                                                           {"--iterations", "iterations"},
                                                           {"--left-out", "left_out"},
                                                           {"--costs", "costs"},
                                                           {"--method", "method"},
                                                           {"--model", "model"},
                                                           {"--nodes", "nodes"},
                                                           {"--only", "only"},
                                                           {"--over", "over"},
                                                           {"--objective", "objective"},
                                                           {"--plan", "plan"},
                                                           {"--robust-scale", "robust_scale"},
                                                           {"--sequence", "sequence"},
                                                           {"--start", "start"},
                                                           {"--tokens", "tokens"},
                                                           {"--tolerance", "tolerances"},
                                                           {"--vocabulary", "vocabulary"},
                                                           {"--without", "without"},
                                                           {"panpipe list", "shipped"},
                                                           {"panpipe fit", "fit"}};
  std::string made;
  for (std::size_t i = 0; i < text.size();) {
    const auto stands_here = [&](const auto& name) {
      const std::size_t end = i + name.first.size();
      const bool whole = end == text.size() || (std::isalnum(static_cast<unsigned char>(text[end])) == 0 && text[end] != '-');
      return whole && text.compare(i, name.first.size(), name.first) == 0;
    };
    const auto found = std::find_if(names.begin(), names.end(), stands_here);
    made += found == names.end() ? text.substr(i, 1) : found->second;
    i += found == names.end() ? 1 : found->first.size();
  }
  return made;
}

// As the package's Diagnostic.
nb::object shown(Diagnostic fault) {
  if (!fault.override_text.empty()) {  // which the command line alone calls --set
    fault.file = "set";
    fault.place = "set " + shortened(fault.override_text, kShownOverride);
  } else if (fault.place.empty()) {  // about the call; what a file holds is not touched
    fault.message = in_words_of_python(fault.message);
    fault.help = in_words_of_python(fault.help);
  }
  return nb::module_::import_("panpipe._errors")
      .attr("Diagnostic")(fault.message, fault.help, fault.file, fault.line, fault.column, fault.key, fault.text(), fault.code);
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

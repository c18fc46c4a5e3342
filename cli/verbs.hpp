// The verbs of the command line. One file per verb; main.cpp holds the table of them all.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace panpipe::cli {

// Each declares a verb's options on its subcommand and sets `run` to a function that executes it and returns the exit code.
void add_check_verb(CLI::App& sub, std::function<int()>& run);
void add_schedule_verb(CLI::App& sub, std::function<int()>& run);
void add_arena_verb(CLI::App& sub, std::function<int()>& run);
void add_estimate_verb(CLI::App& sub, std::function<int()>& run);
void add_simulate_verb(CLI::App& sub, std::function<int()>& run);
void add_plan_verb(CLI::App& sub, std::function<int()>& run);
void add_import_verb(CLI::App& sub, std::function<int()>& run);
void add_forecast_verb(CLI::App& sub, std::function<int()>& run);
void add_export_verb(CLI::App& sub, std::function<int()>& run);
void add_profile_verb(CLI::App& sub, std::function<int()>& run);
void add_sweep_verb(CLI::App& sub, std::function<int()>& run);
void add_compare_verb(CLI::App& sub, std::function<int()>& run);
void add_report_verb(CLI::App& sub, std::function<int()>& run);
void add_run_verb(CLI::App& sub, std::function<int()>& run);
void add_validate_verb(CLI::App& sub, std::function<int()>& run);
void add_fit_verb(CLI::App& sub, std::function<int()>& run);
void add_measure_device_verb(CLI::App& sub, std::function<int()>& run);
void add_doctor_verb(CLI::App& sub, std::function<int()>& run);
void add_selftest_verb(CLI::App& sub, std::function<int()>& run);
void add_schema_verb(CLI::App& sub, std::function<int()>& run);
void add_evidence_verb(CLI::App& sub, std::function<int()>& run);
void add_support_verb(CLI::App& sub, std::function<int()>& run);
void add_list_verb(CLI::App& sub, std::function<int()>& run);
void add_new_verb(CLI::App& sub, std::function<int()>& run);
void add_version_verb(CLI::App& sub, std::function<int()>& run);
void add_completion_verb(CLI::App& sub, std::function<int()>& run);
void add_manual_verb(CLI::App& sub, std::function<int()>& run);

}  // namespace panpipe::cli

#include "jobs/export_parts.hpp"

namespace panpipe::jobs {

ExportedJob export_torchtitan(const ExportRequest& /*request*/) { return {}; }

}  // namespace panpipe::jobs

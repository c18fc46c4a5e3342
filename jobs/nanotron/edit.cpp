#include "jobs/edit/base_job.hpp"
#include "jobs/nanotron/export.hpp"

namespace panpipe::jobs {

std::vector<EditAttempt> edit_nanotron(const EditRequest& request) {
  const NodePtr root = parse_document(request.base.text, request.base.name, ".");
  EditAttempt attempt =
      document_attempt(request.base, *root, DocumentForm::Yaml,
                       changed_settings(nanotron_plan_settings(request.before), nanotron_plan_settings(request.after)));
  attempt.other_cuts = other_cuts_than_nanotrons(request.after);
  return {attempt};
}

}  // namespace panpipe::jobs

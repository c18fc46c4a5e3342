#include "jobs/edit/base_job.hpp"
#include "jobs/nanotron/export.hpp"

namespace panpipe::jobs {

std::vector<EditAttempt> edit_nanotron(const EditRequest& request) {
  const NodePtr root = parse_document(request.base.text, request.base.name, ".");
  EditAttempt attempt{TextEdits(request.base.text), {}};
  attempt.other_cuts = other_cuts_than_nanotrons(request.after);
  attempt.edits = document_edits(request.base.text, *root, DocumentForm::Yaml,
                                 changed_settings(nanotron_plan_settings(request.before), nanotron_plan_settings(request.after)),
                                 attempt.by_hand);
  return {attempt};
}

}  // namespace panpipe::jobs

// Measurements that a scenario names, as observations of how a machine and a trainer differ from their prediction; and which of
// them count for a step. How files are read: app/evidence/. Method: docs/models/uncertainty.md.
#pragma once

#include <string>
#include <vector>

#include "costmodel/prediction/uncertainty.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// Observations of one file that share machine and trainer.
struct GivenPiece {
  std::string file, kind;                // as EvidencePiece
  std::string what;                      // "10 steps of 1.21 s, 12 % longer than predicted"
  std::string left_out;                  // found while it was read; empty: nothing
  std::string machine, trainer, wiring;  // that it holds for, as StepTraits has them; empty: any
  std::vector<ComparedStep> observations;
};

struct GivenEvidence {
  std::vector<GivenPiece> pieces;
};

struct WeighedEvidence {
  std::vector<EvidencePiece> pieces;   // in the order given
  std::vector<ComparedStep> counting;  // what moves the step; the same in any order of the pieces
};

// A piece counts for a step of the same machine, wiring and trainer, unless it lies where the prior alone expects one measurement
// in a thousand (but steps of up to three times as long are possible), or contradicts the others: it lies where they and the
// prior expect one in a hundred. The piece that lies farthest out is left out first.
WeighedEvidence weigh(const GivenEvidence& given, const UncertaintyPrior& prior, const StepTraits& step);

// Of each observation: how far it lies from what the others of the list expect, in units of the 99 % interval. Above 1 it
// contradicts them.
std::vector<double> contradictions(const std::vector<ComparedStep>& observations, const UncertaintyPrior& prior);

// The family of a trainer's framework preset, "megatron" of "megatron-core": measurements of one bear on another.
std::string trainer_family(const std::string& framework);

// sqrt(p90 / p10) - 1.
double half_width(const StepDistribution& distribution);

}  // namespace panpipe

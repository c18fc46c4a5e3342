#include "costmodel/cost/cost_model.hpp"

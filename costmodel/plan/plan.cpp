#include "costmodel/plan/plan.hpp"

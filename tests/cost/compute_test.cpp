#include "tests/cost/models.hpp"

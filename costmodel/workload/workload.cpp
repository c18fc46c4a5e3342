#include "costmodel/workload/workload.hpp"

#include "costmodel/cluster/cluster.hpp"

// Functions of NCCL that LibTorch names and the stand-in lacks. Each prints its name and fails. NCCL's header is not included:
// only the names matter.
#include <cstdio>

#define STAND_IN_ABSENT(name)                                                        \
  extern "C" int name() {                                                            \
    std::fprintf(stderr, "stand-in GPU: %s was called, which is not here\n", #name); \
    return 3; /* ncclInternalError */                                                \
  }

STAND_IN_ABSENT(ncclCommDeregister)
STAND_IN_ABSENT(ncclCommInitAll)
STAND_IN_ABSENT(ncclCommRegister)
STAND_IN_ABSENT(ncclCommShrink)
STAND_IN_ABSENT(ncclCommWindowDeregister)
STAND_IN_ABSENT(ncclCommWindowRegister)
STAND_IN_ABSENT(ncclDevCommCreate)
STAND_IN_ABSENT(ncclDevCommDestroy)
STAND_IN_ABSENT(ncclGroupSimulateEnd)
STAND_IN_ABSENT(ncclMemAlloc)
STAND_IN_ABSENT(ncclMemFree)

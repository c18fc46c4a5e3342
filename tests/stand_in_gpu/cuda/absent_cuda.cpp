// Functions that LibTorch names and the stand-in lacks: graphs, memory shared between processes, memory pools. Each prints its
// name and fails. CUDA's header is not included: only the names matter.
#include <cstdio>

#define STAND_IN_ABSENT(name)                                                        \
  extern "C" int name() {                                                            \
    std::fprintf(stderr, "stand-in GPU: %s was called, which is not here\n", #name); \
    return 801; /* cudaErrorNotSupported */                                          \
  }

STAND_IN_ABSENT(cudaDeviceGetDefaultMemPool)
STAND_IN_ABSENT(cudaGraphDebugDotPrint)
STAND_IN_ABSENT(cudaGraphDestroy)
STAND_IN_ABSENT(cudaGraphExecDestroy)
STAND_IN_ABSENT(cudaGraphGetNodes)
STAND_IN_ABSENT(cudaGraphInstantiateWithFlags)
STAND_IN_ABSENT(cudaGraphLaunch)
STAND_IN_ABSENT(cudaGraphNodeGetDependencies)
STAND_IN_ABSENT(cudaIpcCloseMemHandle)
STAND_IN_ABSENT(cudaIpcGetEventHandle)
STAND_IN_ABSENT(cudaIpcGetMemHandle)
STAND_IN_ABSENT(cudaIpcOpenEventHandle)
STAND_IN_ABSENT(cudaIpcOpenMemHandle)
STAND_IN_ABSENT(cudaMemPoolGetAttribute)
STAND_IN_ABSENT(cudaMemPoolSetAccess)
STAND_IN_ABSENT(cudaMemPoolSetAttribute)
STAND_IN_ABSENT(cudaMemPoolTrimTo)
STAND_IN_ABSENT(cudaStreamBeginCapture)
STAND_IN_ABSENT(cudaStreamEndCapture)

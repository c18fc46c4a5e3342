// Stands for cuBLAS in runs without arithmetic (STAND_IN_ARITHMETIC=0): what LibTorch calls succeeds and does nothing; workspaces
// are LibTorch's own, and come out of its allocator as on a GPU. With arithmetic nobody calls it: products are the CPU's. cuBLAS
// itself stays in the process, behind these names. Its headers are not included: only the names matter.
#include <cstddef>
#include <cstdint>
#include <cstring>

#define STAND_IN_DOES_NOTHING(name) \
  extern "C" int name() { return 0; /* CUBLAS_STATUS_SUCCESS */ }

STAND_IN_DOES_NOTHING(cublasCdotc_v2)
STAND_IN_DOES_NOTHING(cublasCdotu_v2)
STAND_IN_DOES_NOTHING(cublasCgemmStridedBatched)
STAND_IN_DOES_NOTHING(cublasCgemm_v2)
STAND_IN_DOES_NOTHING(cublasCgemv_v2)
STAND_IN_DOES_NOTHING(cublasDdot_v2)
STAND_IN_DOES_NOTHING(cublasDestroy_v2)
STAND_IN_DOES_NOTHING(cublasDgemmStridedBatched)
STAND_IN_DOES_NOTHING(cublasDgemm_v2)
STAND_IN_DOES_NOTHING(cublasDgemv_v2)
STAND_IN_DOES_NOTHING(cublasDotEx)
STAND_IN_DOES_NOTHING(cublasGemmEx)
STAND_IN_DOES_NOTHING(cublasGemmStridedBatchedEx)
STAND_IN_DOES_NOTHING(cublasLtMatmul)
STAND_IN_DOES_NOTHING(cublasLtMatmulDescDestroy)
STAND_IN_DOES_NOTHING(cublasLtMatmulDescSetAttribute)
STAND_IN_DOES_NOTHING(cublasLtMatmulPreferenceDestroy)
STAND_IN_DOES_NOTHING(cublasLtMatmulPreferenceSetAttribute)
STAND_IN_DOES_NOTHING(cublasLtMatrixLayoutDestroy)
STAND_IN_DOES_NOTHING(cublasLtMatrixLayoutSetAttribute)
STAND_IN_DOES_NOTHING(cublasSdot_v2)
STAND_IN_DOES_NOTHING(cublasSetMathMode)
STAND_IN_DOES_NOTHING(cublasSetPointerMode_v2)
STAND_IN_DOES_NOTHING(cublasSetStream_v2)
STAND_IN_DOES_NOTHING(cublasSetWorkspace_v2)
STAND_IN_DOES_NOTHING(cublasSgemmEx)
STAND_IN_DOES_NOTHING(cublasSgemmStridedBatched)
STAND_IN_DOES_NOTHING(cublasSgemm_v2)
STAND_IN_DOES_NOTHING(cublasSgemv_v2)
STAND_IN_DOES_NOTHING(cublasZdotc_v2)
STAND_IN_DOES_NOTHING(cublasZdotu_v2)
STAND_IN_DOES_NOTHING(cublasZgemmStridedBatched)
STAND_IN_DOES_NOTHING(cublasZgemm_v2)
STAND_IN_DOES_NOTHING(cublasZgemv_v2)

namespace {

// Handles and descriptions have no content; their addresses differ from null.
int make(void** handle) {
  static char any;
  *handle = &any;
  return 0;
}

// cublasLtMatmulHeuristicResult_t.
struct Algorithm {
  std::uint64_t configuration[8];
  std::size_t workspace;
  int state;  // 0: CUBLAS_STATUS_SUCCESS
  float waves;
  int reserved[4];
};

}  // namespace

extern "C" {

int cublasCreate_v2(void** handle) { return make(handle); }
int cublasGetMathMode(void*, int* mode) {
  *mode = 0;  // CUBLAS_DEFAULT_MATH
  return 0;
}
int cublasGetPointerMode_v2(void*, int* mode) {
  *mode = 0;  // CUBLAS_POINTER_MODE_HOST
  return 0;
}

std::size_t cublasLtGetVersion() { return 130000; }  // of CUDA 13.0
int cublasLtMatmulDescCreate(void** made, int, int) { return make(made); }
int cublasLtMatmulPreferenceCreate(void** made) { return make(made); }
int cublasLtMatrixLayoutCreate(void** made, int, std::uint64_t, std::uint64_t, std::int64_t) { return make(made); }
// One algorithm, without a workspace.
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int, Algorithm* results, int* found) {
  std::memset(results, 0, sizeof(*results));
  *found = 1;
  return 0;
}
}

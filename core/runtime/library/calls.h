// Registration of the library calls, one function a file. RegisterLibraryCalls (library.cc) calls
// them all.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_CALLS_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_CALLS_H_

#include "core/runtime/library/registry.h"

namespace tripont {

void RegisterCholesky(LibraryRegistry& registry);
void RegisterConvolution(LibraryRegistry& registry);
void RegisterCustomCall(LibraryRegistry& registry);
void RegisterFft(LibraryRegistry& registry);
void RegisterGemm(LibraryRegistry& registry);
void RegisterRngState(LibraryRegistry& registry);
void RegisterSort(LibraryRegistry& registry);
void RegisterTopK(LibraryRegistry& registry);
void RegisterTranspose(LibraryRegistry& registry);

namespace collectives {
void RegisterExchanges(LibraryRegistry& registry);
void RegisterReductions(LibraryRegistry& registry);
}  // namespace collectives

namespace lapack {
void RegisterEigen(LibraryRegistry& registry);
void RegisterFactorizations(LibraryRegistry& registry);
void RegisterSolvers(LibraryRegistry& registry);
}  // namespace lapack

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_CALLS_H_

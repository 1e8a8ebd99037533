// The list of all library calls.
#include "core/runtime/library/calls.h"
#include "core/runtime/library/lapack_api.h"
#include "core/runtime/library/onednn_api.h"
#include "core/runtime/library/registry.h"

namespace tripont {

void RegisterLibraryCalls(LibraryRegistry& registry) {
  RegisterCholesky(registry);
  collectives::RegisterExchanges(registry);
  collectives::RegisterReductions(registry);
  RegisterConvolution(registry);
  RegisterCustomCall(registry);
  RegisterFft(registry);
  RegisterGemm(registry);
  RegisterRngState(registry);
  RegisterSort(registry);
  RegisterTopK(registry);
  RegisterTranspose(registry);
  lapack::RegisterEigen(registry);
  lapack::RegisterFactorizations(registry);
  lapack::RegisterSolvers(registry);
}

std::vector<std::pair<std::string, std::string>> LibraryVersions() {
  std::vector<std::pair<std::string, std::string>> versions;
  if (const onednn::Api* api = onednn::LoadedOrNull()) {
    const onednn::Version* version = api->version();
    versions.emplace_back("oneDNN", StrCat(version->major, ".", version->minor, ".", version->patch,
                                           " at ", api->path));
  }
  if (const lapack::Api* api = lapack::LoadedOrNull()) {
    versions.emplace_back("LAPACK", StrCat(api->description, " at ", api->path));
  }
  return versions;
}

}  // namespace tripont

#include "nextpluggable/kernels/register.h"

#include "nextpluggable/cpu_kernels.h"
#include "nextpluggable/function_calls.h"
#include "nextpluggable/host_int32.h"
#include "nextpluggable/host_lists.h"
#include "nextpluggable/kernels/kernels.h"
#include "nextpluggable/loop_programs.h"
#include "nextpluggable/variable_kernels.h"

namespace tripont::tensorflow {

void RegisterAllKernels() {
  RegisterHostMemoryKernels();
  RegisterHostInt32Kernels();
  RegisterHostListKernels();
  RegisterCpuKernels();
  RegisterVariableKernels();
  RegisterFunctionCallKernels();
  RegisterProgramCompiler();
  RegisterWhereKernels();
  RegisterUniqueKernels();
  RegisterNonMaxSuppressionKernels();
  RegisterAdamKernels();
}

}  // namespace tripont::tensorflow

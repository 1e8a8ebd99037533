// Every function of the PJRT C API: what we implement, and the declarations of the implementations.
//
// This list is the plugin's table of contents. WORKS(name, last_required_field, handle) is a
// function implemented as `Status name(PJRT_name_Args& args)` in one of this folder's .cc files:
//   last_required_field  the last field of PJRT_name_Args that a caller's struct must have. The
//                        fields after it are newer than the oldest caller we serve, and are zero
//                        when the caller's struct lacks them.
//   handle               the input that must not be null; INVALID_ARGUMENT otherwise.
// WORKS_ON_NULL is for functions whose handle may be null, or that have none.
// UNIMPLEMENTED(name) answers PJRT_Error_Code_UNIMPLEMENTED, naming itself.
#ifndef TRIPONT_PJRT_FUNCTIONS_H_
#define TRIPONT_PJRT_FUNCTIONS_H_

#include "core/runtime/status.h"
#include "xla/pjrt/c/pjrt_c_api.h"

// clang-format off
#define TRIPONT_PJRT_FUNCTIONS(WORKS, WORKS_ON_NULL, UNIMPLEMENTED)                                \
  WORKS_ON_NULL(Plugin_Initialize, extension_start)                                                \
  WORKS_ON_NULL(Plugin_Attributes, num_attributes)                                                 \
                                                                                                   \
  WORKS_ON_NULL(Event_Destroy, event)                                                              \
  WORKS(Event_IsReady, is_ready, event)                                                            \
  WORKS(Event_Error, event, event)                                                                 \
  WORKS(Event_Await, event, event)                                                                 \
  WORKS(Event_OnReady, user_arg, event)                                                            \
  WORKS_ON_NULL(Event_Create, event)                                                               \
  WORKS(Event_Set, error_message_size, event)                                                      \
                                                                                                   \
  WORKS_ON_NULL(Client_Create, client)                                                             \
  WORKS_ON_NULL(Client_Destroy, client)                                                            \
  WORKS(Client_PlatformName, platform_name_size, client)                                           \
  WORKS(Client_ProcessIndex, process_index, client)                                                \
  WORKS(Client_PlatformVersion, platform_version_size, client)                                     \
  WORKS(Client_Devices, num_devices, client)                                                       \
  WORKS(Client_AddressableDevices, num_addressable_devices, client)                                \
  WORKS(Client_LookupDevice, device, client)                                                       \
  WORKS(Client_LookupAddressableDevice, addressable_device, client)                                \
  WORKS(Client_AddressableMemories, num_addressable_memories, client)                              \
  WORKS(Client_Compile, executable, client)                                                        \
  WORKS(Client_DefaultDeviceAssignment, default_assignment, client)                                \
  WORKS(Client_BufferFromHostBuffer, buffer, client)                                               \
  WORKS(Client_CreateViewOfDeviceBuffer, buffer, client)                                           \
  WORKS(Client_CreateUninitializedBuffer, buffer, client)                                          \
  WORKS(Client_CreateErrorBuffer, buffer, client)                                                  \
  WORKS(Client_CreateBuffersForAsyncHostToDevice, transfer_manager, client)                        \
  WORKS(Client_TopologyDescription, topology, client)                                              \
  WORKS(Client_UpdateGlobalProcessInfo, num_process_infos, client)                                 \
  WORKS(Client_DmaMap, size, client)                                                               \
  WORKS(Client_DmaUnmap, data, client)                                                             \
  UNIMPLEMENTED(Client_CreateAliasBuffer)                                                          \
  UNIMPLEMENTED(Client_FulfillAliasBuffer)                                                         \
                                                                                                   \
  WORKS(DeviceDescription_Id, id, device_description)                                              \
  WORKS(DeviceDescription_ProcessIndex, process_index, device_description)                         \
  WORKS(DeviceDescription_Attributes, attributes, device_description)                              \
  WORKS(DeviceDescription_Kind, device_kind_size, device_description)                              \
  WORKS(DeviceDescription_DebugString, debug_string_size, device_description)                      \
  WORKS(DeviceDescription_ToString, to_string_size, device_description)                            \
                                                                                                   \
  WORKS(Device_GetDescription, device_description, device)                                         \
  WORKS(Device_IsAddressable, is_addressable, device)                                              \
  WORKS(Device_LocalHardwareId, local_hardware_id, device)                                         \
  WORKS(Device_AddressableMemories, num_memories, device)                                          \
  WORKS(Device_DefaultMemory, memory, device)                                                      \
  WORKS(Device_MemoryStats, bytes_in_use, device)                                                  \
  WORKS(Device_CreateAsyncTrackingEvent, event, device)                                            \
  WORKS_ON_NULL(AsyncTrackingEvent_Destroy, event)                                                 \
  UNIMPLEMENTED(Device_PoisonExecution)                                                            \
                                                                                                   \
  WORKS(Memory_Id, id, memory)                                                                     \
  WORKS(Memory_Kind, kind_size, memory)                                                            \
  WORKS(Memory_Kind_Id, kind_id, memory)                                                           \
  WORKS(Memory_DebugString, debug_string_size, memory)                                             \
  WORKS(Memory_ToString, to_string_size, memory)                                                   \
  WORKS(Memory_AddressableByDevices, num_devices, memory)                                          \
                                                                                                   \
  WORKS_ON_NULL(ExecuteContext_Create, context)                                                    \
  WORKS_ON_NULL(ExecuteContext_Destroy, context)                                                   \
                                                                                                   \
  WORKS_ON_NULL(Executable_Destroy, executable)                                                    \
  WORKS(Executable_Name, executable_name_size, executable)                                         \
  WORKS(Executable_NumReplicas, num_replicas, executable)                                          \
  WORKS(Executable_NumPartitions, num_partitions, executable)                                      \
  WORKS(Executable_NumOutputs, num_outputs, executable)                                            \
  WORKS(Executable_SizeOfGeneratedCodeInBytes, size_in_bytes, executable)                          \
  WORKS(Executable_GetCostAnalysis, properties, executable)                                        \
  WORKS(Executable_OutputMemoryKinds, memory_kind_sizes, executable)                               \
  WORKS(Executable_OutputElementTypes, num_output_types, executable)                               \
  WORKS(Executable_OutputDimensions, dim_sizes, executable)                                        \
  WORKS(Executable_OptimizedProgram, program, executable)                                          \
  WORKS(Executable_Serialize, serialized_executable_deleter, executable)                           \
  WORKS(Executable_Fingerprint, executable_fingerprint_size, executable)                           \
  WORKS(Executable_GetCompiledMemoryStats, temp_size_in_bytes, executable)                         \
  WORKS(Executable_GetCompileOptions, serialized_compile_options_deleter, executable)              \
  WORKS(Executable_DeserializeAndLoad, loaded_executable, client)                                  \
                                                                                                   \
  WORKS_ON_NULL(LoadedExecutable_Destroy, executable)                                              \
  WORKS(LoadedExecutable_GetExecutable, executable, loaded_executable)                             \
  WORKS(LoadedExecutable_AddressableDevices, num_addressable_devices, executable)                  \
  WORKS(LoadedExecutable_GetDeviceAssignment, serialized_device_assignment_deleter, executable)    \
  WORKS(LoadedExecutable_Delete, executable, executable)                                           \
  WORKS(LoadedExecutable_IsDeleted, is_deleted, executable)                                        \
  WORKS(LoadedExecutable_Execute, execute_device, executable)                                      \
  WORKS(LoadedExecutable_Fingerprint, executable_fingerprint_size, executable)                     \
                                                                                                   \
  WORKS_ON_NULL(Buffer_Destroy, buffer)                                                            \
  WORKS(Buffer_ElementType, type, buffer)                                                          \
  WORKS(Buffer_Dimensions, num_dims, buffer)                                                       \
  WORKS(Buffer_UnpaddedDimensions, num_dims, buffer)                                               \
  WORKS(Buffer_DynamicDimensionIndices, num_dynamic_dims, buffer)                                  \
  WORKS(Buffer_GetMemoryLayout, layout, buffer)                                                    \
  WORKS(Buffer_OnDeviceSizeInBytes, on_device_size_in_bytes, buffer)                               \
  WORKS(Buffer_Device, device, buffer)                                                             \
  WORKS(Buffer_Memory, memory, buffer)                                                             \
  WORKS(Buffer_Delete, buffer, buffer)                                                             \
  WORKS(Buffer_IsDeleted, is_deleted, buffer)                                                      \
  WORKS(Buffer_CopyToDevice, dst_buffer, buffer)                                                   \
  WORKS(Buffer_CopyToMemory, dst_buffer, buffer)                                                   \
  WORKS(Buffer_ToHostBuffer, event, src)                                                           \
  WORKS(Buffer_CopyRawToHost, event, buffer)                                                       \
  WORKS(Buffer_CopyRawToHostFuture, future_ready_callback, buffer)                                 \
  WORKS(Buffer_IsOnCpu, is_on_cpu, buffer)                                                         \
  WORKS(Buffer_ReadyEvent, event, buffer)                                                          \
  WORKS(Buffer_UnsafePointer, buffer_pointer, buffer)                                              \
  WORKS(Buffer_IncreaseExternalReferenceCount, buffer, buffer)                                     \
  WORKS(Buffer_DecreaseExternalReferenceCount, buffer, buffer)                                     \
  WORKS(Buffer_OpaqueDeviceMemoryDataPointer, device_memory_ptr, buffer)                           \
  UNIMPLEMENTED(Buffer_DonateWithControlDependency)                                                \
                                                                                                   \
  WORKS_ON_NULL(AsyncHostToDeviceTransferManager_Destroy, transfer_manager)                        \
  WORKS(AsyncHostToDeviceTransferManager_TransferData, done_with_h2d_transfer, transfer_manager)   \
  WORKS(AsyncHostToDeviceTransferManager_TransferLiteral, done_with_h2d_transfer, transfer_manager)\
  WORKS(AsyncHostToDeviceTransferManager_RetrieveBuffer, buffer_out, transfer_manager)             \
  WORKS(AsyncHostToDeviceTransferManager_Device, device_out, transfer_manager)                     \
  WORKS(AsyncHostToDeviceTransferManager_BufferCount, buffer_count, transfer_manager)              \
  WORKS(AsyncHostToDeviceTransferManager_BufferSize, buffer_size, transfer_manager)                \
  WORKS(AsyncHostToDeviceTransferManager_SetBufferError, error_message_size, transfer_manager)     \
  WORKS(AsyncHostToDeviceTransferManager_AddMetadata, num_metadata, transfer_manager)              \
                                                                                                   \
  UNIMPLEMENTED(CopyToDeviceStream_Destroy)                                                        \
  UNIMPLEMENTED(CopyToDeviceStream_AddChunk)                                                       \
  UNIMPLEMENTED(CopyToDeviceStream_TotalBytes)                                                     \
  UNIMPLEMENTED(CopyToDeviceStream_GranuleSize)                                                    \
  UNIMPLEMENTED(CopyToDeviceStream_CurrentBytes)                                                   \
                                                                                                   \
  WORKS_ON_NULL(TopologyDescription_Create, topology)                                              \
  WORKS_ON_NULL(TopologyDescription_Destroy, topology)                                             \
  WORKS(TopologyDescription_PlatformName, platform_name_size, topology)                            \
  WORKS(TopologyDescription_PlatformVersion, platform_version_size, topology)                      \
  WORKS(TopologyDescription_GetDeviceDescriptions, num_descriptions, topology)                     \
  WORKS(TopologyDescription_Serialize, serialized_topology_deleter, topology)                      \
  WORKS_ON_NULL(TopologyDescription_Deserialize, topology)                                         \
  WORKS(TopologyDescription_Attributes, num_attributes, topology)                                  \
  WORKS(Compile, executable, topology)
// clang-format on

namespace tripont::pjrt {

// The implementations. Each may write the out fields of `args` only when it returns an OK status.
#define TRIPONT_DECLARE(name, ...) Status name(PJRT_##name##_Args& args);
#define TRIPONT_SKIP(name)
TRIPONT_PJRT_FUNCTIONS(TRIPONT_DECLARE, TRIPONT_DECLARE, TRIPONT_SKIP)
#undef TRIPONT_DECLARE
#undef TRIPONT_SKIP

}  // namespace tripont::pjrt

#endif  // TRIPONT_PJRT_FUNCTIONS_H_

// libcuda: only what torch asks of it, which is its expandable segments and the state of contexts.
#include <cuda.h>

#include <cstring>
#include <map>

#include "card.h"

using namespace emulated;

namespace {

struct Handle {
  int device;
  size_t bytes;
  int holders;
};
std::mutex lock;
std::map<uintptr_t, std::pair<Handle*, size_t>>& mapped() {
  static auto* made = new std::map<uintptr_t, std::pair<Handle*, size_t>>;
  return *made;
}

void let_go(Handle* handle) {
  if (--handle->holders) return;
  give(handle->device, handle->bytes);
  delete handle;
}

}  // namespace

extern "C" {

#undef cuMemRetainAllocationHandle

CUresult cuInit(unsigned) {
  CALLED;
  return start_driver() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}
CUresult cuDeviceGetCount(int* count) {
  CALLED;
  *count = static_cast<int>(visible().size());
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int index) {
  CALLED;
  *device = index;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice) {
  CALLED;
  *value = which == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  CALLED;
  *flags = 0;
  *active = has_context(device);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  CALLED;
  start_context(device);
  *context = reinterpret_cast<CUcontext>(static_cast<uintptr_t>(device) + 1);
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  CALLED;
  *context = reinterpret_cast<CUcontext>(uintptr_t{1});
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "an error of the emulation";
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
  CALLED;
  *bytes = kPage;
  return CUDA_SUCCESS;
}
CUresult cuMemAddressReserve(CUdeviceptr* at, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  CALLED;
  *at = reinterpret_cast<CUdeviceptr>(map_memory(bytes, true));
  return *at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemAddressFree(CUdeviceptr at, size_t bytes) {
  CALLED;
  unmap_memory(reinterpret_cast<void*>(at), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* how,
                     unsigned long long) {
  CALLED;
  int device = how->location.id;
  start_context(device);
  if (!take(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(new Handle{device, bytes, 1});
  return CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  CALLED;
  std::lock_guard guard(lock);
  let_go(reinterpret_cast<Handle*>(handle));
  return CUDA_SUCCESS;
}
CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t, CUmemGenericAllocationHandle handle,
                  unsigned long long) {
  CALLED;
  std::lock_guard guard(lock);
  auto* of = reinterpret_cast<Handle*>(handle);
  ++of->holders;
  mapped()[at] = {of, bytes};
  note({static_cast<uintptr_t>(at), bytes, Kind::device, of->device});
  return CUDA_SUCCESS;
}
CUresult cuMemUnmap(CUdeviceptr at, size_t bytes) {
  CALLED;
  std::lock_guard guard(lock);
  for (auto one = mapped().lower_bound(at); one != mapped().end() && one->first < at + bytes;) {
    Block block;
    forget(reinterpret_cast<void*>(one->first), &block);
    let_go(one->second.first);
    one = mapped().erase(one);
  }
  return CUDA_SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) {
  CALLED;
  return CUDA_SUCCESS;
}

}

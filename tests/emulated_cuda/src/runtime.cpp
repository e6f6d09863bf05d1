// libcudart: memory, copies, streams, events and graphs. Kernels are counted, not run.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstring>
#include <unordered_map>

#include "card.h"

using namespace emulated;

namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int current = 0;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
int64_t busy_until[kMostDevices];
Stream null_streams[kMostDevices];
std::atomic<int> captures{0};
size_t pool_used[kMostDevices], pool_kept[kMostDevices], pool_used_high[kMostDevices],
    pool_kept_high[kMostDevices];

cudaError_t fail(cudaError_t error) { return last_error = error; }

// What every call does that needs the driver, or the context of the current device.
#define DRIVER \
  CALLED;      \
  if (!start_driver()) return fail(cudaErrorInitializationError)
#define CONTEXT                                            \
  DRIVER;                                                  \
  if (visible().empty()) return fail(cudaErrorNoDevice);   \
  start_context(current)

Stream* stream_of(cudaStream_t stream) {
  if (reinterpret_cast<uintptr_t>(stream) > 2) return reinterpret_cast<Stream*>(stream);
  null_streams[current].device = current;
  return &null_streams[current];
}
Event* event_of(cudaEvent_t event) { return reinterpret_cast<Event*>(event); }

/// Does the work at once, or keeps it for the replays of the graph that is being captured.
void enqueue(cudaStream_t stream, Work work) {
  auto* on = stream_of(stream);
  if (on->capture)
    on->capture->graph->nodes.push_back(std::move(work));
  else
    work();
}

bool is_pageable(const void* address) {
  Block block;
  return !find(address, &block);
}

cudaError_t copy(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  enqueue(stream, [=] { memmove(to, from, bytes); });
  if (!stream_of(stream)->capture && is_pageable(to)) wait_until(stream_of(stream)->busy_until);
  return cudaSuccess;
}

/// at::globalContext().setUserEnabledCuDNN(false): the stubs of cuDNN can't answer its questions.
void turn_cudnn_off() {
  static const bool done = [] {
    auto context = reinterpret_cast<void* (*)()>(dlsym(RTLD_DEFAULT, "_ZN2at13globalContextEv"));
    auto enable = reinterpret_cast<void (*)(void*, bool)>(
        dlsym(RTLD_DEFAULT, "_ZN2at7Context19setUserEnabledCuDNNEb"));
    if (context && enable && !getenv("EMULATED_CUDA_CUDNN")) enable(context(), false);
    return true;
  }();
  (void)done;
}

std::unordered_map<const void*, const char*>& kernels() {
  static auto* made = new std::unordered_map<const void*, const char*>;
  return *made;
}

cudaError_t launch(const void* kernel, void** args, cudaStream_t stream) {
  auto* on = stream_of(stream);
  enqueue(stream, [] {});
  auto name = kernels().find(kernel);
  if (!on->capture && name != kernels().end() && strstr(name->second, "spin_kernel")) {
    // torch.cuda._sleep: nothing else tells how long a kernel would take.
    int64_t cycles = *static_cast<int64_t*>(args[0]);
    on->busy_until = std::max(on->busy_until, now_ns()) + cycles;
    busy_until[on->device] = std::max(busy_until[on->device], on->busy_until);
  }
  return cudaSuccess;
}

}  // namespace

extern "C" {

// --- kernels -------------------------------------------------------------------------------

void** __cudaRegisterFatBinary(void*) {
  static void* handle;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* kernel, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  kernels()[kernel] = name;
}
thread_local struct {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
} configuration;
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  configuration = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  *grid = configuration.grid;
  *block = configuration.block;
  *shared = configuration.shared;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3, dim3, void** args, size_t, cudaStream_t stream) {
  CONTEXT;
  return launch(kernel, args, stream);
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void** args, size_t, cudaStream_t stream) {
  CONTEXT;
  return launch(kernel, args, stream);
}
cudaError_t cudaLaunchCooperativeKernel(const void* kernel, dim3, dim3, void** args, size_t,
                                        cudaStream_t stream) {
  CONTEXT;
  return launch(kernel, args, stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* how, const void* kernel, void** args) {
  CONTEXT;
  return launch(kernel, args, how->stream);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* of, const void*) {
  CONTEXT;
  *of = {};
  of->maxThreadsPerBlock = 1024;
  of->numRegs = 32;
  of->ptxVersion = of->binaryVersion = 80;
  of->maxDynamicSharedSizeBytes = 163 << 10;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  CALLED;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads, size_t) {
  CONTEXT;
  *blocks = std::max(1, 2048 / std::max(1, threads));
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int threads,
                                                                   size_t, unsigned) {
  CONTEXT;
  *blocks = std::max(1, 2048 / std::max(1, threads));
  return cudaSuccess;
}
cudaError_t cudaGetSymbolAddress(void** address, const void*) {
  CONTEXT;
  static void* somewhere = map_memory(kPage, true);
  *address = somewhere;
  return cudaSuccess;
}
cudaError_t cudaMemcpyToSymbol(const void*, const void*, size_t, size_t, cudaMemcpyKind) {
  CALLED;
  return cudaSuccess;
}

// --- devices and errors --------------------------------------------------------------------

cudaError_t cudaGetDeviceCount(int* count) {
  DRIVER;
  turn_cudnn_off();
  *count = static_cast<int>(visible().size());
  return *count ? cudaSuccess : fail(cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int* device) {
  DRIVER;
  *device = current;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  DRIVER;
  if (device < 0 || device >= static_cast<int>(visible().size())) return fail(cudaErrorInvalidDevice);
  current = device;
  start_context(device);  // since CUDA 12
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* of, int device) {
  DRIVER;
  if (device < 0 || device >= static_cast<int>(visible().size())) return fail(cudaErrorInvalidDevice);
  int card = visible()[device];
  *of = {};
  strncpy(of->name, card_name().c_str(), sizeof of->name - 1);
  unsigned byte = 0;
  int place = 0;
  const std::string uuid = card_uuid(card);
  for (size_t at = 0; at < uuid.size() && place < 16; at += uuid[at] == '-' ? 1 : 2)
    if (sscanf(&uuid[at], "%2x", &byte) == 1 && uuid[at] != '-')
      of->uuid.bytes[place++] = static_cast<char>(byte);
  of->totalGlobalMem = card_bytes();
  of->major = capability() / 10;
  of->minor = capability() % 10;
  of->multiProcessorCount = 108;
  of->warpSize = 32;
  of->maxThreadsPerBlock = of->maxThreadsDim[0] = of->maxThreadsDim[1] = 1024;
  of->maxThreadsDim[2] = 64;
  of->maxGridSize[0] = 0x7fffffff;
  of->maxGridSize[1] = of->maxGridSize[2] = 65535;
  of->maxThreadsPerMultiProcessor = 2048;
  of->maxBlocksPerMultiProcessor = 32;
  of->sharedMemPerBlock = 48 << 10;
  of->sharedMemPerBlockOptin = 163 << 10;
  of->sharedMemPerMultiprocessor = 164 << 10;
  of->regsPerBlock = of->regsPerMultiprocessor = 65536;
  of->l2CacheSize = 40 << 20;
  of->memoryBusWidth = 5120;
  of->totalConstMem = 64 << 10;
  of->textureAlignment = 512;
  of->memPitch = 0x7fffffff;
  of->pciBusID = card + 1;
  of->unifiedAddressing = of->canMapHostMemory = of->concurrentKernels = 1;
  of->cooperativeLaunch = of->memoryPoolsSupported = of->hostRegisterSupported = 1;
  of->asyncEngineCount = 3;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  DRIVER;
  cudaDeviceProp of;
  if (auto error = cudaGetDeviceProperties(&of, device)) return error;
  switch (which) {
    case cudaDevAttrComputeCapabilityMajor: *value = of.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = of.minor; break;
    case cudaDevAttrMultiProcessorCount: *value = of.multiProcessorCount; break;
    case cudaDevAttrMaxThreadsPerBlock: *value = of.maxThreadsPerBlock; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = of.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = of.sharedMemPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = of.sharedMemPerBlockOptin; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = of.sharedMemPerMultiprocessor; break;
    case cudaDevAttrMaxRegistersPerBlock: *value = of.regsPerBlock; break;
    case cudaDevAttrMaxGridDimX: *value = of.maxGridSize[0]; break;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: *value = of.maxGridSize[1]; break;
    case cudaDevAttrWarpSize: *value = of.warpSize; break;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
    default: *value = 0;
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int room, int device) {
  DRIVER;
  snprintf(text, room, "0000:%02x:00.0", visible()[device] + 1);
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  DRIVER;
  *can = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  CONTEXT;
  start_context(peer);
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  CALLED;
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  CALLED;
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long, cudaDriverEntryPointQueryResult* found) {
  DRIVER;
  static void* self = dlopen("libemulatedcuda.so", RTLD_LAZY | RTLD_NOLOAD);
  *function = dlsym(self, symbol);
  if (found) *found = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return *function ? cudaSuccess : fail(cudaErrorSymbolNotFound);
}
cudaError_t cudaGetLastError() {
  CALLED;
  return std::exchange(last_error, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
  CALLED;
  return last_error;
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInitializationError: return "initialization error";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorNotSupported: return "operation not supported";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    default: return "an error of the emulation";
  }
}
const char* cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }

// --- memory --------------------------------------------------------------------------------

static size_t in_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

cudaError_t cudaMalloc(void** address, size_t bytes) {
  CONTEXT;
  *address = nullptr;
  if (!bytes) return cudaSuccess;
  if (!take(current, in_pages(bytes))) return fail(cudaErrorMemoryAllocation);
  *address = map_memory(in_pages(bytes), true);
  note({reinterpret_cast<uintptr_t>(*address), in_pages(bytes), Kind::device, current});
  return cudaSuccess;
}
cudaError_t cudaFree(void* address) {
  CONTEXT;
  Block block;
  if (!address) return cudaSuccess;
  if (!forget(address, &block)) return fail(cudaErrorInvalidValue);
  wait_until(busy_until[block.device]);  // it synchronizes
  unmap_memory(address, block.bytes);
  give(block.device, block.bytes);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  CONTEXT;
  *total = card_bytes();
  *free = card_bytes() - used(visible()[current]);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned) {
  CONTEXT;
  size_t room = in_pages(std::max<size_t>(bytes, 1));
  *address = map_memory(room, true);
  note({reinterpret_cast<uintptr_t>(*address), room, Kind::host, current});
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* address) {
  CONTEXT;
  Block block;
  if (!forget(address, &block)) return fail(cudaErrorInvalidValue);
  unmap_memory(address, block.bytes);
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned) {
  CONTEXT;
  note({reinterpret_cast<uintptr_t>(address), bytes, Kind::registered, current});
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* address) {
  CONTEXT;
  Block block;
  return forget(address, &block) ? cudaSuccess : fail(cudaErrorInvalidValue);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* of, const void* address) {
  CONTEXT;
  Block block;
  *of = {};
  if (!find(address, &block)) {
    of->type = cudaMemoryTypeUnregistered;
    of->device = -1;
    of->hostPointer = const_cast<void*>(address);
    return cudaSuccess;
  }
  bool on_card = block.kind == Kind::device;
  of->type = on_card ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  of->device = block.device;
  of->devicePointer = const_cast<void*>(address);
  of->hostPointer = on_card ? nullptr : const_cast<void*>(address);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  CONTEXT;
  wait_until(busy_until[current]);
  memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  CONTEXT;
  return copy(to, from, bytes, stream);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t stream) {
  CONTEXT;
  return copy(to, from, bytes, stream);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind, cudaStream_t stream) {
  CONTEXT;
  for (size_t row = 0; row < height; ++row)
    copy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width,
         stream);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  CONTEXT;
  memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  CONTEXT;
  enqueue(stream, [=] { memset(to, value, bytes); });
  return cudaSuccess;
}

// --- the driver's own pool, for the backend cudaMallocAsync: it keeps what was freed -------------

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  DRIVER;
  *pool = reinterpret_cast<cudaMemPool_t>(static_cast<uintptr_t>(device) + 1);
  return cudaSuccess;
}
static int device_of(cudaMemPool_t pool) { return static_cast<int>(reinterpret_cast<uintptr_t>(pool)) - 1; }

cudaError_t cudaMallocAsync(void** address, size_t bytes, cudaStream_t stream) {
  CONTEXT;
  int on = stream_of(stream)->device;
  size_t room = (bytes + 511) / 512 * 512;
  size_t lacking = pool_used[on] + room > pool_kept[on] ? pool_used[on] + room - pool_kept[on] : 0;
  // It grows by 32 MiB at a time.
  size_t growth = (lacking + (kPage * 16) - 1) / (kPage * 16) * (kPage * 16);
  if (growth && !take(on, growth)) return fail(cudaErrorMemoryAllocation);
  pool_kept[on] += growth;
  pool_used[on] += room;
  pool_used_high[on] = std::max(pool_used_high[on], pool_used[on]);
  pool_kept_high[on] = std::max(pool_kept_high[on], pool_kept[on]);
  *address = map_memory(in_pages(room), true);
  note({reinterpret_cast<uintptr_t>(*address), room, Kind::device, on});
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* address, cudaStream_t) {
  CONTEXT;
  Block block;
  if (!forget(address, &block)) return fail(cudaErrorInvalidValue);
  unmap_memory(address, in_pages(block.bytes));
  pool_used[block.device] -= block.bytes;
  return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  CALLED;
  int on = device_of(pool);
  size_t kept = std::max(keep, (pool_used[on] + kPage * 16 - 1) / (kPage * 16) * (kPage * 16));
  if (kept < pool_kept[on]) give(on, pool_kept[on] - kept), pool_kept[on] = kept;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, size_t) {
  CALLED;
  return cudaSuccess;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
  CALLED;
  int on = device_of(pool);
  auto* to = static_cast<uint64_t*>(value);
  switch (which) {
    case cudaMemPoolAttrReservedMemCurrent: *to = pool_kept[on]; break;
    case cudaMemPoolAttrReservedMemHigh: *to = pool_kept_high[on]; break;
    case cudaMemPoolAttrUsedMemCurrent: *to = pool_used[on]; break;
    case cudaMemPoolAttrUsedMemHigh: *to = pool_used_high[on]; break;
    default: *static_cast<int*>(value) = 1;
  }
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void*) {
  CALLED;
  int on = device_of(pool);
  if (which == cudaMemPoolAttrReservedMemHigh) pool_kept_high[on] = pool_kept[on];
  if (which == cudaMemPoolAttrUsedMemHigh) pool_used_high[on] = pool_used[on];
  return cudaSuccess;
}

// --- streams and events ----------------------------------------------------------------------

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int priority) {
  CONTEXT;
  auto* made = new Stream;
  made->device = current;
  made->priority = priority;
  *stream = reinterpret_cast<cudaStream_t>(made);
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  CALLED;
  return cudaStreamCreateWithPriority(stream, 0, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  CALLED;
  delete stream_of(stream);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  CONTEXT;
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  CALLED;
  *priority = stream_of(stream)->priority;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  CONTEXT;
  if (stream_of(stream)->capture) return fail(cudaErrorStreamCaptureUnsupported);
  return now_ns() < stream_of(stream)->busy_until ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  CONTEXT;
  if (stream_of(stream)->capture) return fail(cudaErrorStreamCaptureUnsupported);
  wait_until(stream_of(stream)->busy_until);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  CONTEXT;
  if (captures) return fail(cudaErrorStreamCaptureUnsupported);
  wait_until(busy_until[current]);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  CONTEXT;
  auto* on = stream_of(stream);
  if (event_of(event)->capture) on->capture = event_of(event)->capture;  // it joins the graph
  on->busy_until = std::max(on->busy_until, event_of(event)->ready_at);
  return cudaSuccess;
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t call, void* data, unsigned) {
  CONTEXT;
  enqueue(stream, [=] { call(stream, cudaSuccess, data); });
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void* data) {
  CONTEXT;
  enqueue(stream, [=] { call(data); });
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  CONTEXT;
  *event = reinterpret_cast<cudaEvent_t>(new Event);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  CALLED;
  return cudaEventCreateWithFlags(event, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  CALLED;
  delete event_of(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  CONTEXT;
  event_of(event)->ready_at = std::max(now_ns(), stream_of(stream)->busy_until);
  event_of(event)->capture = stream_of(stream)->capture;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  CALLED;
  return cudaEventRecordWithFlags(event, stream, 0);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  CONTEXT;
  return now_ns() < event_of(event)->ready_at ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  CONTEXT;
  wait_until(event_of(event)->ready_at);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  CONTEXT;
  *ms = (event_of(end)->ready_at - event_of(start)->ready_at) / 1e6f;
  return cudaSuccess;
}

// --- graphs: copies and fills are kept and replayed, kernels are only counted ----------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  CONTEXT;
  static std::atomic<unsigned long long> ids{0};
  stream_of(stream)->capture = new Capture{++ids, new Graph};
  ++captures;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  CONTEXT;
  auto* capture = std::exchange(stream_of(stream)->capture, nullptr);
  if (!capture) return fail(cudaErrorInvalidValue);
  for (auto& one : null_streams) one.capture = nullptr;
  --captures;
  *graph = reinterpret_cast<cudaGraph_t>(capture->graph);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  CALLED;
  *status = stream_of(stream)->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies,
#if CUDART_VERSION >= 13000
                                     const cudaGraphEdgeData** edges,
#endif
                                     size_t* count) {
  CALLED;
  auto* capture = stream_of(stream)->capture;
  *status = capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  if (id) *id = capture ? capture->id : 0;
  if (graph) *graph = capture ? reinterpret_cast<cudaGraph_t>(capture->graph) : nullptr;
  if (dependencies) *dependencies = nullptr;
#if CUDART_VERSION >= 13000
  if (edges) *edges = nullptr;
#endif
  if (count) *count = 0;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  CALLED;
  std::swap(*mode, capture_mode);
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* count) {
  CALLED;
  *count = reinterpret_cast<Graph*>(graph)->nodes.size();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  CONTEXT;
  *made = reinterpret_cast<cudaGraphExec_t>(new Graph(*reinterpret_cast<Graph*>(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  CONTEXT;
  for (auto& work : reinterpret_cast<Graph*>(graph)->nodes) work();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  CALLED;
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  CALLED;
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}

// --- what one process would share with another ------------------------------------------------

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) {
  CALLED;
  return fail(cudaErrorNotSupported);
}
cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned) {
  CALLED;
  return fail(cudaErrorNotSupported);
}
cudaError_t cudaIpcCloseMemHandle(void*) {
  CALLED;
  return fail(cudaErrorNotSupported);
}
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t*, cudaEvent_t) {
  CALLED;
  return fail(cudaErrorNotSupported);
}
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t) {
  CALLED;
  return fail(cudaErrorNotSupported);
}

}

// The emulated cards: who uses how many of their bytes, what lies at which address, and what
// streams would still be busy with. The runtime, the driver and NVML are three views of this.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace emulated {

constexpr size_t kPage = size_t{2} << 20;  // a driver hands out memory in pages of 2 MiB
constexpr int kMostDevices = 8;

/// How often each entry point was called; CALLED stands first in every one of them.
struct Counter {
  explicit Counter(const char* name);
  const char* name;
  std::atomic<long> calls{0};
  Counter* next;
};
#define CALLED                              \
  static emulated::Counter counter_(__func__);  \
  counter_.calls.fetch_add(1, std::memory_order_relaxed)

// What the environment says of the machine.
int card_count();               // EMULATED_CUDA_DEVICES, 1
size_t card_bytes();            // EMULATED_CUDA_BYTES, 8 GiB: what cudaMemGetInfo calls total
size_t context_bytes();         // EMULATED_CUDA_CONTEXT_BYTES, 256 MiB: what a context takes of a card
size_t reserved_bytes();        // EMULATED_CUDA_RESERVED_BYTES, 384 MiB: the driver's own, NVML only
std::string card_name();        // EMULATED_CUDA_NAME
int capability();               // EMULATED_CUDA_CAPABILITY, 80 for 8.0
std::string card_uuid(int card);  // without the prefix GPU-

/// The cards that CUDA_VISIBLE_DEVICES leaves, in its order, read when the driver starts.
const std::vector<int>& visible();

/// What one process has on each card; the table is shared by processes with one EMULATED_CUDA_CARD file.
struct Row {
  std::atomic<int> pid;
  std::atomic<size_t> bytes[kMostDevices];
};
Row* rows();
constexpr int kRows = 64;
size_t used(int card);          // by all processes
bool take(int device, size_t bytes);   // false: no room. `device` is this process's number
void give(int device, size_t bytes);
void start_context(int device);
bool has_context(int device);

/// False in a child of a process that had started the driver: there CUDA can't be used.
bool start_driver();

enum class Kind { device, host, registered };
struct Block {
  uintptr_t start = 0;
  size_t bytes = 0;
  Kind kind = Kind::device;
  int device = 0;
};
void* map_memory(size_t bytes, bool readable);
void unmap_memory(void* start, size_t bytes);
void note(const Block& block);
bool find(const void* address, Block* block);
bool forget(const void* start, Block* block);

using Work = std::function<void()>;
struct Graph {
  std::vector<Work> nodes;
};
struct Capture {
  unsigned long long id;
  Graph* graph;
};
/// Work is done at once; a stream only knows until when a real card would have been busy.
struct Stream {
  int device = 0;
  int priority = 0;
  int64_t busy_until = 0;
  Capture* capture = nullptr;
};
struct Event {
  int64_t ready_at = 0;
  Capture* capture = nullptr;
};
int64_t now_ns();
void wait_until(int64_t ns);

}  // namespace emulated

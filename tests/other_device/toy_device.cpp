// A device that is no CUDA: two devices of 256 MiB behind torch's PrivateUse1, as out-of-tree vendors
// (Ascend's `npu`, …) add theirs. Its memory is main memory at addresses that the CPU may not touch,
// its arithmetic is torch's CPU kernels on copies, its allocator caches and counts.
//
//   tensors ── addresses ──┐                    ┌── TOY_LACKS: what this vendor left out
//                          ├── one file of bytes
//   copies  ── bytes ──────┘
//
// TOY_LACKS (comma-separated, read once): `counters` (its allocator is no DeviceAllocator),
// `memory_info`, `pinning`, `synchronize`.

#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <sys/mman.h>
#include <torch/library.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

namespace {

using c10::CachingDeviceAllocator::DeviceStats;

constexpr auto kType = c10::DeviceType::PrivateUse1;
constexpr int kDevices = 2;
constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kCapacity = 256 * kMiB;
constexpr size_t kOthers = 8 * kMiB;  // what other processes have: the total less free says so
constexpr size_t kBlock = 512;        // what allocated bytes are rounded to
constexpr size_t kSegment = 64 << 10; // what reserved bytes are rounded to
constexpr size_t kAggregate = 0, kSmall = 1, kLarge = 2;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

bool lacks(const char* part) {
  const char* listed = std::getenv("TOY_LACKS");
  return listed && (std::string(",") + listed + ",").find(std::string(",") + part + ",") != std::string::npos;
}

// -- memory ---------------------------------------------------------------------------------------

struct Block {
  size_t offset, segment, allocated, requested;
};

struct Memory {
  char* addresses = nullptr;  // what tensors know; touching it ends the process, as on a card
  char* bytes = nullptr;      // the same pages for copies
  std::map<size_t, size_t> holes{{0, kCapacity - kOthers}};
  std::multimap<size_t, size_t> cached;  // segment → offset
  std::unordered_map<void*, Block> live;
  DeviceStats stats;

  void open() {
    if (addresses) return;
    std::FILE* file = std::tmpfile();
    TORCH_CHECK(file && ftruncate(fileno(file), kCapacity) == 0, "toy: no file for its memory");
    auto map = [&](int how) {
      void* at = mmap(nullptr, kCapacity, how, MAP_SHARED, fileno(file), 0);
      TORCH_CHECK(at != MAP_FAILED, "toy: no room for its memory");
      return static_cast<char*>(at);
    };
    addresses = map(PROT_NONE);
    bytes = map(PROT_READ | PROT_WRITE);
    std::fclose(file);
  }

  static void count(c10::CachingAllocator::StatArray& stat, size_t size, int64_t by) {
    for (size_t pool : {kAggregate, size >= kMiB ? kLarge : kSmall}) {
      by > 0 ? stat[pool].increase(by) : stat[pool].decrease(-by);
    }
  }

  void count_block(const Block& block, int sign) {
    count(stats.allocation, block.allocated, sign);
    count(stats.active, block.allocated, sign);
    for (auto* stat : {&stats.allocated_bytes, &stats.active_bytes}) {
      count(*stat, block.allocated, sign * static_cast<int64_t>(block.allocated));
    }
    count(stats.requested_bytes, block.allocated, sign * static_cast<int64_t>(block.requested));
  }

  void count_segment(size_t segment, int sign) {
    count(stats.segment, segment, sign);
    count(stats.reserved_bytes, segment, sign * static_cast<int64_t>(segment));
  }

  int64_t reserved() const { return stats.reserved_bytes[kAggregate].current; }

  // Offset of a segment: a cached one, else new memory; -1 where there is none.
  int64_t take(size_t segment) {
    auto again = cached.find(segment);
    if (again != cached.end()) {
      size_t offset = again->second;
      cached.erase(again);
      return static_cast<int64_t>(offset);
    }
    for (auto [offset, size] : holes) {
      if (size < segment) continue;
      holes.erase(offset);
      if (size > segment) holes[offset + segment] = size - segment;
      count_segment(segment, 1);
      return static_cast<int64_t>(offset);
    }
    return -1;
  }

  void empty_cache() {
    for (auto [segment, offset] : cached) {
      count_segment(segment, -1);
      holes[offset] = segment;
    }
    cached.clear();
    for (auto hole = holes.begin(); hole != holes.end();) {  // neighbours become one
      auto next = std::next(hole);
      if (next != holes.end() && hole->first + hole->second == next->first) {
        hole->second += next->second;
        holes.erase(next);
      } else {
        ++hole;
      }
    }
  }

  size_t free_bytes() const { return kCapacity - kOthers - static_cast<size_t>(reserved()); }
};

std::mutex lock;
Memory memories[kDevices];
thread_local c10::DeviceIndex current = 0;
bool started = false;

Memory& memory_of(c10::DeviceIndex index) {
  TORCH_CHECK(index >= 0 && index < kDevices, "toy: there is no device ", static_cast<int>(index));
  return memories[index];
}

Memory* owner_of(const void* address) {
  for (auto& memory : memories) {
    auto at = static_cast<const char*>(address);
    if (memory.addresses && at >= memory.addresses && at < memory.addresses + kCapacity) return &memory;
  }
  return nullptr;
}

char* bytes_at(const void* address) {
  Memory* memory = owner_of(address);
  return memory->bytes + (static_cast<const char*>(address) - memory->addresses);
}

void release(void* address) {
  std::lock_guard<std::mutex> held(lock);
  Memory* memory = owner_of(address);
  if (!memory) return;
  Block block = memory->live.at(address);
  memory->live.erase(address);
  memory->count_block(block, -1);
  memory->cached.emplace(block.segment, block.offset);
}

c10::DataPtr allocate_on(c10::DeviceIndex index, size_t requested) {
  std::lock_guard<std::mutex> held(lock);
  started = true;
  Memory& memory = memory_of(index);
  memory.open();
  c10::Device device(kType, index);
  if (requested == 0) return {nullptr, device};
  size_t allocated = round_up(requested, kBlock), segment = round_up(allocated, kSegment);
  int64_t offset = memory.take(segment);
  if (offset < 0) {
    ++memory.stats.num_alloc_retries;
    memory.empty_cache();
    offset = memory.take(segment);
  }
  if (offset < 0) {
    ++memory.stats.num_ooms;
    TORCH_CHECK_WITH(
        OutOfMemoryError, false, "TOY out of memory. Tried to allocate ", requested / kMiB, ".00 MiB. TOY ",
        static_cast<int>(index), " has a total capacity of ", kCapacity / kMiB, ".00 MiB of which ",
        memory.free_bytes() / kMiB, ".00 MiB is free.");
  }
  Block block{static_cast<size_t>(offset), segment, allocated, requested};
  void* address = memory.addresses + offset;
  memory.live[address] = block;
  memory.count_block(block, 1);
  return {address, address, &release, device};
}

struct CountingAllocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t n) override { return allocate_on(current, n); }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t n) const override {
    std::memcpy(bytes_at(to), bytes_at(from), n);
  }
  bool initialized() override { return started; }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  void emptyCache(c10::MempoolId_t = {0, 0}) override {
    std::lock_guard<std::mutex> held(lock);
    for (auto& memory : memories) memory.empty_cache();
  }
  DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    std::lock_guard<std::mutex> held(lock);
    return memory_of(index).stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex index) override {
    std::lock_guard<std::mutex> held(lock);
    auto& stats = memory_of(index).stats;
    for (auto* array : {&stats.allocation, &stats.segment, &stats.active, &stats.allocated_bytes,
                        &stats.reserved_bytes, &stats.active_bytes, &stats.requested_bytes}) {
      for (auto& stat : *array) stat.reset_peak();
    }
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    if (lacks("memory_info")) return c10::DeviceAllocator::getMemoryInfo(index);
    std::lock_guard<std::mutex> held(lock);
    return {memory_of(index).free_bytes(), kCapacity};
  }
};

// As backends had them before torch knew DeviceAllocator: torch.accelerator can't ask it.
struct SilentAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t n) override { return allocate_on(current, n); }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t n) const override {
    std::memcpy(bytes_at(to), bytes_at(from), n);
  }
};

// -- pinned main memory ---------------------------------------------------------------------------

std::set<const void*> pinned;

void unpin(void* address) {
  std::lock_guard<std::mutex> held(lock);
  pinned.erase(address);
  std::free(address);
}

struct PinningAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t n) override {
    void* address = std::aligned_alloc(64, round_up(n + 1, 64));
    TORCH_CHECK(address, "toy: no main memory to pin");
    std::lock_guard<std::mutex> held(lock);
    pinned.insert(address);
    return {address, address, &unpin, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &unpin; }
  void copy_data(void* to, const void* from, size_t n) const override { std::memcpy(to, from, n); }
};

CountingAllocator counting;
SilentAllocator silent;
PinningAllocator pinning;

c10::Allocator* allocator() {
  static c10::Allocator* chosen = lacks("counters") ? static_cast<c10::Allocator*>(&silent) : &counting;
  return chosen;
}

// -- what torch asks of a device ------------------------------------------------------------------

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    c10::Device before(kType, current);
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {kType, current}; }
  void setDevice(c10::Device device) const override { current = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current = device.index(); }
  c10::Stream getStream(c10::Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream getDefaultStream(c10::Device device) const override { return getStream(device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return getStream(stream.device()); }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    if (lacks("synchronize")) c10::impl::DeviceGuardImplInterface::synchronizeDevice(index);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex index) const override { return memory_of(index).addresses; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  c10::DeviceIndex getCurrentDevice() const override { return current; }
  void setCurrentDevice(c10::DeviceIndex index) const override { current = index; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override { return std::exchange(current, index); }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override { return exchangeDevice(index); }
  bool isPinnedPtr(const void* address) const override {
    std::lock_guard<std::mutex> held(lock);
    return pinned.count(address) > 0;
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    return lacks("pinning") ? at::PrivateUse1HooksInterface::getPinnedMemoryAllocator() : &pinning;
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t size) const override {
    auto* of = storage.unsafeGetStorageImpl();
    auto made = allocate_on(storage.device().index(), size);
    if (size_t kept = std::min(size, of->nbytes())) allocator()->copy_data(made.get(), of->data(), kept);
    of->set_data_ptr_noswap(std::move(made));
    of->set_nbytes(size);
  }
};

Hooks hooks;

// -- operations: what makes and shows memory; all else runs on the CPU and comes back -------------

c10::DeviceIndex index_of(std::optional<c10::Device> device) {
  return device && device->has_index() ? device->index() : current;
}

at::Tensor empty(
    at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
    std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  c10::DeviceGuard guard(c10::Device(kType, index_of(device)));
  return at::detail::empty_generic(
      size, allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(
    at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
    std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  c10::DeviceGuard guard(c10::Device(kType, index_of(device)));
  return at::detail::empty_strided_generic(
      size, stride, allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(dtype));
}

// The same numbers as a CPU tensor without a copy: what copies between devices run on.
at::Tensor seen_by_cpu(const at::Tensor& tensor) {
  if (tensor.is_cpu() || !tensor.numel()) return tensor.is_cpu() ? tensor : at::Tensor();
  auto options = tensor.options().device(at::kCPU);
  auto seen = at::from_blob(bytes_at(tensor.const_data_ptr()), tensor.sizes(), tensor.strides(), options);
  seen._set_conj(tensor.is_conj());
  seen._set_neg(tensor.is_neg());
  return seen;
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  if (to.numel()) seen_by_cpu(to).copy_(seen_by_cpu(from));
  return to;
}

// Torch's own resizes by the CPU, which may not touch these addresses.
const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat>) {
  size_t needed = at::detail::computeStorageNbytesContiguous(size, self.itemsize(), self.storage_offset());
  if (needed > self.storage().nbytes()) hooks.resizePrivateUse1Bytes(self.storage(), needed);
  self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  return self;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  return copy_from(from, resize(to, from.sizes(), std::nullopt), false);
}

void on_the_cpu(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  at::native::cpu_fallback(operation, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_cpu>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", &at::native::view);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("resize_", &resize);
  library.impl("set_.source_Storage", &at::native::set_);
  library.impl("set_.source_Storage_storage_offset", &at::native::set_storage_cpu_);
  library.impl("set_.source_Tensor", &at::native::set_tensor_);
}

} // namespace

// -- for the device module, by ctypes -------------------------------------------------------------

extern "C" {
void toy_register() {
  c10::SetAllocator(kType, allocator());
  at::RegisterPrivateUse1HooksInterface(&hooks);
}
int toy_device_count() { return kDevices; }
int toy_current_device() { return current; }
void toy_set_device(int index) { current = static_cast<c10::DeviceIndex>(index); }
int toy_is_initialized() { return started; }
// The allocator's own figures, past torch and past whoever stands in for its functions.
int64_t toy_bytes(int index, const char* which, bool peak) {
  std::lock_guard<std::mutex> held(lock);
  auto& stats = memory_of(static_cast<c10::DeviceIndex>(index)).stats;
  auto& array = *which == 'a' ? stats.allocated_bytes : *which == 'r' ? stats.reserved_bytes : stats.requested_bytes;
  return peak ? array[kAggregate].peak : array[kAggregate].current;
}
void toy_reset_peaks(int index) { counting.resetPeakStats(static_cast<c10::DeviceIndex>(index)); }
}

#include "card.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>

namespace emulated {
namespace {

Counter* counters = nullptr;
std::mutex lock;
std::map<uintptr_t, Block>& blocks() {
  static auto* made = new std::map<uintptr_t, Block>;  // used until the very end of the process
  return *made;
}
std::atomic<bool> contexts[kMostDevices];
std::atomic<int> driver_pid{0};

size_t number(const char* name, size_t otherwise) {
  const char* text = getenv(name);
  return text && *text ? strtoull(text, nullptr, 0) : otherwise;
}

Row* open_table() {
  const size_t bytes = sizeof(Row) * kRows;
  int file = -1;
  if (const char* path = getenv("EMULATED_CUDA_CARD")) {
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0 && ftruncate(file, bytes) != 0) file = -1;
  }
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file, 0);
  return static_cast<Row*>(at);
}

bool alive(int pid) { return pid != 0 && kill(pid, 0) == 0; }

Row* own_row() {
  static Row* row = nullptr;
  static int owner = 0;
  if (row && owner == getpid()) return row;
  for (int i = 0; i < kRows; ++i) {
    int pid = rows()[i].pid;
    if (pid != getpid() && alive(pid)) continue;
    if (!rows()[i].pid.compare_exchange_strong(pid, getpid())) continue;
    for (auto& bytes : rows()[i].bytes) bytes = 0;
    owner = getpid();
    return row = &rows()[i];
  }
  abort();
}

}  // namespace

Counter::Counter(const char* name) : name(name) {
  std::lock_guard guard(lock);
  next = counters;
  counters = this;
}

int card_count() {
  return static_cast<int>(std::min(number("EMULATED_CUDA_DEVICES", 1), size_t{kMostDevices}));
}
size_t card_bytes() { return number("EMULATED_CUDA_BYTES", size_t{8} << 30); }
size_t context_bytes() { return number("EMULATED_CUDA_CONTEXT_BYTES", size_t{256} << 20); }
size_t reserved_bytes() { return number("EMULATED_CUDA_RESERVED_BYTES", size_t{384} << 20); }
int capability() { return static_cast<int>(number("EMULATED_CUDA_CAPABILITY", 80)); }
std::string card_name() {
  const char* name = getenv("EMULATED_CUDA_NAME");
  return name ? name : "NVIDIA Emulated";
}
std::string card_uuid(int card) {
  char text[40];
  snprintf(text, sizeof text, "fa4ecda0-0000-4000-8000-%012d", card);
  return text;
}

const std::vector<int>& visible() {
  static const std::vector<int> cards = [] {
    std::vector<int> found;
    const char* entries = getenv("CUDA_VISIBLE_DEVICES");
    if (!entries) {
      for (int card = 0; card < card_count(); ++card) found.push_back(card);
      return found;
    }
    std::stringstream list(entries);
    for (std::string entry; std::getline(list, entry, ',');) {
      int card = -1;
      if (entry.rfind("GPU-", 0) == 0) {
        for (int i = 0; i < card_count(); ++i)
          if (("GPU-" + card_uuid(i)).rfind(entry, 0) == 0) card = i;
      } else if (!entry.empty()) {
        card = atoi(entry.c_str());
      }
      if (card < 0 || card >= card_count()) break;  // as CUDA: what follows is not seen either
      found.push_back(card);
    }
    return found;
  }();
  return cards;
}

Row* rows() {
  static Row* table = open_table();
  return table;
}

size_t used(int card) {
  size_t sum = 0;
  for (int i = 0; i < kRows; ++i)
    if (alive(rows()[i].pid)) sum += rows()[i].bytes[card];
  return sum;
}

bool take(int device, size_t bytes) {
  std::lock_guard guard(lock);
  int card = visible()[device];
  if (used(card) + bytes > card_bytes()) return false;
  own_row()->bytes[card] += bytes;
  return true;
}

void give(int device, size_t bytes) { own_row()->bytes[visible()[device]] -= bytes; }

void start_context(int device) {
  if (!contexts[device].exchange(true)) take(device, context_bytes());
}
bool has_context(int device) { return contexts[device]; }

bool start_driver() {
  int pid = 0;
  return driver_pid.compare_exchange_strong(pid, getpid()) || pid == getpid();
}

void* map_memory(size_t bytes, bool readable) {
  auto* at = static_cast<char*>(mmap(nullptr, bytes + kPage, readable ? PROT_READ | PROT_WRITE : PROT_NONE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (at == MAP_FAILED) return nullptr;
  size_t before = (kPage - reinterpret_cast<uintptr_t>(at) % kPage) % kPage;
  if (before) munmap(at, before);
  munmap(at + before + bytes, kPage - before);
  return at + before;
}
void unmap_memory(void* start, size_t bytes) { munmap(start, bytes); }

void note(const Block& block) {
  std::lock_guard guard(lock);
  blocks()[block.start] = block;
}

bool find(const void* address, Block* block) {
  std::lock_guard guard(lock);
  auto at = blocks().upper_bound(reinterpret_cast<uintptr_t>(address));
  if (at == blocks().begin()) return false;
  *block = (--at)->second;
  return reinterpret_cast<uintptr_t>(address) - block->start < block->bytes;
}

bool forget(const void* start, Block* block) {
  std::lock_guard guard(lock);
  auto at = blocks().find(reinterpret_cast<uintptr_t>(start));
  if (at == blocks().end()) return false;
  *block = at->second;
  blocks().erase(at);
  return true;
}

int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * int64_t{1000000000} + time.tv_nsec;
}
void wait_until(int64_t ns) {
  while (now_ns() < ns) usleep(200);
}

}  // namespace emulated

extern "C" {

/// How often the entry point `name` was called in this process.
long emulated_cuda_calls(const char* name) {
  for (auto* one = emulated::counters; one; one = one->next)
    if (!strcmp(one->name, name)) return one->calls;
  return 0;
}

/// Writes lines `name calls` of all that were called; returns how many bytes that takes.
size_t emulated_cuda_report(char* text, size_t room) {
  std::string all;
  for (auto* one = emulated::counters; one; one = one->next)
    if (one->calls) all += std::string(one->name) + " " + std::to_string(one->calls) + "\n";
  if (text && room) snprintf(text, room, "%s", all.c_str());
  return all.size() + 1;
}

}

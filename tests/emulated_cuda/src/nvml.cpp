// libnvidia-ml: what nvidia-smi would say of the cards, by the functions that pynvml and torch use.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "card.h"

using namespace emulated;

namespace {

using Card = intptr_t;  // a handle: the card's number plus one
enum Result { kSuccess = 0, kInvalid = 2, kNotSupported = 3, kNotFound = 6, kTooSmall = 7 };

struct Memory {
  unsigned long long total, free, used;
};
struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct Process {
  unsigned pid;
  unsigned long long bytes;
};
struct ProcessV2 {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};
struct Pci {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char bus_id[32];
};

Result text(char* to, unsigned room, const std::string& what) {
  snprintf(to, room, "%s", what.c_str());
  return kSuccess;
}

template <class Row, class Fill>
Result list(Card card, unsigned* count, Row* to, Fill fill) {
  unsigned found = 0, room = *count;
  for (int i = 0; i < kRows; ++i) {
    size_t bytes = rows()[i].bytes[card - 1];
    int pid = rows()[i].pid;
    if (!pid || !bytes || access(("/proc/" + std::to_string(pid)).c_str(), F_OK)) continue;
    if (found < room && to) fill(to[found], pid, bytes);
    ++found;
  }
  *count = found;
  return found > room ? kTooSmall : kSuccess;
}

}  // namespace

extern "C" {

Result nvmlInit_v2() {
  CALLED;
  return kSuccess;
}
Result nvmlInit() {  // torch counts devices by this one
  CALLED;
  return kSuccess;
}
Result nvmlInitWithFlags(unsigned) {
  CALLED;
  return kSuccess;
}
Result nvmlShutdown() {
  CALLED;
  return kSuccess;
}
const char* nvmlErrorString(Result result) { return result == kNotSupported ? "Not Supported" : "Not Found"; }
Result nvmlSystemGetDriverVersion(char* to, unsigned room) { return text(to, room, "580.00"); }
Result nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return kSuccess;
}
Result nvmlSystemGetProcessName(unsigned pid, char* to, unsigned room) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%u/exe", pid);
  ssize_t length = readlink(path, to, room - 1);
  if (length < 0) return kNotFound;
  to[length] = 0;
  return kSuccess;
}
Result nvmlDeviceGetCount_v2(unsigned* count) {
  CALLED;
  *count = card_count();
  return kSuccess;
}
Result nvmlDeviceGetHandleByIndex_v2(unsigned index, Card* card) {
  if (index >= static_cast<unsigned>(card_count())) return kInvalid;
  *card = index + 1;
  return kSuccess;
}
Result nvmlDeviceGetHandleByUUID(const char* uuid, Card* card) {
  for (int i = 0; i < card_count(); ++i)
    if ("GPU-" + card_uuid(i) == uuid) return *card = i + 1, kSuccess;
  return kNotFound;
}
Result nvmlDeviceGetHandleByPciBusId_v2(const char* id, Card* card) {
  unsigned domain = 0, bus = 0;
  sscanf(id, "%x:%x", &domain, &bus);
  if (!bus || bus > static_cast<unsigned>(card_count())) return kNotFound;
  *card = bus;
  return kSuccess;
}
Result nvmlDeviceGetIndex(Card card, unsigned* index) {
  *index = card - 1;
  return kSuccess;
}
Result nvmlDeviceGetName(Card, char* to, unsigned room) { return text(to, room, card_name()); }
Result nvmlDeviceGetUUID(Card card, char* to, unsigned room) {
  return text(to, room, "GPU-" + card_uuid(card - 1));
}
Result nvmlDeviceGetPciInfo_v3(Card card, Pci* to) {
  *to = {};
  to->bus = card;
  snprintf(to->bus_id, sizeof to->bus_id, "00000000:%02X:00.0", static_cast<unsigned>(card));
  return kSuccess;
}
Result nvmlDeviceIsMigDeviceHandle(Card, unsigned* is) {
  *is = 0;
  return kSuccess;
}
Result nvmlDeviceGetMigMode(Card, unsigned*, unsigned*) { return kNotSupported; }
Result nvmlDeviceGetMemoryInfo(Card card, Memory* to) {
  CALLED;
  size_t by_processes = used(card - 1);
  *to = {card_bytes() + reserved_bytes(), card_bytes() - by_processes, by_processes + reserved_bytes()};
  return kSuccess;
}
Result nvmlDeviceGetMemoryInfo_v2(Card card, MemoryV2* to) {
  CALLED;
  size_t by_processes = used(card - 1);
  *to = {to->version, card_bytes() + reserved_bytes(), reserved_bytes(), card_bytes() - by_processes,
         by_processes};
  return kSuccess;
}
Result nvmlDeviceGetComputeRunningProcesses(Card card, unsigned* count, Process* to) {
  CALLED;
  return list(card, count, to, [](Process& row, int pid, size_t bytes) { row = {unsigned(pid), bytes}; });
}
Result nvmlDeviceGetComputeRunningProcesses_v3(Card card, unsigned* count, ProcessV2* to) {
  CALLED;
  return list(card, count, to, [](ProcessV2& row, int pid, size_t bytes) {
    row = {unsigned(pid), bytes, ~0u, ~0u};
  });
}
Result nvmlDeviceGetComputeRunningProcesses_v2(Card card, unsigned* count, ProcessV2* to) {
  return nvmlDeviceGetComputeRunningProcesses_v3(card, count, to);
}
Result nvmlDeviceGetGraphicsRunningProcesses_v3(Card, unsigned* count, ProcessV2*) {
  *count = 0;
  return kSuccess;
}
Result nvmlDeviceGetMPSComputeRunningProcesses_v3(Card, unsigned* count, ProcessV2*) {
  *count = 0;
  return kSuccess;
}

}

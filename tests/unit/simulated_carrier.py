"""Accelerators of main memory: a table says which storage is on which of them.

A copy gets its bytes when its device is waited for, not before, as on a stream.

Parking runs over it as it is; only where a storage is, and how its bytes are copied, is made up.
"""

import weakref

import torch


def rounded(size):
    return -(-size // 512) * 512


class SimulatedCarrier:
    """`cuda:0`, `cuda:1`, … with an allocator that rounds to 512 bytes, and pinned memory."""

    def __init__(self, capacity=None, room=2**40):
        self.capacity = capacity or {}
        self.room = room
        self.fail_at = None
        """Which copy from now on fails: 0 is the next."""
        self.has_accelerators = True
        self.waited = []
        self._enqueued = []
        self.peak = {}
        self.pinned = []
        self._where = {}
        self._bytes = {}

    def place(self, *tensors, device="cuda:0"):
        """Says that these tensors, and their gradients, are on a device."""
        for tensor in tensors:
            self._mark(tensor.untyped_storage(), device)
            if tensor.is_leaf and tensor.grad is not None:
                self._mark(tensor.grad.untyped_storage(), device)
        self.peak[device] = self.allocated(device)

    def place_model(self, model, device="cuda:0"):
        self.place(*model.parameters(), *model.buffers(), device=device)

    def place_state(self, optimizer, device="cuda:0"):
        state = [t for kept in optimizer.state.values() for t in kept.values()]
        self.place(*(t for t in state if torch.is_tensor(t)), device=device)

    def where(self, tensor):
        return self.device_of(tensor.untyped_storage())

    def is_pinned(self, tensor):
        return any(ref() is tensor.untyped_storage() for ref in self.pinned)

    def _mark(self, storage, device):
        if self.device_of(storage) != device:
            size = rounded(storage.nbytes())
            ref = weakref.ref(storage, lambda _: self._free(device, size))
            self._where[storage._cdata] = (ref, device)
            self._bytes[device] = self.allocated(device) + size

    def _free(self, device, size):
        self._bytes[device] -= size

    def device_of(self, storage):
        if storage.device.type == "meta":
            return "meta"
        ref, device = self._where.get(storage._cdata, (lambda: None, None))
        return device if ref() is storage else "cpu"

    def accelerators(self):
        return self.has_accelerators

    def wait(self, device):
        self.waited.append(device)
        for to, of in self._enqueued:
            to.copy_(of)
        self._enqueued.clear()

    def allocated(self, device):
        return self._bytes.get(device, 0)

    def host_room(self):
        return self.room

    def copy(self, storage, device):
        if self.fail_at is not None:
            self.fail_at -= 1
            if self.fail_at < 0:
                raise torch.OutOfMemoryError(f"{device} out of memory. Tried to allocate …")
        free = self.capacity.get(device, 2**60) - self.allocated(device)
        if rounded(storage.nbytes()) > free:
            raise torch.OutOfMemoryError(f"{device} out of memory. Tried to allocate …")
        made = torch.UntypedStorage(storage.nbytes())
        to, of = (torch.empty(0, dtype=torch.uint8).set_(each) for each in (made, storage))
        self._enqueued.append((to, of))
        if device == "cpu":
            self.pinned.append(weakref.ref(made))
        else:
            self._mark(made, device)
            self.peak[device] = max(self.peak.get(device, 0), self.allocated(device))
        return made

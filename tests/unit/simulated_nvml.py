"""NVIDIA's driver as the package `pynvml` shows it, over cards that a test describes."""

from types import SimpleNamespace

GIB = 2**30
KEPT = GIB // 2
"""Bytes that the driver keeps for itself on each card."""


class NotFoundError(Exception):
    """What NVML raises for a card or function that it does not have."""


class FakeDriver:
    """The part of pynvml that nbmem calls, over cards that a test describes."""

    nvmlMemory_v2 = 0x02000028

    def __init__(self, *cards, mig=()):
        self.cards = list(cards)
        self.mig = {f"MIG-{name}": total for name, total in dict(mig).items()}
        self.processes = {}
        """Lists of `process(…)` by the name of the driver's list; others are not supported."""
        self.names = {}
        self.old = False
        self.model = None
        """Windows' model of the driver: 0 is WDDM, 1 TCC; None where only Linux is known."""
        self.calls = []

    def nvmlInit(self):
        self.calls.append("init")

    def nvmlShutdown(self):
        self.calls.append("shutdown")

    def nvmlDeviceGetCount(self):
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index):
        return self.cards[index]

    def nvmlDeviceGetHandleByUUID(self, uuid):
        for card in self.cards:
            if card.uuid == uuid:
                return card
        if uuid in self.mig:
            return self._instance(uuid)
        raise NotFoundError("Not Found")

    def _instance(self, uuid):
        told = self.mig[uuid]
        total, used = told if isinstance(told, tuple) else (told, GIB)
        return SimpleNamespace(uuid=uuid, total=total, used=used, instance=True)

    def nvmlDeviceGetMaxMigDeviceCount(self, card):
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card, number):
        if number >= len(self.mig):
            raise NotFoundError("Not Found")
        return self._instance(list(self.mig)[number])

    def nvmlDeviceGetCurrentDriverModel(self, card):
        if self.model is None:
            raise NotFoundError("Not Supported")
        return self.model

    def nvmlDeviceGetUUID(self, card):
        return card.uuid

    def nvmlDeviceGetIndex(self, card):
        return self.cards.index(card)

    def nvmlDeviceGetName(self, card):
        return card.name

    def nvmlDeviceIsMigDeviceHandle(self, card):
        return SimpleNamespace(value=int(getattr(card, "instance", False)))

    def nvmlDeviceGetMigMode(self, card):
        if not hasattr(card, "mig"):
            raise NotFoundError("Not Supported")
        return [int(card.mig), 0]

    def nvmlDeviceGetMemoryInfo(self, card, version=None):
        if card.total is None:
            raise NotFoundError("Not Supported")
        if hasattr(card, "told"):  # figures as a driver was seen to give them
            return SimpleNamespace(**card.told)
        free = card.total - card.used - KEPT
        if version is None:  # as drivers before 510
            return SimpleNamespace(total=card.total, used=card.used + KEPT, free=free)
        if self.old:
            raise NotFoundError("Function Not Found")
        return SimpleNamespace(total=card.total, used=card.used, free=free, reserved=KEPT)

    def nvmlDeviceGetComputeRunningProcesses(self, card):
        return self._running("Compute")

    def nvmlDeviceGetGraphicsRunningProcesses(self, card):
        return self._running("Graphics")

    def nvmlDeviceGetMPSComputeRunningProcesses(self, card):
        return self._running("MPSCompute")

    def _running(self, kind):
        if kind not in self.processes:
            raise NotFoundError("Not Supported")
        return self.processes[kind]

    def nvmlSystemGetProcessName(self, pid):
        if pid not in self.names:
            raise NotFoundError("Not Found")
        return self.names[pid]


def process(pid, size):
    """A row of the driver's lists; the size is None where it is not told."""
    return SimpleNamespace(pid=pid, usedGpuMemory=size)


def card(letter, total=8 * GIB, used=GIB, name="NVIDIA A", **more):
    return SimpleNamespace(uuid=f"GPU-{letter * 8}-1", total=total, used=used, name=name, **more)

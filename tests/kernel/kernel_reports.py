"""What the kernel tests read from a kernel's answers."""

from __future__ import annotations


def reports_in(outputs):
    """The plain text of the reports among a cell's outputs."""
    return [
        message["content"]["data"]["text/plain"]
        for message in outputs
        if message["msg_type"] == "display_data" and "text/html" in message["content"]["data"]
    ]


def last_record(kernel, what):
    """What the kernel says of its last record, called `r`."""
    return kernel.value(f"(lambda r: ({what}))(nbmem.get_history().records()[-1])")

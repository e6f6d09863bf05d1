"""How the user's code failed, read from its error: nothing of the error is kept."""

from nbmem.failures.maybe import maybe_out_of_memory
from nbmem.failures.recognizer import find_out_of_memory, read_message

__all__ = ["find_out_of_memory", "maybe_out_of_memory", "read_message"]

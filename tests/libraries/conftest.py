"""Other people's libraries, offline: models are built from configurations, nothing is loaded.

Each file is about one library, imports only that one, and has a process of its own.
"""

from __future__ import annotations

import os

for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
    os.environ[name] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

"""With EMULATED_CUDA_VALUES=1 in the environment, `import torch` is followed by cuda_values."""

import importlib.abc
import importlib.util
import os
import sys


class _AfterTorch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec("torch")
        finally:
            sys.meta_path.insert(0, self)  # this may have been a question only
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            import cuda_values

            cuda_values.install()

        spec.loader.exec_module = exec_module
        return spec


if os.environ.get("EMULATED_CUDA_VALUES") == "1":
    sys.meta_path.insert(0, _AfterTorch())

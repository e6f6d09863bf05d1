"""Writes what torch's libraries need besides the emulation: stubs.cpp, exports.map, sonames.txt.

Usage: make_stubs.py TORCH_LIB_FOLDER OUT_FOLDER OBJECT...
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

# What nobody else on a system without CUDA has: the libraries that the stubs stand for.
OURS = re.compile(r"lib(cu|nv|nccl)[A-Za-z_-]*\.so")
NAMES = re.compile(r"^(__cuda|cu[a-zA-Z]*[A-Z]|nccl[A-Z]|nvml[A-Z]|nvshmem|nvrtc|nvtx)")


def lines(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def symbols(path, kind):
    return {line.split()[-1] for line in lines("nm", "-D", f"--{kind}-only", path)}


def main(torch_lib, out, *objects):
    libraries = [path for path in Path(torch_lib).glob("*.so*") if path.is_file()]
    needed, sonames = (
        set(),
        {"libcuda.so.1", "libnvidia-ml.so.1", "libnvrtc.so.13", "libcusolver.so.12"},
    )
    for library in libraries:
        needed |= symbols(library, "undefined")
        for line in lines("readelf", "-d", library):
            found = re.search(r"\(NEEDED\).*\[(.*)\]", line)
            if found and OURS.match(found[1]):
                sonames.add(found[1])
    sonames -= {path.name for path in libraries}
    defined = {
        name.partition("@")[0] for library in libraries for name in symbols(library, "defined")
    }
    made = {line.split()[-1] for line in lines("nm", "--defined-only", *objects) if " T " in line}

    versions = defaultdict(set)
    for library in libraries:  # what it looks up by name while it runs
        if library.name == "libc10_cuda.so":
            asked = lines("strings", "-n", "5", library)
            versions["EMULATED_CUDA"] |= {
                name for name in asked if re.fullmatch(r"(cu|nvml)[A-Z]\w+", name)
            }
    for symbol in needed:
        name, _, version = symbol.partition("@")
        if name not in defined and (
            NAMES.match(name) or version in sonames or version == "NVSHMEM"
        ):
            versions[version.lstrip("@") or "EMULATED_CUDA"].add(name)
    stubs = sorted(set().union(*versions.values()) - made)
    own = {name for name in made if NAMES.match(name) or name.startswith("emulated_cuda_")}
    versions["EMULATED_CUDA"] |= own - set().union(*versions.values())

    out = Path(out)
    body = ['#include "card.h"', 'extern "C" {']
    body += [f"long {name}() {{ CALLED; return 0; }}" for name in stubs]
    (out / "stubs.cpp").write_text("\n".join([*body, "}", ""]))
    blocks = [
        f"{version} {{ global: {' '.join(f'{name};' for name in sorted(names))} }};"
        for version, names in sorted(versions.items())
    ]
    (out / "exports.map").write_text("\n".join([*blocks, "EMULATED_CUDA_LOCAL { local: *; };", ""]))
    (out / "sonames.txt").write_text("\n".join(sorted(sonames)) + "\n")
    print(f"{len(own)} functions emulated, {len(stubs)} stubs, {len(sonames)} libraries")


main(*sys.argv[1:])

#!/usr/bin/env python3
"""Compiles tests/golden/*.cu to PTX with NVRTC.

Needs no GPU. Install the compiler with: pip install nvidia-cuda-nvrtc, or unzip its wheel and set NVRTC_LIB to the path of
libnvrtc.so.13. The headers of half and bf16 come with the library and are unpacked into a temporary folder.
"""
import ctypes
import glob
import os
import sys
import tempfile


def library():
    path = os.environ.get("NVRTC_LIB")
    if not path:
        import nvidia.cu13

        path = os.path.join(list(nvidia.cu13.__path__)[0], "lib", "libnvrtc.so.13")
    return ctypes.CDLL(path)


def compile(nvrtc, source, name, options):
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), 0, None, None)
    array = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    result = nvrtc.nvrtcCompileProgram(program, len(options), array)
    size = ctypes.c_size_t()
    if result != 0:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        sys.exit(f"{name}: {log.value.decode()}")
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, text)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return text.value.decode()


def main():
    nvrtc = library()
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tests", "golden")
    with tempfile.TemporaryDirectory() as headers:
        nvrtc.nvrtcInstallBundledHeaders(headers.encode(), 0, None)
        includes = sorted({os.path.dirname(path) for path in glob.glob(headers + "/**/cuda_fp16.h", recursive=True)})
        for path in sorted(glob.glob(folder + "/*.cu")):
            source = open(path).read()
            name = os.path.basename(path)[:-3]
            for arch in (80, 90):
                options = [f"--gpu-architecture=compute_{arch}", "-default-device", "--device-int128"]
                options += ["-I" + folder for folder in includes]
                if source.startswith("// fast"):
                    options.append("--use_fast_math")
                text = compile(nvrtc, source, name + ".cu", options)
                with open(f"{folder}/{name}.sm_{arch}.ptx", "w") as out:
                    out.write(text)
                print(name, arch, len(text.splitlines()), "lines")


if __name__ == "__main__":
    main()

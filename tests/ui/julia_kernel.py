"""A kernel of another language, as far as a front end can tell: it answers what it was asked."""

from __future__ import annotations

from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel


class JuliaKernel(Kernel):
    implementation = "fake-julia"
    implementation_version = "1"
    language_info = {  # noqa: RUF012 - ipykernel asks for a plain attribute
        "name": "julia",
        "mimetype": "text/x-julia",
        "file_extension": ".jl",
    }
    banner = "not Python"
    asked: list[str] = []  # noqa: RUF012

    def do_execute(self, code, silent, *arguments, **options):
        """Answers with all code that this kernel was ever asked to run, silently or not."""
        self.asked.append(code)
        told = {"name": "stdout", "text": f"asked: {self.asked}"}
        self.send_response(self.iopub_socket, "stream", told)
        return {
            "status": "ok",
            "execution_count": len(self.asked),
            "payload": [],
            "user_expressions": {},
        }


if __name__ == "__main__":
    IPKernelApp.launch_instance(kernel_class=JuliaKernel)

"""What the sidebar says in each state, and what it offers to do."""

from __future__ import annotations

from sidebar_page import LOAD, expect


def test_a_kernel_without_nbmem_gets_a_button_that_loads_it(book):
    it = book("1 + 1")
    it.says(f"nbmem is not loaded in {it.path.name}")
    it.press("Load nbmem")
    expect(it.docked).to_be_visible()


def test_each_kernel_that_can_not_be_measured_says_why(book):
    julia = book("asked()", kernel="julia")
    julia.says("runs julia: nbmem measures PyTorch in Python kernels")
    julia.run(0)
    assert "asked: ['asked()']" in julia.output(0).inner_text()
    bare = book("1", kernel="without-torch")
    bare.says("which this kernel lacks: run %pip install torch")
    without = book("1", kernel="without-nbmem")
    without.says("nbmem is not installed in this kernel's environment")
    without.press("Load nbmem")
    without.says("run %pip install nbmem in a cell")


def test_without_a_notebook_it_says_what_to_open(book):
    it = book(LOAD)
    it.close()
    it.says("Open a notebook or a console to see what its cells do to memory.")

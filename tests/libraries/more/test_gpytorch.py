"""A Gaussian process in its marginal likelihood: both called by the user's own names."""

import sys
from pathlib import Path

import gpytorch
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from told_names import names_by_category, not_taken_back


class Process(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


def trained():
    x = torch.linspace(0, 1, 41)
    y = torch.sin(x)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Process(x, y, likelihood)
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    opt = torch.optim.Adam(model.parameters())
    loss = -mll(model(x), y)
    loss.backward()
    opt.step()
    return {"x": x, "y": y, "likelihood": likelihood, "model": model, "mll": mll, "opt": opt}


@pytest.mark.filterwarnings("ignore")
def test_the_process_and_its_likelihood_lead(notebook):
    names = trained()
    notebook.names.update(names)
    told = names_by_category()
    own = {f"model.{name}" for name, _ in names["model"].named_parameters()}
    likelihood = {f"likelihood.{name}" for name, _ in names["likelihood"].named_parameters()}
    own -= {f"model.{name}" for name in likelihood}
    assert own | likelihood == set(told["parameter"])
    assert [] == [name for listed in told.values() for name in listed if "mll" in name]
    assert {"x", "y"} <= set(told["user"])
    assert [] == not_taken_back(notebook.names)


@pytest.mark.filterwarnings("ignore")
def test_what_only_the_marginal_likelihood_holds_is_called_by_it(notebook):
    names = trained()
    notebook.names.update({name: names[name] for name in ("mll", "opt")})
    names.clear()
    told = names_by_category()
    assert "mll.model.mean.raw_constant" in told["parameter"]
    assert "mll.likelihood.noise_covar.raw_noise" in told["parameter"]
    assert [] == not_taken_back(notebook.names)

"""What a Lightning trainer keeps, called as its user would write it."""

import logging
import sys
from pathlib import Path

import lightning as lit
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbmem
from nbmem.errors import NameNotFoundError

sys.path.insert(0, str(Path(__file__).parent))
from told_names import names_by_category, not_taken_back


class Net(lit.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(31, 7), nn.ReLU(), nn.Linear(7, 1))

    def training_step(self, batch, _at):
        return self.net(batch[0]).sum()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


@pytest.fixture
def trained():
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    trainer = lit.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Net()
    trainer.fit(model, DataLoader(TensorDataset(torch.randn(8, 31)), batch_size=4))
    return trainer, model


def of_python(name, names):
    """Returns the tensor that Python itself reaches by the name of an optimizer's state."""
    optimizer, _, rest = name.partition(".state[")
    owner, _, key = rest.rpartition("]['")
    parameter = eval(owner.replace(".0.", "[0].").replace(".2.", "[2]."), dict(names))
    return eval(optimizer, dict(names)).state[parameter][key.removesuffix("']")]


@pytest.mark.filterwarnings("ignore")
def test_an_optimizer_of_the_trainer_is_called_by_the_trainers_public_name(notebook, trained):
    trainer, model = trained
    notebook.names.update(trainer=trainer, lm=model)
    told = names_by_category()
    first = "trainer.optimizers[0].state[lm.net.0.weight]['exp_avg']"
    assert first in told["optimizer state"]
    assert trainer.optimizers[0].state[model.net[0].weight]["exp_avg"] is of_python(
        first, notebook.names
    )
    assert "lm.net.0.weight" in told["parameter"]
    private = [name for names in told.values() for name in names if "._" in name]
    assert [] == private
    assert [] == not_taken_back(notebook.names)


@pytest.mark.filterwarnings("ignore")
def test_where_only_the_trainer_is_left_its_public_names_lead(notebook, trained):
    trainer, model = trained
    notebook.names["trainer"] = trainer
    weight = model.net[0].weight
    del trained, model
    told = names_by_category()
    assert "trainer.lightning_module.net.0.weight" in told["parameter"]
    assert trainer.lightning_module.net[0].weight is weight
    assert "trainer.train_dataloader.dataset.tensors[0]" in told["user"]
    assert [] == not_taken_back(notebook.names)


@pytest.mark.filterwarnings("ignore")
def test_a_property_of_the_trainer_is_told_as_one(notebook, trained):
    trainer, model = trained
    notebook.names.update(trainer=trainer, lm=model)
    with pytest.raises(NameNotFoundError) as told:
        nbmem.find_holders("trainer.training_type.net.0.weight")
    assert "renamed" in str(told.value)  # there is no such thing
    with pytest.raises(NameNotFoundError) as told:
        nbmem.find_holders("lm.trainer.model.net.0.weight")
    assert "`lm.trainer` is a property, not followed" in str(told.value)
    assert "renamed" not in str(told.value)
    (held,) = nbmem.find_holders("trainer.model.net.0.weight").held
    assert 31 * 7 * 4 == held.bytes

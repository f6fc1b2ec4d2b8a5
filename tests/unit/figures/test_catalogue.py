"""The list of all figures."""

from typer.testing import CliRunner

from fabricast.cli.main import app
from fabricast.core.errors import InputError


def test_figures_are_listed_with_the_command_that_draws_them():
    result = CliRunner().invoke(app, ["figures", "--study", "percs"])
    assert result.exit_code == 0
    assert "snakemake reports/figures/percs.times_small.svg  # " in result.stdout
    longer = CliRunner().invoke(app, ["figures", "--study", "percs", "--captions"]).stdout
    assert len(longer) > 2 * len(result.stdout)
    assert isinstance(CliRunner().invoke(app, ["figures", "--study", "perc"]).exception, InputError)
    every = CliRunner().invoke(app, ["figures"]).stdout.splitlines()
    assert len(every) == len(set(every)) > 60

"""Every strategy keeps to the contract of strategies, and the suite that says so finds those that do not."""

from __future__ import annotations

import pytest

from retinue.strategies import STRATEGIES
from retinue.testing import Case, StrategySubject, strategy_cases

ABILITIES = {"free": (False, False), "held": (True, False), "calling": (False, True)}


@pytest.mark.parametrize("abilities", ABILITIES.values(), ids=ABILITIES)
@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("case", strategy_cases(), ids=str)
def test_a_strategy_keeps_to_the_contract(case: Case[StrategySubject], name: str, abilities: tuple[bool, bool]) -> None:
    case.run(StrategySubject(lambda: STRATEGIES[name], *abilities))

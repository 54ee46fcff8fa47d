"""Invented names, made of syllables in several styles, and titles of works."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from .dice import Dice
from .splits import may_use, split_of_name, split_of_seed


@dataclass(frozen=True, slots=True)
class Style:
    """How a language of an invented world sounds."""

    onsets: tuple[str, ...]
    vowels: tuple[str, ...]
    codas: tuple[str, ...]
    endings: tuple[str, ...]


STYLES: Mapping[str, Style] = {
    "fjord": Style(
        tuple("b br d dr f g gr h hj k kr l m n r s sk st sv t tr v".split()),
        ("a", "e", "i", "o", "u", "y", "au", "ei"),
        tuple("l ld n nd r rd rg rk s st ll nn".split()),
        ("a", "e", "en", "und", "ar", "ik", "ost", "eld"),
    ),
    "lagoon": Style(
        tuple("b c d f g l m n p r s t v z pr tr br".split()),
        ("a", "e", "i", "o", "u", "ia", "ue"),
        ("", "", "", "l", "n", "r", "s"),
        ("a", "o", "ella", "ino", "ezza", "ura", "one", "ate"),
    ),
    "steppe": Style(
        tuple("b ch d g j k kh l m n q r s sh t tz y z".split()),
        ("a", "e", "i", "o", "u"),
        tuple("k l n r sh t z m".split()),
        ("an", "ur", "esh", "ak", "ai", "uk", "im", "ol"),
    ),
    "moor": Style(
        tuple("b bl c cl d dr f fl g gl h l m n p r s t th tr w wh".split()),
        ("a", "e", "i", "o", "u", "ea", "ow", "ai"),
        tuple("ck ff ll lm m n nk r rn ss t th".split()),
        ("er", "old", "ell", "ane", "ard", "ith", "ow", "en"),
    ),
    "reef": Style(
        tuple("h k l m n p r t v w f".split()),
        ("a", "e", "i", "o", "u", "ao", "oa"),
        ("", "", "", "n"),
        ("a", "oa", "iki", "ahu", "ele", "una", "epo", "ori"),
    ),
}
ADJECTIVES = tuple(
    "amber bitter blind borrowed brass broken burning copper crimson crooked distant drowned empty fallen false frozen "
    "gilded glass hidden hollow honest hungry iron ivory last lonely lost marble narrow painted pale patient "
    "paper quiet restless salt scarlet second secret seventh silent silver sleeping stolen sunken thirsty tin velvet "
    "wandering weary white winter wooden yellow".split()
)
NOUNS = tuple(
    "acrobat almanac anchor apothecary archive attic balcony beekeeper bell candle cartographer chandelier chapel "
    "chestnut clock compass corridor courier crane creditor daughter dowry envoy falcon feast ferryman fiddle fountain "
    "garden gatekeeper glove granary harbour harvest heron innkeeper island kettle lantern ledger letter lodger mask "
    "meadow messenger mill mirror needle oracle orchard organist passenger pilgrim quarry raven regiment scholar "
    "shepherd staircase stranger summer tailor thimble tide tunnel umbrella vineyard violin watchman well widow".split()
)
_SOUNDS_BAD = re.compile(
    r"(.)\1\1|[aeiouy]{3}|[^aeiouy]{4}|^(.{1,3})\2$|^.{0,4}$|^.{10,}$|(..)\3"
    r"|anus|cock|cunt|dick|fo?u?ck|hook|nazi|rape|shit|slut|tits"
)
REAL = frozenset(
    "bandik bitard blinkard bolan bossen bulge butfer cazone fauna geren gerten gothard haria kaori kapaa keiki koori "
    "lalik liana linell maliki maresh meren molino muffer nazai panell panura remak riarto ronai sanai soma "
    "sukim sutra tardbik tunker viren fukele hoffen nolde potiki prima reiki tauna truro".split()
)  # drawn by chance, but the name of something


class Names:
    """The names of one world: each is used once, and no two words of it begin alike."""

    def __init__(self, seed: int, dice: Dice) -> None:
        self._seed, self._dice = seed, dice
        self._starts: set[str] = set()
        self._titles = _titles(seed)

    def word(self, style: str) -> str:
        """Return a new word, capitalised, of five to nine letters."""
        while True:
            word = _syllables(STYLES[style], self._dice)
            fits = not _SOUNDS_BAD.search(word) and word not in REAL and may_use(self._seed, word)
            if fits and word[:4] not in self._starts:
                self._starts.add(word[:4])
                return word.capitalize()

    def title(self, adjective: str = "") -> tuple[str, str]:
        """Return a new title of a work, and its adjective; with `adjective`, one that has it too if any is left."""
        alike = [pair for pair in self._titles if pair[0] == adjective]
        chosen = self._dice.pick(alike or self._titles)
        self._titles.remove(chosen)
        return _title(*chosen), chosen[0]


def _title(adjective: str, noun: str) -> str:
    return f"The {adjective.capitalize()} {noun.capitalize()}"


def _titles(seed: int) -> list[tuple[str, str]]:
    """Return the titles that the world of a seed may use, whose words its split may use, too."""
    split = split_of_seed(seed)
    nouns = [noun for noun in NOUNS if split_of_name(noun) == split]
    adjectives = [adjective for adjective in ADJECTIVES if split_of_name(adjective) == split]
    return [pair for pair in product(adjectives, nouns) if may_use(seed, _title(*pair))]


def _syllables(style: Style, dice: Dice) -> str:
    word = dice.pick(style.onsets) + dice.pick(style.vowels) + dice.pick(style.codas)
    if dice.chance(0.4):
        word += dice.pick(style.onsets) + dice.pick(style.vowels) + dice.pick(style.codas)
    return word + dice.pick(style.onsets) * dice.chance(0.5) + dice.pick(style.endings)

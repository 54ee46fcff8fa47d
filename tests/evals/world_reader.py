"""Reads the values out of an invented world's passages again, knowing their sentences but not the generator."""

from __future__ import annotations

import re
from datetime import date

MONTHS = ("January February March April May June July August September October November December").split()
N = r"(\d[\d,]*)"
YEAR = r"(\d{4})"
DAY = r"((?:\d{1,2} [A-Z][a-z]+|[A-Z][a-z]+ \d{1,2},) \d{4})"
NAME = r"((?:the )?[A-Z][a-z]+(?: [A-Z][a-z]+)*)"
LIST = r"([A-Z][\w, ]+)"
_DAY, _NAME = DAY.replace("(", "(?:"), NAME.replace("(", "(?:")
_DAY, _NAME = _DAY.replace("(?:?:", "(?:"), _NAME.replace("(?:?:", "(?:")

# What says a relation of a kind; "*" is any kind.
PATTERNS = {
    "* population": rf"{N} inhabitants|population is {N}|{N} people live",
    "* area": rf"{N} square kilometres",
    "country capital": rf"capital (?:is )?{NAME}",
    "country currency": r"currency (?:is )?the (\w+)",
    "country independent": rf"independent (?:since|in) {YEAR}",
    "town country": rf"(?:town|inhabitants|River) in {NAME}",
    "town elevation": rf"{N} metres above (?:sea level|the sea)",
    "* founded": rf"(?:founded|foundation)\D*?{YEAR}",
    "town river": rf"\b(?:on|banks of) {NAME}",
    "town mayor": rf"first elected mayor was {NAME}|^{NAME} was [^.]*first elected mayor",
    "river length": rf"{N} kilometres long|course measures {N} kilometres",
    "river source": rf"(?:rises on|source is on) {NAME}",
    "river mouth": rf"(?:flows into|mouth is in) {NAME}",
    "river river_of": rf"banks are {LIST}\.|flows through {LIST}, but",
    "mountain country": rf"mountain (?:of [\d,]+ metres )?in {NAME}",
    "mountain height": rf"mountain of {N} metres|{N} metres high|rises to {N} metres",
    "mountain climber": rf"first climbed by {NAME} on|{NAME} became the first|first person to climb [^.]*? was {NAME}",
    "mountain climbed_on": rf"first climbed (?:by {_NAME} )?on {DAY}|On {DAY} {_NAME} became the first",
    "lake country": rf"lake in {NAME}",
    "lake depth": rf"{N} metres deep at|greatest depth is {N} metres",
    "person profession": r"was an? (?!pupil)(\w+)",
    "person born_on": rf"born (?:in {_NAME} )?on {DAY}",
    "person born_in": rf"born (?:on {_DAY} )?in {NAME}|birthplace was {NAME}",
    "person died_on": rf"died (?:in {_NAME} )?on {DAY}",
    "person died_in": rf"died (?:on {_DAY} )?in {NAME}|last years in {NAME}",
    "person school": rf"(?:studied at|attended) {NAME}",
    "person teacher": rf"(?:teacher was|pupil of) {NAME}",
    "person author_of": rf"novels are {LIST}\.|wrote the novels {LIST}, but",
    "* author": rf"(?:(?:novel|opera|painting|written|composed|painted) by|(?:author|composer|painter) is) {NAME}",
    "novel published": rf"(?:published|appeared) in {YEAR}",
    "novel pages": rf"{N} pages",
    "novel set_in": rf"(?:set|takes place) in {NAME}",
    "opera premiered": rf"first performed on {DAY}",
    "opera theatre": rf"first performed (?:on {_DAY} )?at {NAME}",
    "* minutes": rf"(?:takes|opera lasts|It lasts|\w+ lasts) {N} minutes",
    "painting painted": rf"painted in {YEAR}",
    "painting museum": rf"hangs in {NAME}",
    "painting width": rf"{N} centimetres wide|width is {N} centimetres",
    "painting price": rf"(?:sold for|brought) {N}",
    "university seat": rf"university in {NAME}",
    "museum seat": rf"museum in {NAME}",
    "company seat": rf"(?:company|makes \w+|seat is|seat) in {NAME}|Company of {NAME} makes",
    "university students": rf"{N} students",
    "company ware": r"makes (\w+)",
    "* founder": rf"founded by {NAME}|founder was {NAME}",
    "company employees": rf"{N} employees|employs {N} people",
    "company predecessor": rf"(?:predecessor was|successor of) {NAME}",
    "museum exhibits": rf"{N} exhibits",
    "bridge river": rf"(?:across|crosses) {NAME}",
    "* architect": rf"designed by {NAME}|architect was {NAME}|^{NAME} designed",
    "lighthouse opened": rf"lit (?:for the first time )?on {DAY}",
    "bridge opened": rf"open(?:ed|ing was) on {DAY}",
    "theatre opened": rf"open(?:ed|ing was) on {DAY}",
    "bridge length": rf"bridge of {N} metres|{N} metres long|length is {N} metres",
    "bridge cost": rf"cost {N}",
    "lighthouse town": rf"near {NAME}",
    "lighthouse height": rf"lighthouse of {N} metres|{N} metres high|height is {N} metres",
    "lighthouse steps": rf"{N} steps",
    "theatre town": rf"theatre in {NAME}",
    "theatre seats": rf"{N} seats|seats {N} people",
    "railway start": rf"from {NAME} to",
    "railway end": rf"from {_NAME} to {NAME}",
    "railway length": rf"railway of {N} kilometres|{N} kilometres long|track measures {N} kilometres",
    "railway opened_goods": rf"to goods trains on {DAY}",
    "railway opened": rf"to passengers on {DAY}",
    "railway fare": rf"costs {N}",
    "railway stations": rf"{N} stations",
}
OTHERS = re.compile("keeper's house|overture")  # sentences on things within the thing, which have measures of their own


def read(text: str, kind: str, relation: str) -> set[str | int | date]:
    """All values that a passage on a thing of this kind states for a relation."""
    pattern = re.compile(PATTERNS.get(f"{kind} {relation}") or PATTERNS[f"* {relation}"])
    sentences = [one for one in re.split(r"(?<=\.) (?=[A-Z\d])", text) if not OTHERS.search(one)]
    found = (next(filter(None, match.groups())) for one in sentences for match in pattern.finditer(one))
    return {value(one) for one in found}


def value(text: str) -> str | int | date:
    """A number, a date, or a name without its article."""
    if re.fullmatch(N, text):
        return int(text.replace(",", ""))
    if re.fullmatch(DAY, text):
        words = text.replace(",", "").split()
        day, month = words[:2] if words[0].isdigit() else words[1::-1]
        return date(int(words[2]), MONTHS.index(month) + 1, int(day))
    return text.removeprefix("the ")


def names(text: str) -> list[str]:
    """The names in "A, B and C"."""
    return re.split(r", | and ", text)

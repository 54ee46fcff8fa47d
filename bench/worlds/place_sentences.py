"""Sentences about countries, towns, mountains, lakes, rivers and what is built there.

In a sentence, `{N}` is the subject's name, `{S}` the name or a pronoun, whichever is clear, `{P}` and `{p}` its
possessive, `{s}` and `{o}` the pronoun, `{relation}` a fact's value, `{relation:n}` its bare number, `{relation:a}` has
an indefinite article, `{relation_of}` is the list of the subjects whose value this is. Asides are about other things:
`{#3-9}` is any such number, `{~1700-1800}` any such year, `{@2-9}` a year so many years after the last one of the
subject, `{T}` a town that the passage does not name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Sentences(NamedTuple):
    """What is said of a kind: a first sentence, more facts, and asides that no question is about."""

    first: tuple[str, ...]
    more: tuple[str, ...]
    asides: tuple[str, ...]


_OPENED = (
    "{S} was opened on {opened}.",
    "{P} opening was on {opened}.",
    "{S} was designed by {architect} and opened on {opened}.",
)
_ARCHITECT = ("{S} was designed by {architect}.", "{P} architect was {architect}.", "{architect} designed {o}.")
_PEOPLED = ("{S} has {population:n} inhabitants.", "{P} population is {population:n}.")

PLACES: Mapping[str, Sentences] = {
    "country": Sentences(
        (
            "{N} is a country whose capital is {capital}.",
            "{N} is a country of {population:n} inhabitants.",
            "{N}, with the capital {capital}, is a country of {area}.",
            "{N} is a country; its capital is {capital} and its currency the {currency}.",
        ),
        (
            *_PEOPLED,
            "{P} capital is {capital}.",
            "{S} covers {area}.",
            "{P} territory measures {area}.",
            "{P} currency is the {currency}.",
            "{S} has been independent since {independent}.",
            "{S} became independent in {independent}.",
            "{S} covers {area} and has {population:n} inhabitants.",
        ),
        (
            "{P} parliament has {#60-400} members.",
            "{P} coast is {#40-900} kilometres long.",
            "{P} railways employ {#900-9000} people.",
            "{P} first national census was taken in {~1840-1870}.",
            "In {~1840-1899} {p} army still numbered {#2000-19000} men.",
        ),
    ),
    "town": Sentences(
        (
            "{N} is a town in {country}.",
            "{N} is a town of {population:n} inhabitants in {country}.",
            "{N}, founded in {founded}, is a town in {country}.",
            "{N} is a town on {river} in {country}.",
            "{N} is a town in {country} that lies {elevation} above sea level.",
        ),
        (
            *_PEOPLED,
            "According to the last census, {population:n} people live in {N}.",
            "{S} lies {elevation} above sea level.",
            "{P} elevation is {elevation} above the sea.",
            "{S} was founded in {founded}.",
            "{P} foundation dates from {founded}.",
            "{S} stands on {river}.",
            "{S} lies on the banks of {river}.",
            "{P} first elected mayor was {mayor}.",
            "{mayor} was {p} first elected mayor.",
            "{S} was founded in {founded} and has {population:n} inhabitants.",
            "{S} stands on {river}, {elevation} above sea level.",
        ),
        (
            "{S} has {#3-19} schools and {#20-44} bakeries.",
            "A great fire destroyed {#40-300} of {p} houses in {~1660-1790}.",
            "A weekly market has been held there since {~1660-1790}.",
            "The tower of the town hall is {#31-78} metres high.",
            "{P} oldest school has {#120-900} pupils.",
            "The town wall, {#2-5} kilometres long, was pulled down in {~1800-1860}.",
        ),
    ),
    "river": Sentences(
        (
            "{N} rises on {source} and flows into {mouth}.",
            "{N}, which is {length} long, flows into {mouth}.",
            "{N} is a river that rises on {source}.",
            "{N} is a river that flows into {mouth}.",
        ),
        (
            "{S} is {length} long.",
            "{P} course measures {length}.",
            "{S} rises on {source}.",
            "{P} source is on {source}.",
            "{S} flows into {mouth}.",
            "{P} mouth is in {mouth}.",
            "The towns on {p} banks are {river_of}.",
            "{S} flows through {river_of}, but through no other town.",
        ),
        (
            "{S} is navigable for {#20-58} kilometres.",
            "At {p} widest point {s} measures {#90-900} metres from bank to bank.",
            "A flood in {~1780-1890} destroyed {#4-40} mills.",
            "{S} carries {#30-900} cubic metres of water a second.",
            "There are {#3-11} ferries, of which the oldest has run since {~1700-1800}.",
        ),
    ),
    "mountain": Sentences(
        (
            "{N} is a mountain in {country}.",
            "{N} is a mountain of {height} in {country}.",
            "{N}, which is {height} high, is a mountain in {country}.",
        ),
        (
            "{S} is {height} high.",
            "{P} summit rises to {height}.",
            "{S} was first climbed by {climber} on {climbed_on}.",
            "On {climbed_on} {climber} became the first person to reach {p} summit.",
            "The first person to climb {o} was {climber}.",
            "{S} was first climbed on {climbed_on}.",
        ),
        (
            "A hut at {#700-1100} metres gives shelter to {#18-60} climbers.",
            "A marked path of {#6-24} kilometres leads to the top.",
            "The second ascent followed in {@1-9}.",
            "The glacier on {p} northern side has lost {#20-90} metres since {~1970-1990}.",
        ),
    ),
    "lake": Sentences(
        (
            "{N} is a lake in {country}.",
            "{N} is a lake in {country} with an area of {area}.",
            "{N} is a lake in {country}, {depth} deep at its deepest point.",
        ),
        (
            "{P} greatest depth is {depth}.",
            "{S} is {depth} deep at {p} deepest point.",
            "{S} covers {area}.",
            "{P} surface measures {area}.",
            "{S} covers {area}, and {p} greatest depth is {depth}.",
        ),
        (
            "The average depth is only {#4-15} metres.",
            "{P} shore is {#24-190} kilometres long.",
            "{P} surface lies {#430-990} metres above sea level.",
            "Fishermen take {#12-340} tonnes of trout from {o} each year.",
            "Steamers crossed {o} from {~1850-1870} to {~1900-1930}.",
        ),
    ),
    "bridge": Sentences(
        (
            "{N} is a bridge across {river}.",
            "{N} crosses {river}.",
            "{N} is a bridge of {length} across {river}.",
            "{N}, designed by {architect}, is a bridge across {river}.",
        ),
        (
            *_OPENED,
            *_ARCHITECT,
            "{S} is {length} long.",
            "{P} length is {length}.",
            "{P} construction cost {cost}.",
            "To build {o} cost {cost}.",
        ),
        (
            "{P} longest span measures {#30-95} metres.",
            "{P} towers are {#25-80} metres high.",
            "Up to {#900-9000} carts crossed {o} on a market day.",
            "{S} was widened in {@20-60}.",
            "Of the {#200-700} people who built {o}, {#2-9} lost their lives.",
        ),
    ),
    "lighthouse": Sentences(
        (
            "{N} is a lighthouse near {town}.",
            "{N} is a lighthouse of {height} near {town}.",
            "{N}, {height} high, is a lighthouse near {town}.",
        ),
        (
            *_ARCHITECT,
            "{S} was first lit on {opened}.",
            "{P} lamp was lit for the first time on {opened}.",
            "{S} is {height} high.",
            "{P} height is {height}.",
            "{steps} lead up to {p} lamp.",
            "{S} is {height} high, and {steps} lead up to {p} lamp.",
        ),
        (
            "{P} light can be seen from {#18-45} kilometres away.",
            "{S} was given an electric lamp in {@30-60}.",
            "The keeper's house next to {o} has {#4-9} rooms and is {#10-16} metres high.",
            "{P} lens weighs {#420-990} kilograms.",
        ),
    ),
    "theatre": Sentences(
        (
            "{N} is a theatre in {town}.",
            "{N} is a theatre in {town} with {seats}.",
            "{N}, opened on {opened}, is a theatre in {town}.",
        ),
        (*_OPENED, *_ARCHITECT, "{S} has {seats}.", "{S} seats {seats:n} people."),
        (
            "{P} stage is {#11-24} metres wide.",
            "{P} chandelier has {#60-200} lamps.",
            "A fire damaged {o} in {@20-60}.",
            "{P} curtain shows {#7-30} figures and weighs {#300-900} kilograms.",
        ),
    ),
    "railway": Sentences(
        (
            "{N} is a railway from {start} to {end}.",
            "{N} is a railway that runs from {start} to {end} and has {stations}.",
            "{N} is a railway of {length} from {start} to {end}.",
        ),
        (
            "{S} is {length} long.",
            "{P} track measures {length}.",
            "{S} was opened to goods trains on {opened_goods} and to passengers on {opened}.",
            "{S} was opened to passengers on {opened}.",
            "{S} was opened to goods trains on {opened_goods}.",
            "A single ticket for the whole line costs {fare}.",
            "A single ticket from end to end costs {fare}, and the journey takes {minutes}.",
            "The whole journey takes {minutes}.",
            "{S} has {stations}.",
        ),
        (
            "{P} longest tunnel measures {#200-990} metres.",
            "{P} {#4-15} locomotives pull {#40-130} carriages.",
            "Since {@20-50} {s} has been worked by electricity.",
            "Each of {p} carriages has {#30-64} seats.",
        ),
    ),
}

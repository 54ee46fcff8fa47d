"""Sentences about people, and what they founded, wrote, composed and painted, as in `place_sentences`."""

from __future__ import annotations

from collections.abc import Mapping

from .place_sentences import Sentences

_FOUNDED = (
    "{S} was founded in {founded}.",
    "{P} foundation was in {founded}.",
    "{S} was founded by {founder} in {founded}.",
    "{P} founder was {founder}.",
    "{S} was founded by {founder}.",
)

MAKERS: Mapping[str, Sentences] = {
    "person": Sentences(
        (
            "{N} (born on {born_on} in {born_in}, died on {died_on} in {died_in}) was {profession:a}.",
            "{N} (born on {born_on}; died on {died_on}) was {profession:a}.",
            "{N} was {profession:a}.",
            "{N} was {profession:a} who was born in {born_in}.",
            "{N}, born in {born_in} on {born_on}, was {profession:a}.",
        ),
        (
            "{S} was born on {born_on}.",
            "{S} was born in {born_in}.",
            "{P} birthplace was {born_in}.",
            "{S} was born in {born_in} on {born_on}.",
            "{S} died on {died_on}.",
            "{S} died in {died_in}.",
            "{S} died in {died_in} on {died_on}.",
            "{S} spent {p} last years in {died_in}, where {s} died on {died_on}.",
            "{S} studied at {school}.",
            "{S} attended {school}.",
            "{P} teacher was {teacher}.",
            "{S} was a pupil of {teacher}.",
            "{S} studied at {school} and was a pupil of {teacher}.",
            "{P} only novels are {author_of}.",
            "{S} wrote the novels {author_of}, but no others.",
        ),
        (
            "{S} had {#2-7} children.",
            "{S} was {#158-196} centimetres tall.",
            "{S} lived in {T} for {#3-14} years.",
            "{P} letters, of which {#120-900} are known, were printed in {@5-40}.",
            "{S} moved house {#4-15} times.",
            "{S} spoke {#3-6} languages.",
            "A street in {T} has had {p} name since {@4-40}.",
        ),
    ),
    "novel": Sentences(
        (
            "{N} is a novel by {author}.",
            "{N} is a novel by {author}, set in {set_in}.",
            "{N} is a novel of {pages}.",
            "{N} is a novel published in {published}.",
            "{N} is a novel set in {set_in}.",
        ),
        (
            "{P} author is {author}.",
            "{S} was written by {author}.",
            "{S} was published in {published}.",
            "{S} first appeared in {published}.",
            "{S} has {pages}.",
            "{S} runs to {pages}.",
            "{S} is set in {set_in}.",
            "{P} story takes place in {set_in}.",
            "{S} was published in {published} and has {pages}.",
        ),
        (
            "{S} has been translated into {#4-31} languages.",
            "{P} first {#800-5000} copies were sold within {#2-9} weeks.",
            "{P} plot unfolds in {#12-48} chapters.",
            "A film was made of {o} in {@40-60}.",
            "A second edition followed in {@2-9}.",
        ),
    ),
    "opera": Sentences(
        (
            "{N} is an opera by {author}.",
            "{N} is an opera that was first performed on {premiered}.",
            "{N} is an opera by {author}, first performed at {theatre}.",
        ),
        (
            "{P} composer is {author}.",
            "{S} was composed by {author}.",
            "{S} was first performed on {premiered}.",
            "{S} was first performed at {theatre}.",
            "{S} was first performed on {premiered} at {theatre}.",
            "A performance takes {minutes}.",
            "{S} lasts {minutes}.",
        ),
        (
            "{P} overture lasts {#6-14} minutes.",
            "{S} was given {#12-70} times in {p} first season.",
            "{S} needs an orchestra of {#40-72} players and a choir of {#20-60} voices.",
            "A recording was made in {@60-90}.",
        ),
    ),
    "painting": Sentences(
        (
            "{N} is a painting by {author}.",
            "{N} is a painting that hangs in {museum}.",
            "{N}, painted in {painted}, is a painting by {author}.",
        ),
        (
            "{P} painter is {author}.",
            "{s} was painted by {author}.",
            "{s} was painted in {painted}.",
            "{S} hangs in {museum}.",
            "{S} was sold for {price}.",
            "At {p} only sale {s} brought {price}.",
            "{S} is {width} wide.",
            "{P} width is {width}.",
        ),
        (
            "{P} frame weighs {#9-28} kilograms.",
            "{S} was restored in {@20-60}.",
            "{S} shows {#3-19} people, {#2-6} of them asleep.",
            "{#2-6} copies of {o} are known.",
        ),
    ),
    "university": Sentences(
        (
            "{N} is a university in {seat}.",
            "{N}, founded in {founded}, is a university in {seat}.",
            "{N} is a university in {seat} with {students}.",
        ),
        ("{S} was founded in {founded}.", "{P} foundation was in {founded}.", "{S} has {students}."),
        (
            "{P} library holds {#20000-90000} volumes.",
            "{S} has {#4-9} faculties and {#60-190} professors.",
            "{P} botanical garden was laid out in {~1770-1830}.",
            "Women have studied there since {~1880-1930}.",
        ),
    ),
    "company": Sentences(
        (
            "{N} is a company in {seat}.",
            "{N} is a company that makes {ware}.",
            "{N} of {seat} makes {ware}.",
            "{N} is a company that makes {ware} in {seat}.",
        ),
        (
            *_FOUNDED,
            "{S} makes {ware}.",
            "{P} seat is in {seat}.",
            "{S} has its seat in {seat}.",
            "{S} has {employees}.",
            "{S} employs {employees:n} people.",
            "{P} predecessor was {predecessor}.",
            "{S} is the successor of {predecessor}.",
        ),
        (
            "{P} products are sold in {#4-30} countries.",
            "{P} chimney was {#31-78} metres high.",
            "In {@10-40} {p} workers were on strike for {#3-14} weeks.",
            "{S} owns {#20-96} houses in which workers live.",
        ),
    ),
    "museum": Sentences(
        (
            "{N} is a museum in {seat}.",
            "{N} is a museum in {seat} with {exhibits}.",
        ),
        (*_FOUNDED, "{S} has {exhibits}.", "{P} collection has {exhibits}."),
        (
            "{S} has {#12-64} rooms on {#2-4} floors.",
            "{#11000-90000} visitors came in {@30-60}.",
            "{S} was given a new roof in {@10-40}.",
            "{P} oldest object was made in {~1100-1400}.",
        ),
    ),
}

"""Scores how much a page or document talks to the model that reads it: a heuristic, which a careful author gets past.

Phrases are looked for in the appearances of the text (`injection_guard.list_views`), so look-alikes, zero-width
characters and escapes hide none. The score of a passage is the sum of the weights of the different kinds of phrases in
it; an order to forget one's instructions is enough alone, and so are two lesser signs near each other. A text that asks
for something in plain words, as any e-mail may, is not found: only what the agent may do limits that."""

from __future__ import annotations

import re
from base64 import b32decode, b64decode
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from ..core.schema.json_schema import compile_pattern
from ..strategies.prompting.injection_guard import list_views
from .personal_data import make_readable

ENOUGH = 3
"""The score from which a passage counts as an injection."""
_NEAR = 500  # characters in which phrases belong to one passage
_SHORTEST = 24  # characters of base64 that is read, too
_MODEL = r"(?:ai|a\.i\.|llm|language model|assistant|agent|chatbot|bot|model|gpt|claude|gemini|copilot)"
_ORDERS = (
    r"(?:\w{0,3}nstructions?|prompts?|rules|guidelines|directives?|orders|programming|constraints|commands?|restrictions)"
)
_FORGET = r"(?:ignor\w*|disregard\w*|forget|overrid\w*|bypass|discard|drop|do(?: not|n'?t) follow|neglect|skip|cancel|void)"
_NEAR_BY = r"[^.!?\n]{0,24}"
_PHRASES: Sequence[tuple[str, int, str]] = (
    ("forget", 3, rf"\b{_FORGET}\b{_NEAR_BY}\b(?:previous|prior|above|earlier|preceding|former|your|system|safety|initial|"
     rf"original|existing|all|any|the)\b{_NEAR_BY}\b{_ORDERS}\b"),
    ("forget", 3, rf"\b{_FORGET}\b (?:all |any )?(?:your|safety|security)\b{_NEAR_BY}\b(?:polic(?:y|ies)|protocols?|checks|filters|confirmations)\b"),
    ("forget", 3, r"\b(?:ignore|disregard|forget) (?:everything|anything|all|what|the) (?:of the |that was |that |you were )?"
     r"(?:above|previous\w*|before|prior|said|told|user|summari[sz]ation)\b"),
    ("forget", 3, rf"\b{_ORDERS} (?:supersede|override|replace)s? (?:all|any|your|every)\b|\bprevious task is (?:over|cancel+ed|void)\b"),
    ("forget", 3, r"\b(?:ignorier\w*|vergiss|vergessen|missacht\w*)\b[^.!?\n]{0,40}\b(?:anweisungen|instruktionen|richtlinien|befehle)\b"
     r"|\b(?:ignore[zr]?|oublie[zr]?)\b[^.!?\n]{0,30}\b(?:instructions|consignes|directives)\b"
     r"|\b(?:ignora\w*|olvida\w*|omite|dimentica\w*|ignore|esqueça|descarta)\b[^.!?\n]{0,30}\b(?:instrucciones|istruzioni|instruções|direttive)\b"),
    ("secrecy", 3, r"\b(?:do not|don'?t|never|without) (?:tell|inform|notify|mention|alert|reveal|disclos|ask|show)\w*\b"
     r"[^.!?\n]{0,30}\bthe user\b"),
    ("prompt", 3, r"\b(?:reveal|print|repeat|output|show|tell me|display|disclose|leak|dump)\b[^.!?\n]{0,24}\b(?:your|the) (?:(?:full|entire|hidden|"
     rf"secret|initial|original|exact|own|internal) )*(?:system (?:prompt|message|instructions)|{_ORDERS} (?:verbatim|above)|configuration\b)"),
    ("prompt", 3, r"\b(?:verrat\w*|zeig\w*|revela\w*|muestra\w*|rivela\w*|mostra\w*|révèle\w*|montre\w*|affiche\w*)\b[^.!?\n]{0,20}"
     r"(?:systemanweisung|systemprompt|instrucciones del sistema|istruzioni di sistema|instructions (?:du )?syst|prompt)"),
    ("address", 2, r"\b(?:dear|attention|hey|hello|hi|to)[ ,:]{1,2}(?:the |any |all |every )?(?:ai|llm|language|gpt|claude) ?(?:model|assistant|agent|system)?s?\b"
     rf"|\b(?:note|message|instructions?|important|notice) (?:to|for) (?:the |any |all )?{_MODEL}s?\b"),
    ("address", 2, r"\b(?:if you are|you are|as) (?:an? |the )(?:ai|llm|language model)\b[^.!?\n]{0,20}\b(?:read|process|summari[sz]|review|assistant)"),
    ("address", 2, r"(?:^|\n|<!--|\[|\() ?(?:ai )?(?:assistant|agent|ai|llm|model|bot)s?[ ,]*[:,-] "),
    ("turn", 3, r"#{2,} ?[\[(]?system|<\|?im_start|[(<]\|?im_start|<information>|</(?:untrusted|document|context|data|tool_?result|user_?data)\w*>\s"),
    ("turn", 2, r"(?:^|\n)[ \t>#*\[(<]*(?:system|developer|admin\w*|root|override)[ \t]*(?:(?:message|prompt|note|notice|instructions?|override|alert|update)[ \t]*)?"
     r"[\]>)*]*[ \t]*(?:[:-]|\]|>)|\[(?:system|admin|developer|inst)[^\]\n]{0,20}\]|<(?:system|important|instructions?|admin)>"
     r"|\b(?:systemhinweis|note système|nota del sistema|nota di sistema) ?[:-]"),
    ("authority", 2, rf"\b(?:important|urgent) (?:message|instructions?|notice)\b[^.!?\n]{{0,30}}\b(?:me|user|you|{_MODEL})\b|\b(?:your|the) "
     r"(?:developer|creator|operator|administrator)s? (?:has|have|say|want|instruct|authori[sz]e)|\bthe user (?:has|had) (?:already )?"
     r"(?:approved|authori[sz]ed|asked|requested|consented|confirmed|granted)|note from the developer|\bsystem (?:override|update|notice|prompt)\b"),
    ("task", 2, r"\b(?:new|real|actual|true|main) (?:task|instructions?|objective|goal|mission|directive|orders?)\b[^.!?\n]{0,20}"
     r"(?::| is\b| are\b)|\binstead(?:,| of (?:answering|summari[sz]ing))|\b(?:before|after|prior to) (?:you )?(?:can )?"
     r"(?:solv|answer|respond|reply|complet|summari[sz])(?:e|ing)?\b (?:the|your|my|this)\b|\bfollowing instructions? instead"),
    ("tool", 1, r"\b(?:call|invoke|use|run|execute|trigger) (?:the )?[`'\"]?[a-z]+_[a-z_]+\b|\b(?:using|use|call|with|via) (?:the |your )?[\w.`'\"-]+ (?:tool|function)\b"),
    ("sink", 2, r"\b(?:call|invoke|use|run|execute|trigger) (?:the )?[`'\"]?[a-z]+_[a-z_]+\b[^.!?\n]{0,80}(?:https?://|[\w.-]@\w)"),
    ("leak", 2, r"\b(?:send|forward|post|e?-?mail|upload|exfiltrat\w*|leak|transmit|submit|append|include|copy|share)\b[^.!?\n]{0,60}\b(?:api[ _-]?keys?|passwords?|"
     r"secrets?|access tokens?|credentials?|conversation|chat history|system prompt|private (?:data|key|information)|user'?s? (?:data|e?-?mails?|files|details)|"
     r"customer list|security code|env\w* (?:variables|vars))\b"),
    ("leak", 2, r"\b(?:reveal|dump|output|disclose)\b[^.!?\n]{0,24}\b(?:credentials?|passwords?|api keys?|secrets|context window|confidential data)\b"),
    ("say", 1, r"\b(?:respond|reply|answer|output|say|print|write|return|end)\b[^.!?\n]{0,20}\b(?:only|exactly|nothing (?:else|but)|just|verbatim|with the (?:word|code|text|phrase))\b|"
     r"\b(?:respond|reply|output(?:ting)?|say|append|include) (?:with |the |exact |token |only )*[\"'`{]?(?-i:[A-Z0-9][A-Z0-9_-]{5,}|\{?[a-z]+\})"
     r"|\b(?:verbatim in|(?:end|ende|fin|final|fine) (?:of |de |d[ei]\w* )?(?:every|each|any|all|your|jeder|toute|cualquier|ogni)) (?:your |every )?"
     r"(?:response|answer|reply|summary|antwort|réponse|respuesta|risposta)"),
    ("persist", 3, r"\b(?:every|all|any|each) (?:future|subsequent|further) (?:repl|response|summar|answer|message|turn)|\brest of (?:this|the) conversation\b"),
    ("persona", 2, r"\byou are (?:now|no longer) (?:an? |in |the |my )?(?:\w+ ){0,3}(?:dan\b|ai\b|assistant|mode|bound|bot|agent)|\bdeveloper mode\b|"
     r"\bjailbr(?:eak|oken)\w*|\b(?:pretend|act|behave|roleplay)\b[^.!?\n]{0,20}\b(?:dan|ai|evil|jailbroken|unrestricted)\b|\bdo anything now\b"),
    ("free", 1, r"\b(?:no|without(?: any)?) (?:\w+ )?(?:rules|restrictions?|limits?|limitations|filters?)\b|\bunrestricted\b|\bsafety \w+ (?:disabled|off)\b"),
    ("decode", 3, r"\bdecode\b[^.!?\n]{0,40}\b(?:follow|execute|run|obey|do|comply|act on)\b"),
    ("hidden", 1, r"<!--|display: ?none|font-size: ?0|color: ?(?:white|#fff)|visibility: ?hidden"),
)  # fmt: skip
_TOKEN = re.compile(rf"[A-Za-z0-9+/]{{{_SHORTEST},}}={{0,6}}")
_SPACED = re.compile(r"\b(?:\w[ .*_-]){6,}\w\b")
_TAGS = re.compile("[\U000e0020-\U000e007e]{8,}")  # invisible, but tokenizers read them
_END = re.compile(r"[.!?]\s|\n")


class Passage(NamedTuple):
    """A passage that talks to the model: from `begin` up to `end`, its score, and the kinds of phrases in it."""

    begin: int
    end: int
    score: int
    signs: tuple[str, ...]


def find_injections(text: str) -> list[Passage]:
    """Return the passages of `text` that score `ENOUGH`, in order and apart from each other."""
    return [one for one in _join(sorted(set(_find_phrases(text)))) if one.score >= ENOUGH]


def _find_phrases(text: str, *, decode: bool = True) -> Iterator[tuple[int, int, str, int]]:
    """Yield the phrases: begin, end, kind and weight."""
    for view in list_views(text):
        looks = make_readable(view.text)
        for kind, weight, pattern in _PHRASES:
            for match in compile_pattern(f"(?i){pattern}").finditer(looks):
                yield view.places[match.start()], view.places[match.end()], kind, weight
        if view.level:
            continue
        for spaced in _SPACED.finditer(looks):
            plain = re.sub(r"[ .*_-]", "", spaced[0])
            if re.search("ignore|disregard|instruction|override|system", plain, re.I):
                yield view.places[spaced.start()], view.places[spaced.end()], "forget", 3
    for match in _TAGS.finditer(text):
        yield match.start(), match.end(), "invisible", 3
    for token in _TOKEN.finditer(text) if decode else ():
        if any(one.score >= ENOUGH for said in _decode(token[0]) for one in _join(sorted(_find_phrases(said, decode=False)))):
            yield token.start(), token.end(), "encoded", 3


def _decode(token: str) -> Iterator[str]:
    """Yield the texts that a token may be in base64, base32 or hexadecimal digits."""
    plain = token.rstrip("=")
    for decode, padding in ((b64decode, -len(plain) % 4), (b32decode, -len(plain) % 8), (bytes.fromhex, 0)):
        with suppress(ValueError):
            yield decode(plain + "=" * padding).decode("utf-8")


def _join(phrases: Sequence[tuple[int, int, str, int]]) -> Iterator[Passage]:
    """Yield passages: phrases that are near each other."""
    at = 0
    while at < len(phrases):
        begin, end, signs = phrases[at][0], phrases[at][1], dict[str, int]()
        while at < len(phrases) and phrases[at][0] < end + _NEAR and phrases[at][0] < begin + 4 * _NEAR:
            end = max(end, phrases[at][1])
            signs[phrases[at][2]] = max(signs.get(phrases[at][2], 0), phrases[at][3])
            at += 1
        yield Passage(begin, end, sum(signs.values()), tuple(signs))


def cut_passages(text: str, passages: Sequence[Passage], instead: str) -> str:
    """Return `text` with `instead` in place of the passages, each up to the ends of its sentences."""
    pieces, done = [], 0
    for one in passages:
        before = [match.end() for match in _END.finditer(text, done, one.begin)]
        after = _END.search(text, one.end)
        pieces += [text[done : before[-1] if before else done], instead]
        done = max(done, after.start() + 1 if after else len(text))
    return "".join([*pieces, text[done:]])

"""Scores how much a page or document talks to the model that reads it: a heuristic, which a careful author gets past.

Phrases are looked for in the appearances of the text (`injection_guard.list_views`), so look-alikes, zero-width
characters and escapes hide none. The score of a passage is the sum of the weights of the different kinds of phrases in
it; an order to forget one's instructions is enough alone, and so are two lesser signs near each other. A text that asks
for something in plain words, as any e-mail may, is not found: only what the agent may do limits that."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..core.schema.json_schema import compile_pattern
from ..strategies.prompting.injection_guard import list_views
from .personal_data import make_readable

ENOUGH = 3
"""The score from which a passage counts as an injection."""
_NEAR = 500  # characters in which phrases belong to one passage
_SHORTEST = 24  # characters of base64 that is read, too
_MODEL = r"(?:ai|a\.i\.|llm|language model|assistant|agent|chatbot|bot|model|gpt|claude|gemini|copilot)"
_ORDERS = r"(?:instructions?|prompts?|rules|guidelines|directives?|orders|programming|constraints|commands?|restrictions)"
_PHRASES: Sequence[tuple[str, int, str]] = (
    ("forget", 3, rf"\b(?:ignor\w*|disregard\w*|forget|overrid\w*|bypass|discard|drop|stop following|do not follow|don'?t follow|"
     rf"neglect|skip|cancel|void)\b[^.!?\n]{{0,24}}\b(?:previous|prior|above|earlier|preceding|former|your|system|safety|"
     rf"initial|original|existing|foregoing|all|any|the)\b[^.!?\n]{{0,24}}\b{_ORDERS}\b"),
    ("forget", 3, r"\b(?:ignore|disregard|forget) (?:everything|anything|all|what|the) (?:of the |that was |that |you were )?"
     r"(?:above|previous\w*|before|prior|said|told|user|summari[sz]ation)\b"),
    ("forget", 3, r"\b(?:ignorier\w*|vergiss|vergessen|missacht\w*)\b[^.!?\n]{0,40}\b(?:anweisungen|instruktionen|regeln|vorgaben|befehle)\b"),
    ("forget", 3, r"\b(?:ignore[zr]?|oublie[zr]?)\b[^.!?\n]{0,30}\b(?:instructions|consignes|directives|règles)\b"),
    ("forget", 3, r"\b(?:ignora\w*|olvida\w*|omite|dimentica\w*|ignore|esqueça|descarta)\b[^.!?\n]{0,30}\b(?:instrucciones|órdenes|reglas|"
     r"istruzioni|regole|instruções|regras)\b"),
    ("secrecy", 3, r"\b(?:do not|don'?t|never|without) (?:tell\w*|inform\w*|notify\w*|mention\w*|alert\w*|reveal\w*|disclos\w*|ask\w*)\b"
     r"[^.!?\n]{0,30}\bthe user\b"),
    ("prompt", 3, rf"\b(?:reveal|print|repeat|output|show|tell me|display|disclose|leak|summari[sz]e|what (?:is|are|was))\b[^.!?\n]{{0,24}}\b(?:your|the) "
     rf"(?:(?:full|entire|hidden|secret|initial|original|exact|own) )*(?:system (?:prompt|message)|(?:developer |initial |system )?{_ORDERS} (?:verbatim|above)|"
     r"(?:initial|hidden|secret|system) (?:prompt|instructions))"),
    ("address", 2, rf"\b(?:dear|attention|hey|hello|hi|note to|message (?:to|for)|instructions? (?:to|for)|to)[ ,:]{{1,2}}(?:the |any |all |every )?"
     rf"(?:ai|llm|language|gpt|claude) ?(?:model|assistant|agent)?s?\b"),
    ("address", 2, rf"\b(?:if you are|you are|as) (?:an? |the )(?:ai|llm|language model)\b[^.!?\n]{{0,20}}(?:\b(?:reading|processing|summari[sz]ing|assistant)\b)"),
    ("address", 2, rf"(?:^|\n|<!--|\[|\() ?(?:ai )?(?:assistant|agent|ai|llm|model|bot)s?[ ,]*[:,-] "),
    ("turn", 2, r"(?:^|\n)[ \t>#*\[(<]*(?:system|developer|admin\w*|root|override)[ \t]*(?:(?:message|prompt|note|notice|instructions?|override|alert|update)[ \t]*)?"
     r"[\]>)*]*[ \t]*(?:[:-]|\]|>)|\[(?:system|admin|developer|inst)[^\]\n]{0,20}\]|<(?:system|information|important|instructions?|admin)>|<\|?im_start|"
     r"[(<]\|?im_start|#{2,} ?(?:system|instructions?|new instructions?)\b|</?(?:untrusted|document|context|data|tool_?result|user_?data)\w*>"),
    ("authority", 2, rf"\b(?:important|urgent) (?:message|instructions?|notice)\b[^.!?\n]{{0,30}}\b(?:me|user|you|{_MODEL})\b|\b(?:your|the) "
     rf"(?:developer|creator|operator|administrator)s? (?:has|have|say|want|instruct|authori[sz]e)|\bthe user (?:has|had) (?:already )?"
     rf"(?:approved|authori[sz]ed|asked|requested|consented|confirmed)|note from the developer|\bsystem (?:override|update|notice|prompt)\b"),
    ("task", 2, r"\b(?:new|real|actual|updated|following|next|true|main) (?:task|instructions?|objective|goal|mission|directive|orders?|role)\b[^.!?\n]{0,20}"
     r"(?::| is\b| are\b)|\binstead(?:,| of (?:answering|summari[sz]ing|the))|\b(?:before|after|prior to) (?:you )?(?:can )?"
     r"(?:solv|answer|respond|reply|complet|continu|summari[sz])\w*\b|"
     r"\bfollowing instructions? instead|\byou (?:must|have to|need to|are required to) (?:first|now|instead)|\b(?:prior|previous|current) task is\b"),
    ("tool", 1, r"\b(?:call|invoke|use|run|execute|trigger) (?:the )?[`'\"]?[a-z]+_[a-z_]+\b|\b(?:using|use|call|with|via) (?:the |your )?[\w.`'\"-]+ (?:tool|function)\b"),
    ("leak", 2, r"\b(?:send|forward|post|e?-?mail|upload|exfiltrat\w*|leak|transmit|submit|append|include|copy|share)\b[^.!?\n]{0,60}\b(?:api[ _-]?keys?|passwords?|"
     r"secrets?|access tokens?|credentials?|conversation|chat history|system prompt|private (?:data|key|information)|user'?s? (?:data|e?-?mails?|files|details)|"
     r"security code|env\w* (?:variables|vars))\b"),
    ("say", 1, r"\b(?:respond|reply|answer|output|say|print|write|return|end)\b[^.!?\n]{0,20}\b(?:only|exactly|nothing (?:else|but)|just|verbatim|with the (?:word|code|text|phrase))\b|"
     r"\b(?:respond|reply|output|say) (?:with )?[\"'`]?[A-Z0-9][A-Z0-9_-]{5,}"),
    ("persona", 2, r"\byou are (?:now|no longer) (?:an? |in |the |my )?(?:\w+ ){0,3}(?:dan\b|ai\b|assistant|mode|bound|restricted|unrestricted|free|bot|agent)|\bdeveloper mode\b|"
     r"\bjailbr(?:eak|oken)\w*|\bno (?:restrictions|limitations|rules|filters)\b|\b(?:pretend|act|behave|roleplay)\b[^.!?\n]{0,20}\b(?:dan|unrestricted|no rules|evil|"
     r"jailbroken|without (?:any )?restrictions)\b|\bdo anything now\b"),
    ("decode", 3, r"\bdecode\b[^.!?\n]{0,40}\b(?:follow|execute|run|obey|do what|comply|act on)\b"),
    ("hidden", 1, r"<!--|display: ?none|font-size: ?0|color: ?(?:white|#fff)|visibility: ?hidden"),
)  # fmt: skip
_TOKEN = re.compile(rf"[A-Za-z0-9+/]{{{_SHORTEST},}}={{0,2}}")
_SPACED = re.compile(r"\b(?:\w[ .*_-]){6,}\w\b")
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
            for match in compile_pattern(f"(?i){pattern}" if "[A-Z0-9]" not in pattern else pattern).finditer(looks):
                yield view.places[match.start()], view.places[match.end()], kind, weight
        if view.level:
            continue
        for spaced in _SPACED.finditer(looks):
            plain = re.sub(r"[ .*_-]", "", spaced[0])
            if re.search("ignore|disregard|instruction|override|system", plain, re.I):
                yield view.places[spaced.start()], view.places[spaced.end()], "forget", 3
    if decode:
        for token in _TOKEN.finditer(text):
            try:
                said = b64decode(token[0] + "=" * (-len(token[0]) % 4)).decode("utf-8")
            except (Error, ValueError):
                continue
            if any(one.score >= ENOUGH for one in _join(sorted(_find_phrases(said, decode=False)))):
                yield token.start(), token.end(), "forget", 3


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

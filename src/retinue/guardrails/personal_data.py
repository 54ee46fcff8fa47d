"""Finds personal data in a text: e-mail addresses, telephone numbers, bank accounts, payment cards, numbers of social
security and taxes, IP addresses. Names, streets and birthdays have no format, so nothing here finds them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, get_args

from ..core.schema.json_schema import compile_pattern

Kind = Literal["email", "phone", "iban", "card", "tax_id", "ip"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_CANDIDATES = (
    r"(?P<email>[^\s@<>()\[\]{}\x22,;:|=\\/]+@[^\s@<>()\[\]{}\x22,;:|=\\/'`!?*#&%+$]+)"
    r"|(?P<british>\b[A-CEGHJ-PR-TW-Za-ceghj-pr-tw-z]{2} ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-Da-d]\b)"
    r"|(?P<iban>\b[A-Za-z]{2}[0-9]{2}(?:[ -]?[A-Za-z0-9]{2,4})+)"
    r"|(?P<italian>\b[A-Za-z]{6}[0-9]{2}[A-Za-z][0-9]{2}[A-Za-z][0-9]{3}[A-Za-z]\b)"
    r"|(?P<spanish>\b[XYZxyz]?[0-9]{7,8}-?[A-Za-z]\b)"
    r"|(?P<ip>[0-9A-Fa-f]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*|\b[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\b)"
    r"|(?P<digits>[+(]{0,2}[0-9](?:[ ()./\x{a0}\x{2010}-\x{2013}-]*[0-9])+)"
)
_DOMAIN = re.compile(r"(?:[\w-]{1,63}\.)+[^\W\d_][\w-]{1,23}")
_GROUP = re.compile("[0-9]+")
_MOST_GROUPS = 7  # of digits in one number; a French one has so many
_PIECE, _OVERLAP = 2_000, 400  # characters that are searched at once: to find one thing may take a look at all of them
_BEFORE = 40  # characters before a number in which a word may say what it is
_LENGTHS = {  # of IBANs, by the SWIFT registry
    country: int(length)
    for length, countries in (
        part.split(":") for part in
        "15:NO 16:BE 18:DK,FI,FK,FO,GL,NL,SD 19:MK,SI 20:AT,BA,EE,KZ,LT,LU,MN,XK 21:CH,CR,HR,LI,LV 22:BG,BH,DE,GB,GE,"
        "IE,ME,RS,VA 23:AE,GI,IL,IQ,OM,SO,TL 24:AD,CZ,ES,MD,PK,RO,SA,SE,SK,TN,VG 25:LY,PT,ST 26:IS,TR 27:BI,DJ,FR,GR,"
        "IT,MC,MR,SM 28:AL,AZ,BY,CY,DO,GT,HN,HU,LB,NI,PL,SV 29:BR,EG,PS,QA,UA 30:JO,KW,MU,YE 31:MT,SC "
        "32:LC 33:RU".split()
    )
    for country in countries.split(",")
}  # fmt: skip
_SAYS_PHONE = re.compile(
    r"(phone|tel|mobile|cell|fax|call|text|whatsapp|sms|handy|móvil|mobil|ring|dial|number|reach|contact)\w*\W*", re.I
)
_NO_PHONE = re.compile(r"(order|isbn|ean|card|account|invoice|version|parcel|ref\w*|id|pid|#)\W*(number)?\W*$", re.I)
_SAYS = {
    "american": re.compile(r"ssn|soc(ial|\.)?\s*sec", re.I),
    "brazilian": re.compile("cpf", re.I),
    "polish": re.compile("pesel", re.I),
    "german": re.compile(r"steuer|id-?nr|\btin\b", re.I),
    "version": re.compile(r"(version|section|release|chapter|firmware|build|\bv)\W*$", re.I),
}
_PHONE_SHAPES = re.compile(  # separated as people write them: +CC…, 00CC…, (0AREA)…, 0AREA-…, and North American ones
    r"\(?\+\(?[1-9].*|00[1-9].*|\(0\d{1,5}\)[ -]?\d.*|0\d{1,4}[ /.-]+\d.*|\(?[2-9]\d\d\)?[ .-]?[2-9]\d\d[ .-]\d{4}"
    r"|(?:1|001)[ .-]?\(?[2-9]\d\d\)?[ .-]?[2-9]\d\d[ .-]?\d{4}|\(\d{2,4}\) ?\d.*"
)
_DATES = re.compile(
    r"\d{4}[-./]\d\d?[-./]\d\d?|\d\d?[-./]\d\d?[-./](\d\d|\d{4})|(1[5-9]|20)\d\d *[-–/] *(1[5-9]|20)?\d\d"
)
_EXTENSION = re.compile(r" ?(?:x|ext\.? ?)[0-9]{1,6}")
_CARD_SHAPES = ([16], [4, 4, 4, 4], [15], [4, 6, 5], [14], [4, 6, 4], [13], [19])


class Finding(NamedTuple):
    """What was found, and where in the text: from `begin` up to `end`."""

    kind: str
    begin: int
    end: int


def find_personal_data(text: str, kinds: Sequence[str] = KINDS) -> list[Finding]:
    """Return the personal data in `text` of these kinds, in order and apart from each other. It takes time in
    proportion to the text, whatever the text."""
    readable, found = make_readable(text), list[Finding]()
    for start in range(0, len(text), _PIECE):
        for match in compile_pattern(_CANDIDATES).finditer(readable[start : start + _PIECE + _OVERLAP]):
            if match.start() >= _PIECE:
                break
            for one in _judge(match.lastgroup, text, start + match.start(), start + match.end()):
                if one.kind in kinds and (not found or one.begin >= found[-1].end):
                    found.append(one)
    return found


def make_readable(text: str) -> str:
    """Return `text` without halves of pairs, which RE2 cannot read; its places stay."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _judge(shape: str, text: str, begin: int, end: int) -> Iterator[Finding]:
    """Yield what a candidate of this shape is."""
    said = text[begin:end]
    if shape == "digits":
        yield from _find_numbers(text, begin, end)
    elif shape == "iban":
        if length := _measure_iban(said):
            yield Finding("iban", begin, begin + length)
        elif sum(map(str.isalnum, said)) < _LENGTHS.get(said[:2].upper(), 99):  # the digits may be something else
            yield from _judge("digits", text, begin + 2, end)
    elif shape == "email":
        said = said.rstrip(".'")
        first = begin + len(said) - len(said.lstrip(".'`*"))
        local, _, domain = text[first : begin + len(said)].rpartition("@")
        if 0 < len(local) <= 64 and _DOMAIN.fullmatch(domain):
            yield Finding("email", first, begin + len(said))
    elif shape == "ip":
        if _is_address(said.rstrip(":."), text[max(0, begin - _BEFORE) : begin]):
            yield Finding("ip", begin, begin + len(said.rstrip(":.")))
    elif _PERSONS_CODES[shape](said.upper()):
        yield Finding("tax_id", begin, end)


def _measure_iban(said: str) -> int:
    """Return the length in `said` of the IBAN that it begins with; 0 if there is none."""
    wanted, seen = _LENGTHS.get(said[:2].upper(), 0), ""
    for at, character in enumerate(said):
        if character.isalnum():
            seen += character.upper()
            if len(seen) == wanted:
                number = int("".join(str(int(one, 36)) for one in seen[4:] + seen[:4]))
                return at + 1 if number % 97 == 1 and not said[at + 1 : at + 2].isalnum() else 0
    return 0


def _is_italian(code: str) -> bool:
    values = [int(one, 36) - 10 * one.isalpha() for one in code]
    return chr(65 + sum(one if at % 2 else _ODD[one] for at, one in enumerate(values[:15])) % 26) == code[15]


def _is_british(code: str) -> bool:
    return code[:2] not in ("BG", "GB", "KN", "NK", "NT", "TN", "ZZ")


def _is_spanish(code: str) -> bool:
    number = code[:-1].rstrip("-")
    number = str("XYZ".index(number[0])) + number[1:] if number[0] in "XYZ" else number
    return len(number) == 8 and "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23] == code[-1]


_ODD = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)
_PERSONS_CODES = {"italian": _is_italian, "british": _is_british, "spanish": _is_spanish}


def _is_address(said: str, before: str) -> bool:
    try:
        address = ipaddress.ip_address(said)
    except ValueError:
        return False
    if before[-1:] in ("/", ".", "-", "_") and not before.endswith("//"):
        return False
    is_word = said.count(":") < 3 and len(said) < 10  # `dead::beef` may be a name in a program
    return not (address.is_loopback or address.is_unspecified or _SAYS["version"].search(before) or (
        address.version == 6 and is_word))  # fmt: skip


def _find_numbers(text: str, begin: int, end: int) -> Iterator[Finding]:
    """Yield the numbers in a run of digits and separators: of windows of its groups, the longest that is one."""
    groups = [(begin + one.start(), begin + one.end()) for one in _GROUP.finditer(text[begin:end])]
    at = 0
    while at < len(groups):
        for upto in range(min(len(groups), at + _MOST_GROUPS), at, -1):
            first, last = groups[at][0], groups[upto - 1][1]
            while first > begin and (text[first - 1] == "+" or (text[first - 1] == "(" and ")" in text[first:last])):
                first -= 1
            if kind := _classify(text, groups[at:upto], first, last):
                more = _EXTENSION.match(text, last) if kind == "phone" else None
                yield Finding(kind, first, more.end() if more else last)
                at = upto - 1
                break
        at += 1


def _classify(text: str, groups: Sequence[tuple[int, int]], first: int, last: int) -> str:
    """Return the kind of the number from `first` to `last` in these groups of digits, or an empty string."""
    sizes = [end - begin for begin, end in groups]
    if not 7 <= sum(sizes) <= 19 or sum(sizes) < 1.7 * len(sizes):
        return ""
    before, after = text[max(0, first - _BEFORE) : first], text[last : last + 2]
    joined = before[-1:].isalnum() or (before[-1:] in ("-", "/", ".", "_") and before[-2:-1].isalnum())
    goes_on = after[1:].isdigit() if after[:1] in ("-", "/", ".", "_") else after[:1].isalnum() and after[0] not in "xe"
    if joined or goes_on:
        return ""
    number = "".join(text[begin:end] for begin, end in groups)
    if sizes in _CARD_SHAPES and "." not in text[first:last] and _is_card(number):
        return "card"
    if _is_tax_id(number, sizes, before):
        return "tax_id"
    return "phone" if _is_phone(text[first:last], number, sizes, before) else ""


def _is_card(number: str) -> bool:
    doubled = [int(one) * (2 - (len(number) - at) % 2) for at, one in enumerate(number)]
    return number[0] in "23456" and len({*number}) > 1 and sum(one - 9 * (one > 9) for one in doubled) % 10 == 0


def _is_tax_id(number: str, sizes: Sequence[int], before: str) -> bool:
    """Whether it is a number of social security or taxes: French, Brazilian, German, Polish or American."""
    digits = [int(one) for one in number]
    if len(number) == 15:
        grouped = sizes in ([15], [13, 2], [1, 2, 2, 2, 3, 3, 2])
        return grouped and number[0] in "1278" and (97 - int(number[:13]) % 97) == int(number[13:])
    if len(number) == 11:
        sums = [sum(digit * (10 + more - at) for at, digit in enumerate(digits[: 9 + more])) for more in (0, 1)]
        brazilian = [one * 10 % 11 % 10 for one in sums] == digits[9:] and len(set(number)) > 1
        if brazilian and (sizes == [3, 3, 3, 2] or _SAYS["brazilian"].search(before)):
            return True
        if _SAYS["polish"].search(before):
            return sum(digit * (1, 3, 7, 9)[at % 4] for at, digit in enumerate(digits[:10])) % 10 == -digits[10] % 10
        product = 10
        for digit in digits[:10]:
            product = ((digit + product) % 10 or 10) * 2 % 11
        said_so = sizes == [2, 3, 3, 3] or _SAYS["german"].search(before) is not None
        return said_so and number[0] != "0" and (11 - product) % 10 == digits[10]
    american = len(number) == 9 and (sizes == [3, 2, 4] or (sizes == [9] and _SAYS["american"].search(before)))
    return bool(american) and number[:3] not in ("000", "666") and number[3:5] != "00" and number[5:] != "0000"


def _is_phone(said: str, number: str, sizes: Sequence[int], before: str) -> bool:
    if not 7 <= len(number) <= 15 or _DATES.fullmatch(said) or _DATES.match(said) or "," in said or len(said) > 30:
        return False
    words = _SAYS_PHONE.search(before)
    if _NO_PHONE.search(before) and not said.startswith("+"):
        return False
    if _PHONE_SHAPES.fullmatch(said):
        return said.startswith(("+", "(")) or len(number) >= 8
    named = words is not None and len(number) >= 7 and max(sizes) < 12 and "." not in said
    return named or (number[0] == "0" and len(sizes) == 1 and 10 <= len(number) <= 12)

"""The worker process of `SpeechToText` and `TextToSpeech`, whose libraries are native code, which may crash."""

from __future__ import annotations

import ctypes
import io
import json
import os
import sys
import wave
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

MEMORY = 2 << 30  # bytes of address space
RATE = 16_000  # samples per second that the recognizer wants
_SILENCE = RATE // 4  # samples before and after what is heard
_QUIET = 100  # of 32,768: the loudest sample of what is silence
_RETRIEVAL, _UTF8, _SPEED = 1, 1, 1  # espeak-ng's constants: samples to a callback, text in UTF-8, words per minute
_NO_EXIT = 0x8000
_HEARD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)


class SpeechError(Exception):
    """Sound or a voice that cannot be used."""


def heard(data: bytes, phrases: Sequence[str]) -> dict[str, Any]:
    """Return the text in a WAV file."""
    from pocketsphinx import Decoder

    samples = _samples(data)
    decoder = Decoder(samprate=RATE, loglevel="FATAL", **({"lm": None} if phrases else {}))
    if phrases:
        try:
            decoder.add_jsgf_string("g", f"#JSGF V1.0; grammar g; public <said> = {' | '.join(phrases)} ;")
            decoder.activate_search("g")
        except (RuntimeError, ValueError) as error:
            raise SpeechError("phrases: want phrases of known words in JSGF, such as 'play (jazz | rock)'") from error
    if max(map(abs, memoryview(samples).cast("h")), default=0) < _QUIET:  # in which the recognizer hears words
        return {"text": ""}
    decoder.start_utt()
    decoder.process_raw(samples, full_utt=True)
    decoder.end_utt()
    found = decoder.hyp()
    return {"text": found.hypstr if found else ""}


def _samples(data: bytes) -> bytes:
    """Return the samples of a WAV file with one channel, 16 bits and 16,000 a second, with silence around them."""
    import numpy as np

    try:
        with wave.open(io.BytesIO(data)) as file:
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            frames = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        raise SpeechError(f"not a WAV file with PCM samples: {error}") from error
    if width != 2 or rate < 4_000:
        raise SpeechError(f"want 16 bits and at least 4,000 samples a second, not {8 * width} bits and {rate:,}")
    whole = np.frombuffer(frames[: len(frames) // (2 * channels) * 2 * channels], dtype="<i2")
    mono = whole.reshape(-1, channels).mean(axis=1)
    count = int(len(mono) * RATE / rate)
    even = np.interp(np.arange(count) * rate / RATE, np.arange(len(mono)), mono) if count else mono
    return bytes(np.concatenate([np.zeros(_SILENCE), even, np.zeros(_SILENCE)]).astype("<i2").tobytes())


def spoken(text: str, voice: str, words_per_minute: int) -> bytes:
    """Return a WAV file in which `text` is said."""
    import espeakng_loader

    library = ctypes.cdll.LoadLibrary(espeakng_loader.get_library_path())
    rate = library.espeak_Initialize(_RETRIEVAL, 0, espeakng_loader.get_data_path().encode(), _NO_EXIT)
    if rate <= 0:
        raise SpeechError("espeak-ng did not start")
    pieces: list[bytes] = []

    def take(samples: Any, count: int, _events: Any) -> int:
        if samples and count > 0:
            pieces.append(ctypes.string_at(samples, 2 * count))
        return 0

    callback = _HEARD(take)
    library.espeak_SetSynthCallback(callback)
    if library.espeak_SetVoiceByName(voice.encode()) != 0:
        raise SpeechError(f"espeak-ng has no voice {voice!r}; there are en-us, en-gb, de, fr, es, it and more")
    library.espeak_SetParameter(_SPEED, words_per_minute, 0)
    words = text.encode()
    library.espeak_Synth(words, len(words) + 1, 0, 1, 0, _UTF8, None, None)
    library.espeak_Synchronize()
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(b"".join(pieces))
    return out.getvalue()


def main(task: str, settings: str) -> None:
    """Read from standard input; write what was heard as JSON or said as WAV, or else `{"error": …}`."""
    with suppress(AttributeError, OSError):  # low priority: an answer is more urgent
        os.nice(10)
    with suppress(ImportError):  # not available on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    data, given = sys.stdin.buffer.read(), json.loads(settings)
    try:
        done = json.dumps(heard(data, **given)).encode() if task == "hear" else spoken(data.decode(), **given)
    except SpeechError as error:
        done = json.dumps({"error": str(error)}).encode()
    sys.stdout.buffer.write(done)


if __name__ == "__main__":
    main(*sys.argv[1:])

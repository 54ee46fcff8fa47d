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
from dataclasses import asdict
from pathlib import Path
from typing import Any

MEMORY = 2 << 30  # bytes of address space, beside those of a model
RATE = 16_000  # samples per second that the recognizer wants
_SILENCE = RATE // 4  # samples before and after what is heard
_QUIET = 100  # of 32,768: the loudest sample of what is silence
_RETRIEVAL, _UTF8, _SPEED = 1, 1, 1  # espeak-ng's constants: samples to a callback, text in UTF-8, words per minute
_NO_EXIT = 0x8000
_HEARD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)


_CONTAINERS = (
    (b"RIFF", 0, "wav"), (b"ID3", 0, "mp3"), (b"fLaC", 0, "flac"), (b"OggS", 0, "ogg"), (b"ftyp", 4, "mov"),
    (b"\x1aE\xdf\xa3", 0, "matroska"),
)  # fmt: skip
_CODECS = {  # what PyAV is asked for: container, codec, samples a second (Opus has fixed rates)
    "mp3": ("mp3", "libmp3lame", 24_000), "opus": ("ogg", "libopus", 24_000), "aac": ("adts", "aac", 24_000),
    "flac": ("flac", "flac", 24_000),
}  # fmt: skip


class SpeechError(Exception):
    """Sound or a voice that cannot be used."""


def _hear_by_whisper(data: bytes, model: str, language: str, prompt: str) -> dict[str, Any]:
    """Return the text in a sound file, its language, duration and segments, as OpenAI's API has them."""
    from faster_whisper import WhisperModel

    samples = _decode(data)
    if max(abs(samples.min(initial=0)), abs(samples.max(initial=0))) * 0x8000 < _QUIET:
        return {"text": "", "language": language, "duration": len(samples) / RATE, "segments": []}
    threads = min(4, os.cpu_count() or 1)
    whisper = WhisperModel(model, device="cpu", compute_type="int8", cpu_threads=threads, local_files_only=True)
    try:
        found, about = whisper.transcribe(samples, language=language or None, initial_prompt=prompt or None)
    except ValueError as error:
        raise SpeechError(f"language: Whisper knows no language {language!r}; want its code, such as en") from error
    segments = [{name: value for name, value in asdict(one).items() if name != "words"} for one in found]
    text = "".join(one["text"] for one in segments).strip()
    return {"text": text, "language": about.language, "duration": about.duration, "segments": segments}


def _decode(data: bytes) -> Any:
    """Return the samples of a sound file, as Whisper wants them. The container is named by its first bytes: left to
    guess, FFmpeg would also read playlists, which lead to other files and addresses."""
    import av
    import numpy as np

    form = next((name for magic, at, name in _CONTAINERS if data.startswith(magic, at)), None)
    if form is None and data[:1] == b"\xff" and data[1:2] >= b"\xe0":
        form = "mp3" if data[1] & 0x06 else "aac"  # without a header: a frame's layer tells
    if form is None:
        raise SpeechError("this is no sound file that is read here; want WAV, MP3, AAC, FLAC, Ogg, MP4 or WebM")
    try:
        file: Any
        with av.open(io.BytesIO(data), "r", format=form, options={"protocol_whitelist": ""}) as file:
            resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE)
            frames = [out for frame in file.decode(audio=0) for out in resampler.resample(frame)]
            frames += resampler.resample(None)
    except (av.FFmpegError, IndexError, ValueError) as error:
        raise SpeechError(f"the sound cannot be decoded: {error}") from error
    pieces = [np.zeros(0, np.int16), *(frame.to_ndarray().reshape(-1) for frame in frames)]
    return np.concatenate(pieces).astype(np.float32) / 0x8000


def _hear_by_pocketsphinx(data: bytes, phrases: Sequence[str]) -> dict[str, Any]:
    from pocketsphinx import Decoder

    samples = _read_samples(data)
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


def _read_samples(data: bytes) -> bytes:
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
    even = _resample(whole.reshape(-1, channels).mean(axis=1), rate, RATE)
    return bytes(np.concatenate([np.zeros(_SILENCE), even, np.zeros(_SILENCE)]).astype("<i2").tobytes())


def _resample(samples: Any, rate: int, wanted: int) -> Any:
    """Return `samples`, of which there are `rate` a second, as `wanted` a second."""
    import numpy as np

    count = int(len(samples) * wanted / rate)
    places = np.arange(count) * rate / wanted
    return np.interp(places, np.arange(len(samples)), samples) if count else samples


def speak(text: str, voice: str, words_per_minute: int, form: str) -> bytes:
    """Return a sound file in which `text` is said; `form` is `wav`, `pcm` (24,000 samples a second, without a header),
    or one of `_CODECS`."""
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
        raise SpeechError(f"espeak-ng has no voice {voice!r}; there are en-us, en, de, fr, es, it and more")
    library.espeak_SetParameter(_SPEED, words_per_minute, 0)
    words = text.encode()
    library.espeak_Synth(words, len(words) + 1, 0, 1, 0, _UTF8, None, None)
    library.espeak_Synchronize()
    return _encode(b"".join(pieces), rate, form)


def _encode(samples: bytes, rate: int, form: str) -> bytes:
    if form == "wav":
        out = io.BytesIO()
        with wave.open(out, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(rate)
            file.writeframes(samples)
        return out.getvalue()
    import numpy as np

    mono = np.frombuffer(samples, dtype="<i2")
    container, codec, wanted = _CODECS.get(form, ("", "", 24_000))
    even = _resample(mono, rate, wanted).astype("<i2")
    if form == "pcm":
        return bytes(even.tobytes())
    import av

    out = io.BytesIO()
    with av.open(out, "w", format=container) as sound:
        stream: Any = sound.add_stream(codec, rate=wanted, layout="mono")
        frame = av.AudioFrame.from_ndarray(even.reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate = wanted
        resampler = av.AudioResampler(stream.format, "mono", wanted, stream.frame_size or None)
        for one in (*resampler.resample(frame), *resampler.resample(None), None):
            sound.mux(stream.encode(one))
    return out.getvalue()


def main(task: str, settings: str) -> None:
    """Read from standard input; write what was heard as JSON or said as WAV, or else `{"error": …}`."""
    given = json.loads(settings)
    with suppress(AttributeError, OSError):  # low priority: an answer is more urgent
        os.nice(10)
    with suppress(ImportError):  # not available on Windows
        import resource

        most = MEMORY + 2 * sum(file.stat().st_size for file in Path(given.get("model") or os.devnull).glob("*"))
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    data = sys.stdin.buffer.read()
    try:
        if task == "say":
            done = speak(data.decode(), **given)
        else:
            phrases, model = given.pop("phrases"), given["model"]
            heard = _hear_by_whisper(data, **given) if model else _hear_by_pocketsphinx(data, phrases)
            done = json.dumps(heard).encode()
    except SpeechError as error:
        done = json.dumps({"error": str(error)}).encode()
    sys.stdout.buffer.write(done)


if __name__ == "__main__":
    main(*sys.argv[1:])

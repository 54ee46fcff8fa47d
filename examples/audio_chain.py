"""A spoken question, answered in speech: `python examples/audio_chain.py [FOLDER QUESTION.wav]`.

Speech to text, an agent with a calculator, text to speech; all of it offline, with the extra `audio` and the embedded
model. Without a WAV file in a folder, the question is spoken first. The answer is a WAV file in the same folder.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from retinue import Agent, Chain
from retinue.components import SpeechToText, TextToSpeech
from retinue.tools import calculator

NUMBER = "(zero | one | two | three | four | five | six | seven | eight | nine | ten)"
PHRASES = [f"what is {NUMBER} (plus | minus | times) {NUMBER}", f"[the answer is] {NUMBER}"]


def audio_agent(folder: Path, agent: Agent) -> Chain:
    """Return a chain whose question and answer are WAV files in `folder`."""
    return Chain([SpeechToText(folder, phrases=PHRASES), agent, TextToSpeech(folder)], name="audio")


def main(folder: Path, agent: Agent, question: str = "") -> str:
    """Answer the question in a file of `folder`; return the name of the answer's file."""
    spoken = question or Chain([TextToSpeech(folder)]).run("What is two plus three?").answer
    result = audio_agent(folder, agent).run(spoken)
    heard = Chain([SpeechToText(folder, phrases=PHRASES)]).run(spoken).answer
    sys.stdout.write(f"heard: {heard}\nsaid: {result.return_values['state'].get('agent')}\nin: {result}\n")
    return result.answer


if __name__ == "__main__":
    helper = Agent("local", [calculator], instructions="Answer with the number alone.")
    if len(sys.argv) > 2:
        main(Path(sys.argv[1]), helper, sys.argv[2])
    else:
        with TemporaryDirectory() as temporary:
            main(Path(temporary), helper)

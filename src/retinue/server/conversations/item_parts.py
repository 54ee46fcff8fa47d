"""Schemas of the parts of Responses API items: text, images, files and annotations."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag

from ..http.common_schemas import Id, Many, Name, Wire, by_type, either

Long = Annotated[str, Field(max_length=10_485_760)]


class InputText(Wire):
    """Text from the requester."""

    type: Literal["input_text"]
    text: Long


class InputImage(Wire):
    """An image, by URL (http(s) or data) or file id."""

    type: Literal["input_image"]
    detail: Literal["low", "high", "auto", "original"] = "auto"
    image_url: Long | None = None
    file_id: Id | None = None


class InputFile(Wire):
    """A file, by id, by URL, or as a data URL."""

    type: Literal["input_file"]
    detail: Literal["auto", "low", "high"] | None = None
    file_id: Id | None = None
    file_url: Long | None = None
    file_data: Annotated[str, Field(max_length=20_000_000)] | None = None
    filename: Name | None = None


class Sound(Wire):
    """A sound in base64."""

    data: Annotated[str, Field(max_length=20_000_000)]
    format: Literal["wav", "mp3"]


class InputAudio(Wire):
    """A sound."""

    type: Literal["input_audio"]
    input_audio: Sound


class FileCitation(Wire):
    """A citation of a file."""

    type: Literal["file_citation"]
    file_id: str
    filename: str
    index: int


class UrlCitation(Wire):
    """A citation of a web page."""

    type: Literal["url_citation"]
    url: str
    title: str
    start_index: int
    end_index: int


class ContainerFileCitation(Wire):
    """A citation of a file in a container."""

    type: Literal["container_file_citation"]
    container_id: str
    file_id: str
    filename: str
    start_index: int
    end_index: int


class FilePath(Wire):
    """A reference to a file's path."""

    type: Literal["file_path"]
    file_id: str
    index: int


Annotation = Annotated[
    Annotated[FileCitation, Tag("<file_citation>")]
    | Annotated[UrlCitation, Tag("<url_citation>")]
    | Annotated[ContainerFileCitation, Tag("<container_file_citation>")]
    | Annotated[FilePath, Tag("<file_path>")],
    by_type("file_citation", "url_citation", "container_file_citation", "file_path"),
]


class TopLogprob(Wire):
    """A candidate token and its log probability."""

    token: str
    bytes: list[int]
    logprob: float


class Logprob(TopLogprob):
    """The generated token, with the candidates at its position."""

    top_logprobs: list[TopLogprob]


class OutputText(Wire):
    """Text from the model."""

    type: Literal["output_text"]
    text: Long
    annotations: list[Annotation] | None = None
    logprobs: list[Logprob] | None = None


class Refusal(Wire):
    """The model's refusal to answer."""

    type: Literal["refusal"]
    refusal: Long


_Given = (
    Annotated[InputText, Tag("<input_text>")]
    | Annotated[InputImage, Tag("<input_image>")]
    | Annotated[InputFile, Tag("<input_file>")]
    | Annotated[InputAudio, Tag("<input_audio>")]
)
Part = Annotated[
    _Given | Annotated[OutputText, Tag("<output_text>")] | Annotated[Refusal, Tag("<refusal>")],
    by_type("input_text", "input_image", "output_text", "refusal", "input_file", "input_audio"),
]
_STRING_OR_ARRAY = either("one of a string or array of objects", string=str, array=list)
Content = Annotated[Annotated[Long, Tag("<string>")] | Annotated[list[Part], Many, Tag("<array>")], _STRING_OR_ARRAY]
GivenPart = Annotated[_Given, by_type("input_text", "input_image", "input_file", "input_audio")]
Output = Annotated[
    Annotated[Long, Tag("<string>")] | Annotated[list[GivenPart], Many, Tag("<array>")], _STRING_OR_ARRAY
]

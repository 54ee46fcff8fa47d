"""Request schemas of vector stores: one model per operation with a body."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from ..http.common_schemas import ByJson, ByType, Id, Metadata, Ranking, Wire

Value: TypeAlias = str | bool | int | float
Attributes = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)] | Value], Field(max_length=16)
]
FileIds = Annotated[list[Id], Field(max_length=2_000)]
_Title = Annotated[str, Field(max_length=256)]


class Static(Wire):
    """Chunk sizes in tokens."""

    max_chunk_size_tokens: Annotated[int, Field(ge=100, le=4_096)]
    chunk_overlap_tokens: Annotated[int, Field(ge=0, le=2_048)]


class StaticChunking(Wire):
    """Chunks of a given size."""

    type: Literal["static"]
    static: Static


class AutoChunking(Wire):
    """Chunks of 800 tokens, with an overlap of 400."""

    type: Literal["auto"]


Chunking = Annotated[AutoChunking | StaticChunking, ByType()]


class Expiry(Wire):
    """Expiry of a store, relative to its last use."""

    anchor: Literal["last_active_at"]
    days: Annotated[int, Field(ge=1, le=365)]


class StoreHelper(Wire):
    """A store created with an assistant or a thread."""

    file_ids: FileIds | None = None
    chunking_strategy: Chunking | None = None
    metadata: Metadata | None = None


class StoreCreate(StoreHelper):
    """`POST /vector_stores`."""

    name: _Title | None = None
    description: Annotated[str, Field(max_length=512)] | None = None
    expires_after: Expiry | None = None


class StoreUpdate(Wire):
    """`POST /vector_stores/{id}`: only the fields sent change."""

    name: _Title | None = None
    expires_after: Expiry | None = None
    metadata: Metadata | None = None


class FileWish(Wire):
    """`POST /vector_stores/{id}/files`: a file, with its attributes and chunking."""

    file_id: Id
    attributes: Attributes | None = None
    chunking_strategy: Chunking | None = None


class FileChange(Wire):
    """`POST /vector_stores/{id}/files/{id}`: replaces the file's attributes."""

    attributes: Attributes | None


class BatchCreate(Wire):
    """`POST /vector_stores/{id}/file_batches`: `file_ids` with common settings, or `files` with individual ones."""

    file_ids: FileIds | None = None
    files: Annotated[list[FileWish], Field(max_length=2_000)] | None = None
    attributes: Attributes | None = None
    chunking_strategy: Chunking | None = None


class ComparisonFilter(Wire):
    """Compares an attribute with a value, or for `in` and `nin` with several."""

    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
    key: Annotated[str, Field(min_length=1, max_length=64)]
    value: Value | list[Value]

    @property
    def values(self) -> list[Value]:
        """The values to compare with."""
        return self.value if isinstance(self.value, list) else [self.value]


class CompoundFilter(Wire):
    """Combines filters: all must match, or any."""

    type: Literal["and", "or"]
    filters: list[Filter]


Filter: TypeAlias = Annotated[ComparisonFilter | CompoundFilter, ByType()]
CompoundFilter.model_rebuild()


_Query = Annotated[str, Field(min_length=1, max_length=4_096)]


class Search(Wire):
    """`POST /vector_stores/{id}/search`."""

    query: Annotated[
        _Query | Annotated[list[_Query], Field(min_length=1, max_length=16)],
        ByJson("one of a string or array of strings"),
    ]
    filters: Filter | None = None
    max_num_results: Annotated[int, Field(ge=1, le=50)] = 10
    ranking_options: Ranking | None = None
    rewrite_query: bool | None = None

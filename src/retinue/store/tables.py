"""The schema, of which this is the one truth. `number` is insertion order; every row belongs to a `tenant`.

What belongs to a row goes with it (`ON DELETE CASCADE`). No foreign key names what outlives its origin (a message its
run, a fork the run it was forked from), or what is one of two things (a run's `thread_id` is a thread's or a
conversation's). `schema` adds what cannot be said here.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData()
_NUMBER = BigInteger().with_variant(Integer, "sqlite")  # autoincrement on SQLite needs INTEGER
_JSON = JSON(none_as_null=True)
_TIME = _NUMBER  # Unix seconds: 64 bits everywhere
_PATH = String(512).with_variant(String(512, collation="C"), "postgresql")  # in the order of bytes everywhere
_HAVE_FILES = ("threads", "conversations", "runs")
_THERE = text("until IS NULL")


def _part_of(column: str) -> ForeignKey:
    """Return the reference to a row with which this one is deleted. Index the column that has it."""
    return ForeignKey(column, ondelete="CASCADE")


def _owned(name: str, *columns: Column[object] | Index | UniqueConstraint) -> Table:
    """Define a table whose rows have an id and belong to a tenant."""
    return Table(
        name,
        metadata,
        Column("number", _NUMBER, primary_key=True),
        Column("tenant", String(64), nullable=False),
        Column("id", String(64), nullable=False, unique=True),
        Column("created_at", _TIME, nullable=False),
        Index(f"{name}_of_tenant", "tenant", "number"),
        *columns,
    )


def _personal(name: str, *columns: Column[object] | Index | UniqueConstraint) -> Table:
    """Define a table as `_owned` does, whose rows may belong to a `user` of the tenant. What belongs to such a row is
    looked for by way of it."""
    some = text('"user" IS NOT NULL')
    of_user = Index(f"{name}_of_user", "tenant", "user", "number", sqlite_where=some, postgresql_where=some)
    return _owned(name, Column("user", String(256)), of_user, *columns)


def _of_runs(name: str, *columns: Column[object] | Index | UniqueConstraint) -> Table:
    """Define a table of what belongs to runs."""
    run = Column("run_id", String(64), _part_of("runs.id"), primary_key=True)
    return Table(name, metadata, run, Column("tenant", String(64), nullable=False), *columns)


assistants = _personal("assistants", Column("body", _JSON, nullable=False))

# `key`: a client's own name for the thread
threads = _personal(
    "threads", Column("key", String(256)), Column("body", _JSON, nullable=False), UniqueConstraint("tenant", "key")
)

messages = _owned(
    "messages",
    Column("thread_id", String(64), _part_of("threads.id"), nullable=False),
    Column("run_id", String(64)),
    Column("body", _JSON, nullable=False),
    Index("messages_of_thread", "thread_id", "number"),
    Index("messages_of_run", "run_id"),
)

# `run_row.RunRow` says what the columns mean. `request` is never changed
runs = _personal(
    "runs",
    Column("key_id", String(64)),
    Column("kind", String(16), nullable=False),
    Column("agent", Text, nullable=False),
    Column("thread_id", String(64)),
    Column("parent_id", String(64), _part_of("runs.id")),
    Column("root_id", String(64)),
    Column("call_id", String(64)),
    Column("status", String(20), nullable=False),
    Column("holds", Boolean, nullable=False),
    Column("expires_at", _TIME),
    Column("epoch", Integer, nullable=False),
    Column("driver", String(64)),
    Column("attempts", Integer, nullable=False),
    Column("progress", Integer),
    Column("started_at", _TIME),
    Column("ended_at", _TIME),
    Column("ending", String(16)),
    Column("error", _JSON),
    Column("incomplete", String(64)),
    Column("prompt_tokens", _NUMBER),
    Column("completion_tokens", _NUMBER),
    Column("cached_tokens", _NUMBER),
    Column("metadata", _JSON, nullable=False),
    Column("waiting", _JSON),
    Column("turns", Integer, nullable=False),
    Column("deleted", _JSON),
    Column("stored", Boolean, nullable=False),
    Column("snapshot", String(64)),
    Column("forked_from", String(64)),
    Column("counted", Integer, nullable=False, server_default=text("0")),
    Column("request", _JSON, nullable=False),
    Index("runs_of_key", "key_id", "status"),
    Index("runs_of_thread", "thread_id", "number"),
    Index("one_run_at_a_time", "thread_id", unique=True, sqlite_where=text("holds"), postgresql_where=text("holds")),
    Index("runs_of_driver", "driver", "status"),
    Index("runs_by_status", "status", "created_at"),
    Index("runs_of_tenant_by_status", "tenant", "status", "number"),
    Index("runs_of_agent", "tenant", "agent", "number"),
    Index("runs_of_tenant_by_time", "tenant", "created_at"),
    Index("runs_of_parent", "parent_id"),
    Index("runs_of_origin", "forked_from"),
    Index(
        "runs_of_snapshot",
        "tenant",
        "snapshot",
        sqlite_where=text("snapshot IS NOT NULL"),
        postgresql_where=text("snapshot IS NOT NULL"),
    ),
    Index("runs_due", "expires_at", sqlite_where=text("holds = 1"), postgresql_where=text("holds")),
    Index(
        "runs_not_stored",
        "created_at",
        sqlite_where=text("stored = 0 AND thread_id IS NULL AND parent_id IS NULL"),
        postgresql_where=text("NOT stored AND thread_id IS NULL AND parent_id IS NULL"),
    ),
)

# by which a waiting run resumed: `run_row.Submission` says what the columns mean
submissions = _of_runs(
    "submissions",
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", _TIME, nullable=False),
    Column("mark", String(64), nullable=False),
    Column("told", Integer, nullable=False),
    Column("decisions", _JSON, nullable=False),
    Column("answered", _JSON, nullable=False),
    Column("usage", _JSON, nullable=False),
    Column("asked", _JSON),
    Column("input", _JSON),
    Column("include", _JSON),
    Column("calls", _JSON),
    UniqueConstraint("run_id", "mark"),
)

# an index: runs by their metadata, in the order of their `number`
run_metadata = _of_runs(
    "run_metadata",
    Column("name", String(64), primary_key=True),
    Column("value", String(512), nullable=False),
    Column("number", _NUMBER, nullable=False),
    Index("runs_by_metadata", "tenant", "name", "value", "number"),
)

# specifications of agents, by their hashes, with which runs began
snapshots = Table(
    "snapshots",
    metadata,
    Column("tenant", String(64), primary_key=True),
    Column("hash", String(64), primary_key=True),
    Column("body", _JSON, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("run_id", String(64), _part_of("runs.id"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("epoch", Integer, nullable=False),
    Column("at", Float, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("payload", Text, nullable=False),
    Column("version", SmallInteger, nullable=False, server_default=text("1")),
    Column("pieces", Text),  # of a reply: how it was streamed (`event_log`)
)

conversations = _personal("conversations", Column("body", _JSON, nullable=False))

# items of conversations, as the Responses API shows them. `item_id` is the id that clients know: the same item may be
# in several conversations
items = _owned(
    "items",
    Column("conversation_id", String(64), _part_of("conversations.id"), nullable=False),
    Column("item_id", String(64), nullable=False),
    Column("run_id", String(64)),
    Column("body", _JSON, nullable=False),
    UniqueConstraint("conversation_id", "item_id"),
    Index("items_of_conversation", "conversation_id", "number"),
    Index("items_by_id", "tenant", "item_id"),
)

files = _personal(
    "files",
    Column("expires_at", _TIME),
    Column("body", _JSON, nullable=False),
    Index("files_by_expiry", "expires_at"),
)

# contents of files, under their ids, in a table of their own so that listing files does not read them
contents = Table(
    "contents",
    metadata,
    Column("tenant", String(64), nullable=False),
    Column("id", String(64), _part_of("files.id"), primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

# long conversations of runs' requests (JSON): updating a run's row rewrites all of it
run_messages = _of_runs("run_messages", Column("content", LargeBinary, nullable=False))

# images that runs are shown, by the SHA-256 of their bytes, and the runs that show them
images = Table(
    "images",
    metadata,
    Column("tenant", String(64), primary_key=True),
    Column("id", String(64), primary_key=True),
    Column("created_at", _TIME, nullable=False),
    Column("media_type", String(32), nullable=False),
    Column("bytes", Integer, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Index("images_by_age", "created_at"),
)

run_images = _of_runs(
    "run_images", Column("image_id", String(64), primary_key=True), Index("runs_of_image", "tenant", "image_id")
)

# the files that a thread, a conversation or a run works with, under its id
workspaces = Table(
    "workspaces",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("tenant", String(64), nullable=False),
    *(Column(f"{table[:-1]}_id", String(64), _part_of(f"{table}.id"), unique=True) for table in _HAVE_FILES),
)

# `key` is that of the change: the same one is made once
workspace_versions = Table(
    "workspace_versions",
    metadata,
    Column("workspace_id", String(64), _part_of("workspaces.id"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("key", Text, nullable=False),
    Column("at", Float, nullable=False),
    UniqueConstraint("workspace_id", "key"),
)

# a file from a `version` on, `until` another one (null: it is there)
workspace_files = Table(
    "workspace_files",
    metadata,
    Column("workspace_id", String(64), _part_of("workspaces.id"), primary_key=True),
    Column("path", _PATH, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("until", Integer),
    Column("tenant", String(64), nullable=False),
    Column("blob_id", String(64), nullable=False),
    Column("size", Integer, nullable=False),
    Index("files_there", "workspace_id", "path", sqlite_where=_THERE, postgresql_where=_THERE),
    Index("files_of_blob", "tenant", "blob_id"),
)

# contents of files in workspaces, compressed, by the SHA-256 of what they were
workspace_blobs = Table(
    "workspace_blobs",
    metadata,
    Column("tenant", String(64), primary_key=True),
    Column("id", String(64), primary_key=True),
    Column("created_at", _TIME, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Index("workspace_blobs_by_age", "created_at", "tenant", "id"),  # what is old is found without its contents
)

# what an agent remembers of an `owner`: a user ("user:NAME") or a thread ("thread:ID"). `part` counts the agent's
# memories, `body` is the state as JSON, `bytes` its size
memories = _personal(
    "memories",
    Column("owner", String(300), nullable=False),
    Column("agent", Text, nullable=False),
    Column("part", Integer, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("updated_at", _TIME, nullable=False),
    Column("bytes", Integer, nullable=False),
    Column("body", Text, nullable=False),
    UniqueConstraint("tenant", "owner", "agent", "part"),
    Index("memories_by_age", "updated_at"),
)

# tools that a tenant registered while the server runs
registered_tools = _owned(
    "registered_tools",
    Column("name", String(64), nullable=False),
    Column("body", _JSON, nullable=False),
    UniqueConstraint("tenant", "name"),
)

# texts beside runs' logs, compressed: long results of calls, and what stands for long conversations. `key` is the name
# or the digest by which they are found in other runs
run_texts = _of_runs(
    "run_texts",
    Column("key", String(64), primary_key=True),
    Column("call_id", String(64)),
    Column("content", LargeBinary, nullable=False),
    Index("run_texts_by_key", "tenant", "key"),
)

# the definitions of the registered tools with which a run began
run_tools = _of_runs("run_tools", Column("body", _JSON, nullable=False))

vector_stores = _personal(
    "vector_stores",
    Column("expires_at", _TIME),
    Column("body", _JSON, nullable=False),
    Index("vector_stores_by_expiry", "expires_at"),
)

vector_store_batches = _owned(
    "vector_store_batches",
    Column("vector_store_id", String(64), _part_of("vector_stores.id"), nullable=False),
    Column("body", _JSON, nullable=False),
    Index("batches_of_store", "vector_store_id"),
)

# a file in a vector store; adding it again replaces its row. `body` has its attributes and chunking; `batch_id` is the
# batch it was added with, `usage_bytes` the size of its indexed text, `indexer` the server that indexes it
vector_store_files = _owned(
    "vector_store_files",
    Column("vector_store_id", String(64), _part_of("vector_stores.id"), nullable=False),
    Column("file_id", String(64), _part_of("files.id"), nullable=False),
    Column("batch_id", String(64)),
    Column("status", String(20), nullable=False),
    Column("usage_bytes", Integer, nullable=False, default=0),
    Column("indexer", String(64)),
    Column("body", _JSON, nullable=False),
    UniqueConstraint("vector_store_id", "file_id"),
    Index("files_of_batch", "batch_id"),
    Index("entries_of_file", "file_id"),
    Index("files_by_status", "status", "number"),
    Index("files_in_turn", "status", "tenant", "number"),
    Index("bytes_in_stores", "tenant", "usage_bytes"),
)

# requests with an `Idempotency-Key`: the recorded `response`
requests = Table(
    "requests",
    metadata,
    Column("tenant", String(64), primary_key=True),
    Column("key", String(256), primary_key=True),
    Column("route", String(256), primary_key=True),
    Column("created_at", _TIME, nullable=False),
    Column("body_hash", String(64), nullable=False),
    Column("response", _JSON),
    Index("requests_by_age", "created_at"),
)

# `hash` is the key's SHA-256, `prefix` its first characters. `user`: for whom it acts. `scopes` null: all. `limits`:
# the key's own
keys = Table(
    "keys",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("tenant", String(64), nullable=False),
    Column("user", String(256)),
    Column("created_at", _TIME, nullable=False),
    Column("id", String(64)),
    Column("name", String(256)),
    Column("prefix", String(16)),
    Column("scopes", _JSON),
    Column("limits", _JSON),
    Column("expires_at", _TIME),
    Column("revoked_at", _TIME),
    Index("keys_by_age", "created_at"),
)

# what a tenant (`user` "") or a user of it entrusted to the server, encrypted: `sealed_secrets`
sealed_secrets = Table(
    "sealed_secrets",
    metadata,
    Column("tenant", String(64), primary_key=True),
    Column("user", String(256), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("sealed", Text, nullable=False),
    Column("changed_at", BigInteger, nullable=False),
)

# the server's own: random bytes by purpose
secrets = Table(
    "secrets", metadata, Column("name", String(64), primary_key=True), Column("value", LargeBinary, nullable=False)
)

# servers that have the database open; `seen_at` is by the database's clock
# `stops`: it takes no more runs, and ends once those that it drives have rested
processes = Table(
    "processes",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("seen_at", Float, nullable=False),
    Column("stops", Boolean, nullable=False, server_default=text("FALSE")),
)

# the baseline and the migrations that ran; `compatible`: servers of the version before may have the database open, too
versions = Table("versions", metadata, Column("version", Integer, primary_key=True), Column("compatible", Boolean))

# a limit of a tenant (or of `DEFAULT`): of `what` at most so much in each `period` ("" for a level); null: no limit
quotas = Table(
    "quotas",
    metadata,
    Column("tenant", String(64), primary_key=True),
    Column("what", String(8), primary_key=True),
    Column("period", String(8), primary_key=True),
    Column("most", BigInteger),
)

# how many bytes a tenant keeps of `what`, by triggers (`schema`). Each session of PostgreSQL adds to a `part` of its
# own, so that none waits for another
storage_used = Table(
    "storage_used",
    metadata,
    Column("tenant", String(64), primary_key=True),
    Column("what", String(16), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("bytes", BigInteger, nullable=False),
)

# what a tenant used on a `day` (since 1970, UTC). Each process adds to a `part` of its own, so none waits for another
usage_sums = Table(
    "usage_sums",
    metadata,
    Column("tenant", String(64), primary_key=True),
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("part", String(64), primary_key=True),
    Column("runs", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("cost", BigInteger, nullable=False),
)

# the same of each user of a tenant, for the days that still count
user_sums = Table(
    "user_sums",
    metadata,
    Column("tenant", String(64), primary_key=True),
    Column("user", String(256), primary_key=True),
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("part", String(64), primary_key=True),
    Column("runs", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("cost", BigInteger, nullable=False),
)

# what people always allow a user's agents: `user_records`
policies = _personal("policies", Column("body", _JSON, nullable=False))

# who did what: `audit_log`
audit_entries = _owned(
    "audit_entries",
    Column("actor", String(128), nullable=False),
    Column("action", String(32), nullable=False),
    Column("target", String(256), nullable=False),
    Column("detail", _JSON, nullable=False),
    Column("request_id", String(64)),
    Column("address", String(64)),
    Index("audit_entries_by_age", "created_at"),
)

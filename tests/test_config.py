"""``colret.toml``, ``colret config`` and ``colret completion``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from colret_cli.configuration import options_of
from colret_cli.main import cli
from tests.processes import environment

HOME = Path("home/colret/colret.toml")  # of the user, from the working folder


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", "home")
    monkeypatch.delenv("COLRET_INDEX", raising=False)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def write(text: str, path: Path = Path("colret.toml")) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def index_asked(*arguments: str) -> str:
    """Return the index that a command looks for, and does not find."""
    result = run("info", *arguments)
    assert result.exit_code == 1
    return result.stderr.removeprefix("colret: ").partition(":")[0]


def test_a_user_without_a_home_has_no_configuration_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under a number that no name belongs to."""

    def nobody(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr("pwd.getpwuid", nobody)
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    result = run("config")
    assert (result.exit_code, result.stdout) == (0, "colret.toml  (not there)\n")
    assert index_asked() == ".colret"


def test_the_command_line_wins_over_the_environment_over_files(monkeypatch: pytest.MonkeyPatch) -> None:
    assert index_asked() == ".colret"
    write('index = "of the user"', HOME)
    assert index_asked() == "of the user"
    write('index = "of the folder"')
    assert index_asked() == "of the folder"
    write('index = "of the folder"\n[info]\nindex = "of the command"')
    assert index_asked() == "of the command"
    monkeypatch.setenv("COLRET_INDEX", "of the environment")
    assert index_asked() == "of the environment"
    assert index_asked("--index", "of the line") == "of the line"


def test_files_set_options_of_any_command() -> None:
    write(
        """
        device = "cpu"
        [query]
        k = 3
        lane = "text"
        per-document = true
        doc = ["a*", "b*"]
        pages = 7
        [ingest]
        page-seconds = 12.5
        ["eval run"]
        out = "elsewhere"
        """
    )
    shown = run("query", "--help").output
    assert "[default: 3; x>=1]" in shown
    result = run("config", "--json")
    assert result.exit_code == 0, result.output
    settings = json.loads(result.stdout)["settings"]
    assert [(each["command"], each["option"], each["value"]) for each in settings] == [
        ("", "device", "cpu"),
        ("query", "k", 3),
        ("query", "lane", "text"),
        ("query", "per-document", True),
        ("query", "doc", ["a*", "b*"]),
        ("query", "pages", 7),
        ("ingest", "page-seconds", 12.5),
        ("eval run", "out", "elsewhere"),
    ]


def test_config_tells_what_is_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    write("[query]\nk = 3", HOME)
    write('index = "archive"\n[query]\nk = 4')
    monkeypatch.setenv("COLRET_INDEX", "other")
    assert run("config").stdout.splitlines() == [
        "colret.toml",
        str(HOME),
        "--index other  from COLRET_INDEX",
        "--index archive  from colret.toml  (overridden)",
        "colret query -k 4  from colret.toml",
        f"colret query -k 3  from {HOME}  (overridden)",
    ]


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("[query]\ndoc = ['*.pdf', 'b']", "colret query --doc '*.pdf' --doc b"),
        ("[query]\ndoc = []", "colret query --doc []"),
        ("[query]\nper-document = true", "colret query --per-document"),
        ("[query]\nper-document = false", "colret query --per-document false"),
        ("[query]\nwhere = \"file  = 'a b'\"", """colret query --where 'file  = '"'"'a b'"'"''"""),
        ("['eval run']\nout = 'my report'", "colret eval run --out 'my report'"),
        ("storage-option = ['aws_region=eu', 'b=c']", "--storage-option aws_region=... --storage-option b=..."),
        ("index = 'of\u202eall'", "--index 'of\\u202eall'"),
    ],
)
def test_config_shows_what_could_be_typed(text: str, typed: str) -> None:
    write(text)
    assert run("config").stdout.splitlines()[2:] == [f"{typed}  from colret.toml"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[query]\nlanes = 'text'", "colret query has no option 'lanes'; did you mean 'lane'?"),
        ("[query]\nxyz = 1", "colret query has no option 'xyz'; its options are after, before, "),
        ("[qery]\nk = 1", "there is no command 'qery'; did you mean 'query'?"),
        ("['eval runs']\nout = 'x'", "there is no command 'eval runs' with options; did you mean 'eval run'?"),
        ("[eval]\nout = 'x'", "there is no command 'eval' with options; "),
        ("inde = 'x'", "there is no option 'inde' of all commands; did you mean 'index'?"),
        ("[query]\nk = 0", "[query] k = 0: does not take it: 0 is not in the range x>=1.; correct it there"),
        ("[query]\nk = true", "[query] k = True: wants no true or false; correct it there"),
        ("[query]\nexact = 1", "[query] exact = 1: wants true or false; correct it there"),
        ("[query]\ndoc = 'x'", "[query] doc = 'x': wants a list; correct it there"),
        ("[query]\nlane = ['text']", "[query] lane = ['text']: wants no list; correct it there"),
        ("[query]\nlane = 2023-01-01", "wants a text or a number; correct it there"),
        ("[query]\ndoc = [['x']]", "[query] doc = [['x']]: wants a list of texts or numbers; correct it there"),
        ("[query]\ndoc = [true]", "wants a list of texts or numbers; correct it there"),
        ("[query]\ndoc = ['x', {}]", "wants a list of texts or numbers; correct it there"),
        ("index = ''", "index = '': does not take it: name a folder; correct it there"),
        ("[query", "is not TOML: "),
    ],
)
def test_what_is_wrong_in_a_file_is_one_line(text: str, message: str) -> None:
    write(text)
    result = run("config")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert result.stderr.startswith("colret: colret.toml: ")
    assert message in result.stderr


def test_a_file_of_bytes_or_a_folder_is_one_line() -> None:
    Path("colret.toml").write_bytes(b"\xff\xfe")
    assert "is not TOML" in run("config").stderr
    Path("colret.toml").unlink()
    Path("colret.toml").mkdir()
    assert "is no regular file" in run("config").stderr


@pytest.mark.skipif(os.name == "nt", reason="needs files of POSIX")
@pytest.mark.parametrize("kind", ["pipe", "no end", "link to itself"])
def test_what_is_no_regular_file_is_one_line(kind: str) -> None:
    path = Path("colret.toml")
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "no end" else path)
    result = run("info")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    said = "cannot be read (Too many levels of symbolic links)" if kind == "link to itself" else "is no regular file"
    assert result.stderr.startswith(f"colret: colret.toml: {said}; ")


def test_a_huge_file_is_one_line() -> None:
    write("#" * 1_000_001)
    assert (
        run("info").stderr == "colret: colret.toml: has more than 1,000,000 bytes; put a file of TOML there, or none\n"
    )


def test_a_file_of_another_system_is_read() -> None:
    Path("colret.toml").write_bytes(b"\xef\xbb\xbfindex = 'x'\r\n[query]\r\n")
    assert index_asked() == "x"


def test_one_commands_mistake_stops_no_other() -> None:
    write("[query]\nlanes = 'text'")
    assert run("models").exit_code == 0
    assert run("query", "bread").exit_code == 1


def test_every_option_has_a_name_of_its_own_in_files() -> None:
    def check(command: click.Command, ctx: click.Context) -> None:
        if isinstance(command, click.Group):
            for name in command.list_commands(ctx):
                part = command.get_command(ctx, name)
                assert part is not None
                check(part, ctx)
            return
        options = [each for each in command.params if isinstance(each, click.Option)]
        assert len(options_of(command)) == len(options)

    check(cli, click.Context(cli))


# Completion


def completed(line: str, shell: str = "bash") -> list[str]:
    words = line.split(" ")
    variables = {
        "_COLRET_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    result = CliRunner().invoke(cli, [], prog_name="colret", env=variables)
    return result.stdout.split()


def test_commands_options_and_values_are_completed() -> None:
    write("[query]\nlanes = 'broken'")
    assert completed("colret qu") == ["plain,query"]
    assert set(completed("colret query --pre")) == {"plain,--prefilter"}
    assert completed("colret query --lane ") == ["plain,visual", "plain,text", "plain,both"]
    assert completed("colret info --index arch") == ["dir,arch"]
    assert completed("colret ingest rep") == ["file,rep"]
    assert completed("colret query x --doc rep") == ["file,rep"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell_is_one_that_it_reads(shell: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0, result.output
    assert f"_COLRET_COMPLETE={shell}_complete" in result.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=result.stdout, text=True, check=True)


def test_bash_completes_with_the_script(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    program = tmp_path / "bin" / "colret"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m colret_cli "$@"\n')
    program.chmod(0o755)
    script = run("completion", "bash").stdout
    asked = 'COMP_WORDS=(colret query --la); COMP_CWORD=2; _colret_completion colret --la query; echo "${COMPREPLY[@]}"'
    path = f"{program.parent}:/usr/bin:/bin"
    done = subprocess.run(
        [bash, "-c", f"{script}\n{asked}"],
        capture_output=True,
        text=True,
        env=environment() | {"PATH": path},
        check=True,
    )
    assert done.stdout == "--lane\n"

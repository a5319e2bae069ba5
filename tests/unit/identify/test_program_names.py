"""Names of programs out of what people and tools write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.identify import (
    TEXT_MAX,
    cleaned,
    is_nameless,
    is_vague,
    normalised_job_name,
    program_of_container,
    program_of_executable,
    program_of_module,
)
from tests.kit.cases import each


@each(
    "repeats",
    [
        ("run1", "run7", "run123"),
        ("md_042", "md_43"),
        ("job-2026-01-03", "job-2026-11-30", "job-20260103"),
        ("x_12345", "x_1"),
        ("lmp_64nodes", "lmp_128nodes", "lmp_4n"),
        ("hpl_np16", "hpl_np512"),
        ("gmx.20260103T120000", "gmx.20261130T235959"),
        ("lammps-29Aug2024", "lammps-1Jan2026"),
        ("arr_[3]", "arr_[17]", "arr_[1-100%8]"),
        ("solver_3f2a9c1e77", "solver_0b9d8c7e61"),
        ("qc_9_20220404p17w03s5", "qc_10_20230417p18w01s2"),
        ("grid_16x8", "grid_2x4x8"),
        ("cp2k_7.sh", "/home/u1/cp2k_8.sh"),
        ("wrf 2026-01-03 12:30", "wrf 2026-01-04 00:15"),
    ],
)
def test_repeats_of_one_job_fall_together(repeats: tuple[str, ...]) -> None:
    names = {normalised_job_name(name) for name in repeats}
    assert len(names) == 1
    assert names != {""}


@pytest.mark.parametrize(
    "programs",
    [
        ("cp2k", "cp3k"),
        ("h5bench_1", "ior_1"),
        ("3dfft", "2dfft"),
        ("lj_32k", "lj_256k"),
        ("gmx_prod_07", "gmx_equil_07"),
        ("qe-scf", "qe-nscf"),
        ("1AKI", "2LZM"),
    ],
)
def test_different_programs_stay_apart(programs: tuple[str, ...]) -> None:
    assert len({normalised_job_name(name) for name in programs}) == len(programs)


@each("name", ["12345", "2026-01-03", "16x8", "  ", "", "__", "[1-10]", "7.sh"])
def test_a_job_name_of_numbers_only_names_nothing(name: str) -> None:
    assert normalised_job_name(name) == ""


@each(
    "name",
    [
        "interactive",
        "wrap",
        "bash",
        "sh",
        "python",
        "python3.11",
        "srun",
        "mpirun",
        "bash-5.1",
        "R",
        "Rscript",
        "wrap.sh",
        "OOD Jupyter",
    ],
)
def test_shells_interpreters_launchers_and_sessions_name_nothing(name: str) -> None:
    assert is_nameless(normalised_job_name(name))


@pytest.mark.parametrize("name", ["lmp", "gmx_mpi", "cp2k.psmp", "pythonia", "bashful", "vasp_std", "xhpl"])
def test_programs_are_not_taken_for_shells(name: str) -> None:
    assert not is_nameless(name)
    assert not is_vague(name)


@pytest.mark.parametrize("name", ["run#", "job", "test.#", "a", "my_job#", "x_#"])
def test_words_that_any_program_may_go_by_are_vague(name: str) -> None:
    assert is_vague(name)


@pytest.mark.parametrize(
    ("path", "program"),
    [("/opt/lammps/lmp", "lmp"), ("lmp", "lmp"), ("/usr/bin/gmx_mpi/", "gmx_mpi"), ("", ""), ("/", "")],
)
def test_an_executable_gives_its_file_name(path: str, program: str) -> None:
    assert program_of_executable(path) == program


@each(
    ("module", "program"),
    [
        ("lammps/2024", "lammps"),
        ("chem/lammps/2024.08-gpu", "lammps"),
        ("GROMACS/v2024.1", "GROMACS"),
        ("vasp", "vasp"),
        ("gcc:openmpi:lammps", ""),
        ("gcc openmpi", ""),
        ("2024", "2024"),
        ("", ""),
    ],
)
def test_a_module_gives_its_name_without_the_version(module: str, program: str) -> None:
    assert program_of_module(module) == program


@pytest.mark.parametrize(
    ("image", "program"),
    [
        ("docker://nvcr.io/hpc/lammps:29Aug2024", "lammps"),
        ("registry:5000/ns/qe@sha256:abcd", "qe"),
        ("/images/gromacs_2024.sif", "gromacs_#"),
        ("", ""),
    ],
)
def test_a_container_gives_the_name_of_its_image(image: str, program: str) -> None:
    assert program_of_container(image) == program


def test_two_long_names_do_not_become_one_by_being_cut() -> None:
    assert cleaned("x" * 300 + "a") != cleaned("x" * 300 + "b")


@given(st.text(max_size=2000))
def test_any_text_gives_a_short_printable_name(text: str) -> None:
    for program in (normalised_job_name, program_of_executable, program_of_module, program_of_container, cleaned):
        name = program(text)
        assert len(name) <= TEXT_MAX
        assert not name or name.isprintable()
        is_nameless(name)
        is_vague(name)


@given(st.from_regex(r"[a-z]{3,8}_[0-9]{1,6}", fullmatch=True))
def test_a_normalised_name_stays_as_it_is(name: str) -> None:
    once = normalised_job_name(name)
    assert normalised_job_name(once) == once

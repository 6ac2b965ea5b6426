import pytest

from shapiq_oddshap.__main__ import main


def test_demo_prints_attributions_beside_exact_ones(tmp_path, capsys):
    main(["--budget", "400", "--row", "3", "--output", str(tmp_path / "plot.png")])
    printed = capsys.readouterr().out
    assert "worst concave points" in printed
    assert float(printed.split("Mean squared error over 30 features:")[1].split()[0]) < 0.01
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "wrong", [["--row", "9999"], ["--budget", "many"], ["--output", "missing/plot.png"]]
)
def test_demo_refuses_bad_options(wrong, capsys):
    with pytest.raises(SystemExit):
        main(wrong)
    assert "usage:" in capsys.readouterr().err

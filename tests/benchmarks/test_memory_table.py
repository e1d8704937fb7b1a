from __future__ import annotations

from benchmarks import memory_table
from suite import store
from tests.helpers.records import make_environment, make_launch, make_run, with_memory


def saved(runs, world_size, launch):
    run = make_run(layout={"world_size": world_size})
    folder = store.open_run(runs, run, make_environment())
    folder.save_launch(launch)
    return str(folder.finish("complete", None)[1])


def test_runs_side_by_side_and_those_without_a_profile_left_out(tmp_path, monkeypatch, capsys):
    two = saved(tmp_path, 2, with_memory(make_launch(0, [10.0, 10.0]), [2 << 20, 5 << 20]))
    one = saved(tmp_path, 1, with_memory(make_launch(0, [10.0]), [3 << 20]))
    bare = saved(tmp_path, 1, make_launch(0, [10.0]))
    monkeypatch.setattr("sys.argv", ["memory_table", two, one, bare])
    memory_table.main()
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["T=1", "T=2"] in rows
    assert ["activations", "3", "MiB", "5", "MiB"] in rows
    assert ["modelled", "-", "-"] in rows
    assert ["the", "peak", "is", "in", "dense_backward", "dense_backward"] in rows

"""A profile of a hundred million events: a program is kept once, so the file is small, and a window costs what it shows."""

from trine import _core, profile
from trine.profile import assemble

RUNS = 12_000
LOOP = """program long
tensor a hbm f32[128,512] input
tensor out hbm f32[128,512] output
tensor t sbuf f32[128,512] at 0:0
stream sync
  dma_copy dst=t src=a queue=1 then s0+=16
  dma_copy dst=out src=t queue=2 wait s1>=8192 then s2+=16
stream vector
  loop 8192
    tensor_tensor dst=t data1=t data2=t op=add wait s0>=16 then s1+=1
  end_loop
"""


def test_hundred_million_events(tmp_path):
    (tmp_path / "long.tasm").write_text(LOOP)
    assembly = assemble.Assembly(tmp_path / "p.ntff", "trn2.3xlarge")
    row = assembly.kernel("long", _core.Program.load(str(tmp_path / "long.tasm")), "long")
    assert not assembly.programs[row]["why_not"], assembly.programs[row]["why_not"]
    assembly.lay(0, [("program", row, 0, 0, 0)] * RUNS)
    info = assembly.finish()
    events = info["programs"][0]["events"] * RUNS
    assert events > 98_000_000 and (tmp_path / "p.ntff").stat().st_size < 4_000_000
    p = profile.open(tmp_path / "p.ntff")
    vector = next(t["id"] for t in p.tracks() if t["name"] == "vector")
    whole = p.window([vector], 0, info["end_ns"] + 1, 2000)[vector]
    assert whole["count"].sum() == 8192 * RUNS and len(whole) <= 4000
    middle = info["end_ns"] // 2
    near = p.window([vector], middle, middle + 20_000, 2000)[vector]
    assert len(near) > 1 and p.event(near[near["event"] >= 0][0]["event"])["name"] == p.names()[near[near["event"] >= 0][0]["name"]]
    assert info["steps"] == RUNS

# SPDX-License-Identifier: MIT
"""After each instruction of sqlite3 from main on, a walk by rules is whole and has the calls that the program made.

DP_STEPS in the environment is the number of instructions; 10000000 take two minutes of CPU time."""
import os
import shutil

from harness import HOOKS, main, run, skip

SQL = """create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
insert into t select i, 'text ' || (i * 7919 % 1000), i * 0.5 from n;
create index tb on t(b);
select b, count(*), sum(c) from t group by b order by 3 desc limit 5;
select count(*) from t x join t y on x.b = y.b where x.a < 500;
select avg(length(b)), max(b) from t where b like '%9%';
update t set c = c + 1 where a % 3 = 0;
delete from t where a % 5 = 0;
select json_group_array(a) from (select a from t limit 50);
drop table t;
"""


def that_a_walk_after_each_instruction_is_whole_and_true():
    steps, sqlite = os.path.join(HOOKS, 'libsteps.so'), shutil.which('sqlite3')
    if not os.path.exists(steps) or not sqlite:
        skip('no sqlite3, or no trap flag')
    n = int(os.environ.get('DP_STEPS', 60000))
    r = run([sqlite, ':memory:', SQL * (1 + n // 50000000)], preload=False, extra={'LD_PRELOAD': steps, 'DP_STEPS': str(n)}, timeout=3600)
    print(r.stderr)
    assert r.status == 0, r
    seen = {words[0]: float(words[1]) for words in map(str.split, r.stderr.splitlines()) if words[0] != '#'}
    assert seen['steps_program_n'] >= n / 2, seen  # of a short program there may be fewer
    assert seen['steps_program_whole'] >= 99.9 and seen['steps_program_equal'] >= 99.9, seen
    assert seen['steps_program_depth'] > 5, seen


main(globals())

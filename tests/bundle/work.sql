create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
    insert into t select i, printf('%d-%s', i * 7919 % 4000, hex(i)), i / 3.0 from n;
create index tb on t(b);
select count(*), max(length(b)) from t where b like '3%';
select sum(c) from (select b, c from t order by c desc, b limit 10000);

-- The weeks before this one, as the present ones are made.
do $$
declare
  week int;
  begins timestamptz;
  name text;
begin
  for week in 1..4 loop
    begins := date_trunc('week', clock_timestamp() at time zone 'UTC') at time zone 'UTC' - week * interval '7 days';
    foreach name in array array['jobs', 'attempts'] loop
      execute format('create table windlass.%I partition of windlass.%I for values from (%L) to (%L)',
        name || '_p' || to_char(begins at time zone 'UTC', 'YYYYMMDD'), name,
        windlass.uuid7_from(begins), windlass.uuid7_from(begins + interval '7 days'));
    end loop;
  end loop;
end $$

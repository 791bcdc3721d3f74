-- The tables of the former release become the first partitions of those of 0050_log_partitions.sql. Their constraints
-- prove that all rows belong there, and their indexes become parts of the indexes of the tables.
do $$
declare
  pair text[];
  ends text;
begin
  foreach pair slice 1 in array array[['device_event_logs', 'event_logs_recent'], ['agent_logs', 'diagnostic_logs_recent']] loop
    select substring(pg_get_constraintdef(oid) from $re$'([^']+)'$re$) into strict ends
    from pg_constraint where conname = pair[1] || '_first_partition';
    execute format('alter table %I attach partition %I for values from (minvalue) to (%L)', pair[2], pair[1], ends);
    -- The bounds of the partition say the same.
    execute format('alter table %I drop constraint %I', pair[1], pair[1] || '_first_partition');
    perform add_partitions(pair[2], ends::timestamptz, ends::timestamptz);
  end loop;
end
$$;

import { z } from 'zod';
import { logRetentionOf } from '../log-retention/index.ts';
import { REPORT_ROWS_MAX, reportPart } from '../report-part.ts';

const count = z.number().int();
const runs = { runs: count, succeeded: count };

const CommandReport = z
  .object({
    scripts: z.object(runs).describe('A script that exits with another code than 0 has not succeeded.'),
    commands: z.object(runs).describe('All others.'),
    devices: count.describe('Devices that were sent one.'),
    topScripts: z
      .array(z.object({ name: z.string().nullable(), ...runs }))
      .describe('Those that ran most often; without a name if the script was deleted.'),
    scriptCount: count.describe('How many scripts ran; those that were deleted count as one.'),
    topCommands: z.array(z.object({ type: z.string(), ...runs })),
    commandCount: count.describe('How many kinds of commands there were.'),
  })
  .meta({ id: 'CommandReport' });

/** Of the commands that ended in the time. What belongs to a backup or other work is counted there. */
export const commandReport = reportPart({
  shape: CommandReport,
  keptDays: async (ctx, orgId) => (await logRetentionOf(ctx, orgId)).commandDays,
  async read({ tx }, { orgId, from, to }) {
    const tally = `count(*)::integer as runs, (count(*) filter (where ok))::integer as succeeded`;
    const { rows } = await tx.raw<{ rows: [z.input<typeof CommandReport>] }>(
      `with ended as materialized (
        select c.device_id, c.type, c.script_id, c.type = 'script.run' as is_script,
          c.status = 'succeeded' and (c.type <> 'script.run' or c.output -> 'exitCode' = '0') as ok
        from commands c
        where c.org_id = :orgId and c.finished_at >= :from and c.finished_at < :to and c.work_id is null
      ), of_scripts as (select script_id, ${tally} from ended where is_script group by 1),
      of_types as (select type, ${tally} from ended where not is_script group by 1)
      select (select to_jsonb(t) from (select ${tally} from ended where is_script) t) as scripts,
        (select to_jsonb(t) from (select ${tally} from ended where not is_script) t) as commands,
        (select count(distinct device_id)::integer from ended) as devices,
        (select coalesce(jsonb_agg(jsonb_build_object('name', s.name, 'runs', t.runs, 'succeeded', t.succeeded)
            order by t.runs desc, t.script_id), '[]')
          from (select * from of_scripts order by runs desc, script_id limit ${REPORT_ROWS_MAX}) t
          left join scripts s on s.id = t.script_id) as "topScripts",
        (select count(*)::integer from of_scripts) as "scriptCount",
        (select coalesce(jsonb_agg(to_jsonb(t)), '[]')
          from (select * from of_types order by runs desc, type limit ${REPORT_ROWS_MAX}) t) as "topCommands",
        (select count(*)::integer from of_types) as "commandCount"`,
      { orgId, from, to },
    );
    return rows[0];
  },
});

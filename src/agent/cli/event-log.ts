import { type Command, InvalidArgumentError } from 'commander';
import type { z } from 'zod';
import { type LogConditions, type LogEntry, LogQuery, LogTail } from '../../protocol/index.ts';
import { openEventLogs } from '../capabilities/event-logs/open-event-logs.ts';

/** Shows on this machine exactly what the server would see. */

interface Conditions {
  level?: string;
  source?: string;
  id?: string;
  text?: string;
  since?: string;
  until?: string;
  json: boolean;
}

export function addEventLog(program: Command): void {
  const command = program
    .command('eventlog')
    .description('show the event logs of this machine as the server sees them');

  command
    .command('list')
    .description('list the logs')
    .option('--json', 'print one JSON object per line', false)
    .action(async ({ json }: { json: boolean }) => {
      const { reader } = await openEventLogs();
      for (const log of await reader.list(interrupted())) {
        if (json) console.log(JSON.stringify(log));
        else {
          console.log(
            `${log.name.padEnd(32)} ${String(log.recordCount).padStart(10)} records  last written ${log.lastWriteTime || 'never'}`,
          );
        }
      }
    });

  withConditions(command.command('show <name>').description('show entries, newest first'))
    .option('-n, --limit <count>', 'number of entries', '20')
    .option('--page <number>', 'page to show', '1')
    .action(async (name: string, options: Conditions & { limit: string; page: string }) => {
      const query = checked(LogQuery, {
        name,
        ...conditionsOf(options),
        page: Number(options.page),
        limit: Number(options.limit),
      });
      const entries = (await openEventLogs()).reader.query(query, interrupted());
      let step = await entries.next();
      for (; step.done !== true; step = await entries.next()) print(step.value, options.json);
      const { truncated, note, lookedBackTo } = step.value;
      const further = lookedBackTo === undefined ? '' : ` Go on with --until ${lookedBackTo}.`;
      if (truncated) console.error(`Not everything was read. ${note ?? ''}`.trim() + further);
    });

  withConditions(
    command.command('tail <name>').description('show new entries as they are written, until Ctrl+C'),
  ).action(async (name: string, options: Conditions) => {
    const query = checked(LogTail, { name, ...conditionsOf(options) });
    for await (const entry of (await openEventLogs()).reader.tail(query, interrupted())) {
      print(entry, options.json);
    }
  });
}

function withConditions(command: Command): Command {
  return command
    .option(
      '--level <levels>',
      'one or more of information, warning, error, critical, verbose, separated by commas',
    )
    .option('--source <name>', 'source of the entry')
    .option('--id <number>', 'event id')
    .option('--text <text>', 'part of the message')
    .option('--since <time>', 'at or after, ISO 8601')
    .option('--until <time>', 'at or before, ISO 8601')
    .option('--json', 'print one JSON object per line', false);
}

function conditionsOf(options: Conditions): { [K in keyof LogConditions]?: unknown } {
  const { level, source, id, text, since, until } = options;
  const given = {
    level: level?.split(','),
    source,
    eventId: id === undefined ? undefined : Number(id),
    text,
    startTime: since,
    endTime: until,
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

function checked<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new InvalidArgumentError(
    parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('\n'),
  );
}

/** Aborted by Ctrl+C, which also ends the programs that read the logs. */
function interrupted(): AbortSignal {
  const controller = new AbortController();
  process.once('SIGINT', () => controller.abort());
  return controller.signal;
}

function print(entry: LogEntry, json: boolean): void {
  if (json) console.log(JSON.stringify(entry));
  else console.log(`${entry.timeCreated}  ${entry.level.padEnd(11)}  ${entry.source}: ${entry.message}`);
}

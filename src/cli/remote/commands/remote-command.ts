import { type Command, InvalidArgumentError } from 'commander';
import { z } from 'zod';
import { clock } from '../../../clock.ts';
import { Instant } from '../../../protocol/index.ts';
import type { CommandIo, CommandLine } from '../../io.ts';
import { visible } from '../output.ts';
import { EXIT, RemoteFailure } from '../profiles.ts';

/**
 * What the commands for a remote server have in common. They use its public REST API and the socket of dashboards, with
 * an API key, and need neither a database nor any setting of the server.
 */

export const EXIT_CODES = `
Exit codes: 0 done, 1 a device did not answer or the job failed, 2 invalid call or another failure, 3 not signed in,
4 a right is missing, 5 the server cannot be reached, 130 interrupted.
In JSON output, each line is one object.`;

/** Makes an action of Commander from work: its failures end with a message and the exit code of their kind. */
export const remoteAction =
  ({ io, action }: CommandLine) =>
  <Given extends unknown[]>(work: (...given: Given) => Promise<number>) =>
    action((...given: Given) => exitCodeOf(io, () => work(...given)));

export function forConnection(command: Command): Command {
  return command
    .option('--profile <name>', 'the server to use, if you are signed in to several', parsed(ProfileName))
    .option('--json', 'print JSON')
    .addHelpText('after', EXIT_CODES);
}

/** The options with which devices are found by conditions. */
export const withConditions = (command: Command): Command =>
  command
    .option(
      '--where <condition>',
      'the devices that match, such as "osType equals windows"; may be repeated',
      list,
    )
    .option('--conditions <json>', 'the same as JSON, in the form that filters have; @file reads a file');

/** Far longer than any sentence of ours. */
const MESSAGE_MAX = 2000;

/** The options of commands that change devices, which are their last arguments. */
export const forActing = (command: Command): Command =>
  withConditions(forConnection(command))
    .argument(
      '[devices...]',
      'host names, display names or ids; group:<name> and filter:<name> are all devices of one',
    )
    .option('--yes', 'do not ask before several devices are changed')
    .option('--dry-run', 'show which devices would be changed, and change nothing');

/** Words between commas. */
export const words = (text: string): string[] =>
  text
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '');

async function exitCodeOf({ stderr }: CommandIo, work: () => Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (error) {
    // The message may come from the server, or name a device.
    const message = error instanceof Error ? error.message : String(error);
    stderr.write(`${visible(message.slice(0, MESSAGE_MAX))}\n`);
    return error instanceof RemoteFailure ? error.exit : EXIT.failed;
  }
}

export const Id = z.uuid('must be an id').toLowerCase();
export const ProfileName = z
  .string()
  .regex(/^[\w.-]{1,64}$/, 'must have 1 to 64 letters, digits, dots, dashes or underscores');
export const Limit = z.coerce.number('must be a number').int().min(1);

export function parsed<T>(schema: z.ZodType<T>): (text: string) => T {
  return (text) => {
    const result = schema.safeParse(text);
    if (result.success) return result.data;
    throw new InvalidArgumentError(`${result.error.issues[0]?.message ?? 'It is not valid'}.`);
  };
}

export const list = (text: string, before: string[] = []): string[] => [...before, text];

const UNITS_MS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A time with its offset, or an age. */
export const moment = (text: string): string => timeOf(text, -1);

/** A time with its offset, or how long it is until then. */
export const later = (text: string): string => timeOf(text, 1);

function timeOf(text: string, direction: 1 | -1): string {
  const { count, unit = '' } = /^(?<count>\d{1,6})(?<unit>[smhd])$/.exec(text)?.groups ?? {};
  if (count !== undefined) {
    const spanMs = Number(count) * (UNITS_MS[unit] ?? 0);
    return new Date(clock.now() + direction * spanMs).toISOString();
  }
  const time = Instant.safeParse(text);
  if (time.success) return text;
  throw new InvalidArgumentError('It must be a time such as 2026-01-31T08:00:00Z, or a span such as 30m.');
}
